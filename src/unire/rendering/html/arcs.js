"use strict";

/**
 * The relations of a document as arcs above its text, which remains ordinary text and wraps.
 *
 * Every line of text gets space for the arcs above it, in lanes, shorter ones below longer ones. If head and
 * tail are in different lines, each gets a stub that names the other.
 *
 *     const arcs = new Arcs(text, [{ head: 0, tail: 1, label: "USED-FOR", colour: 3, positions: [0] }]);
 *     arcs.shown = [true];  // whether each relation is drawn
 *     arcs.draw();          // call again after every new layout of the text
 *     arcs.point([0]);      // highlight some, or none
 *
 * The lines of all arcs are below the names of all arcs, so that no line crosses a name.
 */
class Arcs {
  /** The height of a name: fingers need more than a mouse. */
  static LANE = matchMedia("(pointer: coarse)").matches ? 24 : 19;
  static ROUND = 5;
  static STUB = 12;
  static PEN = document.createElement("canvas").getContext("2d");

  /**
   * `relations` point at the elements of `text` whose `data-entity` is their head and tail. A relation with two
   * positions was found in both directions.
   */
  constructor(text, relations) {
    this.text = text;
    this.arcs = relations.map((relation, i) => ({ ...relation, i, both: relation.positions.length > 1 }));
    this.shown = relations.map(() => true);
    this.layer = svg("svg", { class: "arcs", "aria-hidden": "true" });
    this.lines = svg("g");
    this.names = svg("g");
    this.layer.append(this.lines, this.names);
    text.append(this.layer);
  }

  draw() {
    if (!this.text.clientWidth) return; // folded away
    for (const word of this.text.querySelectorAll(".w.first")) word.classList.remove("first");
    const arcs = this.arcs.filter(({ i }) => this.shown[i]);
    const frame = this.text.getBoundingClientRect();
    const rows = this.rows();
    Arcs.PEN.font = `600 11px ${getComputedStyle(this.text).fontFamily}`;
    const pieces = this.placed(arcs, rows, frame).flatMap((ends, k) => this.pieces(ends, arcs[k], frame.width));
    rows.forEach((row, k) => this.stack(row, pieces.filter((piece) => piece.row === k)));
    // the space above the rows only moved them down
    const upper = this.text.getBoundingClientRect().top;
    for (const piece of pieces) piece.foot = rows[piece.row].words[0].getClientRects()[0].top - upper - 3;
    const group = (kind, { i, colour }) => svg("g", { class: `${kind} c${colour}`, "data-relation": i });
    const lines = new Map(arcs.map((arc) => [arc, group("arc", arc)]));
    const names = new Map(arcs.map((arc) => [arc, group("name", arc)]));
    for (const piece of pieces) {
      lines.get(piece.arc).append(...this.line(piece));
      names.get(piece.arc).append(...this.name(piece));
    }
    this.lines.replaceChildren(...lines.values());
    this.names.replaceChildren(...names.values());
    this.layer.setAttribute("width", frame.width);
    this.layer.setAttribute("height", this.text.clientHeight);
  }

  point(relations) {
    const on = new Set(relations);
    this.text.classList.toggle("pointing", on.size > 0);
    for (const element of this.layer.querySelectorAll("[data-relation]")) {
      element.classList.toggle("on", on.has(Number(element.dataset.relation)));
    }
  }

  /** The rows of words of the text in its present layout. */
  rows() {
    const rows = [];
    for (const word of this.text.querySelectorAll(".w")) {
      const { top, height } = word.getClientRects()[0];
      if (rows.length && Math.abs(rows.at(-1).top - top) < height / 2) rows.at(-1).words.push(word);
      else rows.push({ top, words: [word] });
    }
    return rows;
  }

  /** Where the arcs begin and end: side by side if several meet at an entity. */
  placed(arcs, rows, frame) {
    const rowOf = new Map(rows.flatMap((row, k) => row.words.map((word) => [word, k])));
    const end = (entity, tipped) => {
      const mark = this.text.querySelector(`[data-entity="${entity}"]`);
      const { left, width } = mark.getClientRects()[0];
      const words = [...mark.querySelectorAll(".w")];
      const name = words.map((word) => word.textContent).join(" ");
      return { entity, tipped, name, row: rowOf.get(words[0]), left: left - frame.left, width };
    };
    const meeting = new Map();
    const placed = arcs.map(({ head: first, tail: second, label, both }) => {
      const [head, tail] = [end(first, both), end(second, true)];
      for (const [here, there, arrow] of [[head, tail, both ? "↔" : "→"], [tail, head, both ? "↔" : "←"]]) {
        if (here.row === there.row) here.reach = there.left - here.left;
        else this.plan(here, there, `${label} ${arrow} `, frame.width);
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

  /** A stub to another row: towards it if there is space, else to the other side; its name is shortened to fit. */
  plan(here, there, label, width) {
    const room = { 1: width - here.left - here.width, "-1": here.left };
    const long = (name) => Arcs.STUB + Arcs.wide(label + name);
    let [way, name] = [there.row > here.row ? 1 : -1, there.name];
    if (long(name) > room[way] && room[-way] > room[way]) way = -way;
    while (name.length > 8 && (name.length > 24 || long(name) > room[way])) name = `${name.slice(0, -2)}…`;
    // farther than anything in this row; more rows between them are farther
    here.reach = way * (1e5 + Math.abs(there.row - here.row));
    here.stub = `${label}\u2068${name}\u2069`; // the name keeps its own direction
  }

  static wide(name) {
    return Arcs.PEN.measureText(name).width + 10;
  }

  /** An arc in one row, or a stub in each of two: its position, and its width with its name. */
  pieces([head, tail], arc, width) {
    if (head.row !== tail.row) {
      return [head, tail].map((here) => {
        const way = Math.sign(here.reach);
        const [middle, tip] = [0.5, 1].map((share) => here.x + way * (Arcs.STUB + share * Arcs.wide(here.stub)));
        const [from, to] = way > 0 ? [here.x, tip] : [tip, here.x];
        return { arc, row: here.row, left: way > 0 ? here : null, right: way > 0 ? null : here, from, to, middle, name: here.stub };
      });
    }
    const [left, right] = head.x <= tail.x ? [head, tail] : [tail, head];
    const half = Arcs.wide(arc.label) / 2;
    const middle = Math.max(half, Math.min(width - half, (left.x + right.x) / 2));
    const [from, to] = [Math.min(left.x, middle - half), Math.max(right.x, middle + half)];
    return [{ arc, row: head.row, left, right, from, to, middle, name: arc.label }];
  }

  /** Give every arc of a row a lane, above all that begin or end below it, and the row space for them. */
  stack(row, pieces) {
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
      row.words[0].classList.add("first");
      row.words[0].style.setProperty("--lift", `${lanes.length * Arcs.LANE + 8}px`);
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

  line({ left, right, lane, middle, name, foot }) {
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
    return [svg("path", { class: "line", d: rise + fall }), ...tips];
  }

  name({ lane, middle, name, foot }) {
    const [y, width] = [foot - (lane + 0.75) * Arcs.LANE, Arcs.wide(name)];
    const target = { x: middle - width / 2, y: y - Arcs.LANE / 2, width, height: Arcs.LANE };
    return [svg("rect", { class: "target", ...target }), svg("text", { x: middle, y }, name)];
  }
}
