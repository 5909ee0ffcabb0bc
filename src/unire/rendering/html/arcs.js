"use strict";

/** An SVG element; text goes in as text. */
function svg(name, attributes = {}, text = "") {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

/** The relations that an arc, or an item of the list, shows. */
function relationsOf(element) {
  return element.dataset.relations.split(" ").map(Number);
}

/**
 * The relations of a document as arcs above its text, which remains ordinary text and wraps.
 *
 * Every line of text gets space for the arcs above it, in lanes, shorter ones below longer ones. If head and
 * tail are in different lines, each gets a stub that names the other.
 *
 *     const arcs = new Arcs(text, [{ head: 0, tail: 1, label: "USED-FOR", colour: 3, score: 0.93 }]);
 *     arcs.draw();          // call again after every new layout of the text
 *     arcs.point([0]);      // highlight some, or none
 */
class Arcs {
  static LANE = 19;
  static ROUND = 5;
  static STUB = 12;
  static PEN = document.createElement("canvas").getContext("2d");

  /** `relations` point at the elements of `text` whose `data-entity` is their head and tail. */
  constructor(text, relations) {
    this.text = text;
    this.arcs = Arcs.merged(relations);
    this.layer = svg("svg", { class: "arcs", "aria-hidden": "true" });
    text.append(this.layer);
  }

  /** Relations found in both directions share an arc. */
  static merged(relations) {
    const arcs = new Map();
    relations.forEach((relation, i) => {
      const { head, tail, label } = relation;
      const mirror = arcs.get(JSON.stringify([tail, head, label]));
      if (mirror) mirror.relations.push(i);
      else arcs.set(JSON.stringify([head, tail, label]), { ...relation, relations: [i] });
    });
    return [...arcs.values()];
  }

  draw() {
    if (!this.text.clientWidth) return; // folded away
    this.layer.replaceChildren();
    for (const word of this.text.querySelectorAll(".w.first")) word.classList.remove("first");
    const frame = this.text.getBoundingClientRect();
    const lines = this.lines();
    const groups = this.arcs.map((arc) => svg("g", { class: `arc c${arc.colour}`, "data-relations": arc.relations.join(" ") }));
    Arcs.PEN.font = `600 11px ${getComputedStyle(this.text).fontFamily}`;
    const placed = this.placed(lines, frame);
    const pieces = placed.flatMap((ends, i) => this.pieces(ends, this.arcs[i], groups[i], frame.width));
    lines.forEach((line, i) => this.stack(line, pieces.filter((piece) => piece.line === i)));
    // the space above the lines only moved them down
    for (const piece of pieces) {
      const top = lines[piece.line].words[0].getClientRects()[0].top - this.text.getBoundingClientRect().top;
      piece.group.append(...this.elements(piece, top - 3));
    }
    this.layer.setAttribute("width", frame.width);
    this.layer.setAttribute("height", this.text.clientHeight);
    this.layer.append(...groups);
  }

  point(relations) {
    const on = new Set(relations);
    this.text.classList.toggle("pointing", on.size > 0);
    for (const element of this.layer.children) {
      element.classList.toggle("on", relationsOf(element).some((i) => on.has(i)));
    }
  }

  /** The lines of the text in its present layout. */
  lines() {
    const lines = [];
    for (const word of this.text.querySelectorAll(".w")) {
      const { top, height } = word.getClientRects()[0];
      if (lines.length && Math.abs(lines.at(-1).top - top) < height / 2) lines.at(-1).words.push(word);
      else lines.push({ top, words: [word] });
    }
    return lines;
  }

  /** Where the arcs begin and end: side by side if several meet at an entity. */
  placed(lines, frame) {
    const lineOf = new Map(lines.flatMap((line, i) => line.words.map((word) => [word, i])));
    const end = (entity, tipped) => {
      const mark = this.text.querySelector(`[data-entity="${entity}"]`);
      const { left, width } = mark.getClientRects()[0];
      const words = [...mark.querySelectorAll(".w")];
      const name = words.map((word) => word.textContent).join(" ");
      return { entity, tipped, name, line: lineOf.get(words[0]), left: left - frame.left, width };
    };
    const meeting = new Map();
    const placed = this.arcs.map((arc) => {
      const both = arc.relations.length > 1;
      const [head, tail] = [end(arc.head, both), end(arc.tail, true)];
      for (const [here, there, arrow] of [[head, tail, both ? "↔" : "→"], [tail, head, both ? "↔" : "←"]]) {
        if (here.line === there.line) here.reach = there.left - here.left;
        else this.plan(here, there, `${arc.label} ${arrow} `, frame.width);
        meeting.set(here.entity, [...(meeting.get(here.entity) ?? []), here]);
      }
      return [head, tail];
    });
    for (const ends of meeting.values()) {
      // so that they cross least: to the left near ones first, then to the right far ones first
      ends.sort((a, b) => ((a.reach < 0) === (b.reach < 0) ? b.reach - a.reach : a.reach - b.reach));
      const step = Math.min(14, ends[0].width / (ends.length + 1));
      ends.forEach((here, i) => {
        here.x = here.left + here.width / 2 + (i - (ends.length - 1) / 2) * step;
      });
    }
    return placed;
  }

  /** A stub to another line: towards it if there is space, else to the other side; its name is shortened to fit. */
  plan(here, there, label, width) {
    const room = { 1: width - here.left - here.width, "-1": here.left };
    const long = (name) => Arcs.STUB + Arcs.wide(label + name);
    let [way, name] = [there.line > here.line ? 1 : -1, there.name];
    if (long(name) > room[way] && room[-way] > room[way]) way = -way;
    while (name.length > 8 && (name.length > 24 || long(name) > room[way])) name = `${name.slice(0, -2)}…`;
    // farther than anything in this line; more lines between them are farther
    here.reach = way * (1e5 + Math.abs(there.line - here.line));
    here.stub = label + name;
  }

  static wide(name) {
    return Arcs.PEN.measureText(name).width + 10;
  }

  /** An arc in one line, or a stub in each of two: its position, and its width with its name. */
  pieces([head, tail], arc, group, width) {
    if (head.line !== tail.line) {
      return [head, tail].map((here) => {
        const way = Math.sign(here.reach);
        const [middle, tip] = [0.5, 1].map((share) => here.x + way * (Arcs.STUB + share * Arcs.wide(here.stub)));
        const [from, to] = way > 0 ? [here.x, tip] : [tip, here.x];
        return { group, line: here.line, left: way > 0 ? here : null, right: way > 0 ? null : here, from, to, middle, name: here.stub };
      });
    }
    const [left, right] = head.x <= tail.x ? [head, tail] : [tail, head];
    const half = Arcs.wide(arc.label) / 2;
    const middle = Math.max(half, Math.min(width - half, (left.x + right.x) / 2));
    const [from, to] = [Math.min(left.x, middle - half), Math.max(right.x, middle + half)];
    return [{ group, line: head.line, left, right, from, to, middle, name: arc.label }];
  }

  /** Give every arc of a line a lane, above all that begin or end below it, and the line space for them. */
  stack(line, pieces) {
    const lanes = [];
    const stub = ({ left, right }) => !(left && right);
    const order = (piece) => (stub(piece) ? 1e5 + (piece.left ? -piece.from : piece.to) : piece.to - piece.from);
    const over = (piece, other) => [other.left, other.right].some((end) => end && piece.from < end.x && end.x < piece.to);
    const waiting = [...pieces].sort((a, b) => order(a) - order(b));
    while (waiting.length) {
      const lowest = waiting.findIndex((piece) => !waiting.some((other) => other !== piece && over(piece, other)));
      const [piece] = waiting.splice(Math.max(lowest, 0), 1);
      const clear = (other) => piece.to + 3 <= other.from || other.to + 3 <= piece.from;
      const above = lanes.findLastIndex((lane) => lane.some((other) => over(piece, other))) + 1;
      piece.lane = lanes.findIndex((lane, i) => i >= above && lane.every(clear));
      if (piece.lane < 0) piece.lane = lanes.push([]) - 1;
      lanes[piece.lane].push(piece);
    }
    for (const piece of pieces) Arcs.clear(piece, pieces, this.text.clientWidth);
    if (lanes.length) {
      line.words[0].classList.add("first");
      line.words[0].style.setProperty("--lift", `${lanes.length * Arcs.LANE + 8}px`);
    }
  }

  /** Move the name of an arc, as little as possible, to where no end of a higher arc crosses it. */
  static clear(piece, pieces, width) {
    const { left, right, lane, middle, name } = piece;
    const half = Arcs.wide(name) / 2;
    const ends = pieces.filter((other) => other.lane > lane).flatMap((other) => [other.left, other.right]);
    const crossing = ends.filter(Boolean).map((end) => end.x);
    const beside = pieces.filter((other) => other.lane === lane && other !== piece);
    const free = (at) =>
      (left?.x ?? 0) <= at - half && at + half <= (right?.x ?? width) && crossing.every((x) => Math.abs(x - at) >= half) &&
      beside.every(({ from, to }) => at + half + 3 <= from || to + 3 <= at - half);
    if (free(middle)) return;
    const places = crossing.flatMap((x) => [x - half - 1, x + half + 1]).filter(free);
    places.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
    piece.middle = places[0] ?? middle;
    [piece.from, piece.to] = [Math.min(piece.from, piece.middle - half), Math.max(piece.to, piece.middle + half)];
  }

  elements({ left, right, lane, middle, name }, foot) {
    const y = foot - (lane + 0.75) * Arcs.LANE;
    const round = left && right ? Math.min(Arcs.ROUND, (right.x - left.x) / 2) : Arcs.ROUND;
    const half = Arcs.wide(name) / 2 - 2;
    const rise = left ? `M${left.x} ${foot}V${y + round}q0 ${-round} ${round} ${-round}` : `M${middle + half} ${y}`;
    const fall = right ? `H${right.x - round}q${round} 0 ${round} ${round}V${foot}` : `H${middle - half}`;
    const tips = [left, right].filter(Boolean).map(({ x, tipped }) =>
      tipped
        ? svg("path", { class: "tip", d: `M${x} ${foot + 3}l-4 -7h8z` })
        : svg("circle", { class: "tip", cx: x, cy: foot, r: 2.5 }),
    );
    return [svg("path", { class: "line", d: rise + fall }), ...tips, svg("text", { x: middle, y }, name)];
  }
}
