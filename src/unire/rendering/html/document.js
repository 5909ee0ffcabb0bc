"use strict";

/** Whole numbers below 2¹⁶, from base64 of compressed little-endian pairs of bytes. */
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const view = new DataView(await new Response(stream).arrayBuffer());
  return Uint16Array.from({ length: view.byteLength / 2 }, (_, i) => view.getUint16(2 * i, true));
}

/** Call `draw` whenever the width of `element` has changed, but not its height, which `draw` itself may change. */
function onWidth(element, draw) {
  let width = 0;
  new ResizeObserver(([{ contentRect }]) => {
    if (contentRect.width && contentRect.width !== width) {
      width = contentRect.width;
      draw();
    }
  }).observe(element);
}

/**
 * A document on a page: arcs over its text, a list of its relations beside it, and a table for each sentence.
 *
 * `root` has a `.text` with a `.sentence` for each sentence, after each a fold `.sentence-tables` for its tables, and
 * a `.side` for the list. `data` has `entities`, `relations` and `tables`. Pointing at an entity, an arc or an item of
 * the list highlights what belongs to it; a click keeps that, and goes from the text to the list or back.
 *
 *     const view = new DocumentView(root, labels, data, selection);
 *     view.update(data, selection);                         // after another decoding
 *     view.select(selection);                               // show some only: `entities` and `relations`, true or false
 *     view.fill = async (sentence) => [...];                // loads the cells, if the tables come without
 *     view.onTable = (table) => ...;                        // is called with each TableView before it is drawn
 */
class DocumentView {
  static all = new Set();

  constructor(root, labels, data, selection) {
    Object.assign(this, { root, labels, opened: [], far: true, text: root.querySelector(".text"), onTable: () => {} });
    this.fill = async (sentence) => this.data.tables.filter((table) => table.sentence === sentence);
    this.list = html("ul", { class: "relations", role: "listbox", "aria-label": "Relations" });
    this.none = html("p", { class: "aside" });
    this.note = html("div", { class: "note", role: "status" });
    root.querySelector(".side").replaceChildren(this.list, this.none);
    root.append(this.note);
    this.settle = [[this.text, "mark.entity"], [this.text, ".sentence-tables > summary"], [this.list, "li"]].map((list) => oneTabStop(...list));
    this.update(data, selection);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.text);
    new IntersectionObserver((seen) => {
      this.far = !seen.at(-1).isIntersecting;
      if (this.late) this.draw();
    }, { rootMargin: "1000px" }).observe(this.text);
    DocumentView.all.add(this);
  }

  /** Text and data are new. */
  update(data, selection) {
    this.data = data;
    this.kept = null;
    this.arcs?.layer.remove();
    this.arcs = new Arcs(this.text, data.relations);
    this.items = data.relations.map((relation, i) => this.item(relation, i));
    this.list.replaceChildren(...this.items);
    for (const { view, number } of this.opened) view.decoded(data.tables[number].model);
    this.select(selection);
  }

  select({ entities, relations }) {
    this.arcs.shown = relations;
    for (const mark of this.text.querySelectorAll("mark")) mark.classList.toggle("off", !entities[mark.dataset.entity]);
    this.items.forEach((item, i) => { item.hidden = !relations[i]; });
    const shown = relations.some(Boolean);
    this.list.hidden = !shown;
    this.none.hidden = shown;
    this.none.textContent = relations.length ? "All relations are filtered out." : "No relations.";
    this.keep(null);
    this.draw();
    for (const settle of this.settle) settle();
  }

  /** Draw the arcs, at once or, if the text is far from the window, when it comes nearer. */
  draw(now = false) {
    this.late = this.far && !now;
    if (!this.late) this.arcs.draw();
    this.point(this.kept ?? []);
  }

  item({ head, tail, label, code, colour, score, positions }, i) {
    const argument = (k) => {
      const entity = this.data.entities[k];
      return html("span", { class: `entity c${entity.colour}`, title: entity.label }, html("bdi", {}, entity.text), "\u00a0", codeOf(entity));
    };
    const arrow = html("span", { class: "arrow" }, positions.length > 1 ? "← " : "", html("span", { class: `relation c${colour}` }, label), " →");
    const triple = html("div", { class: "triple" }, html("div", {}, argument(head)), html("div", { class: "to" }, arrow, " ", argument(tail)));
    const item = html("li", { role: "option", "aria-selected": "false", "data-relation": i }, triple);
    if (score !== null) item.append(" ", html("span", { class: "score" }, score.toFixed(2)));
    return item;
  }

  listen() {
    const { text, list } = this;
    const restore = () => {
      this.under = null;
      this.point(this.kept ?? []);
    };
    for (const [place, over] of [[text, (target) => this.over(target)], [list, (target) => this.point(this.touching(target))]]) {
      // not `pointerover`, which also comes when the page scrolls below a resting mouse
      place.addEventListener("pointermove", ({ target }) => {
        if (target === this.under) return;
        this.under = target;
        over(target);
      });
      place.addEventListener("focusin", ({ target }) => over(target));
      for (const event of ["pointerleave", "focusout"]) place.addEventListener(event, restore);
    }
    text.addEventListener("click", ({ target }) => {
      if (target.closest(".sentence-tables")) return;
      const found = this.touching(target);
      this.keep(found);
      this.over(target);
      // an entity below the list would only take the reader away from the text
      const beside = getComputedStyle(this.list.parentElement).position === "sticky";
      if (beside || target.closest("[data-relation]")) reveal(this.items[found[0]]);
    });
    list.addEventListener("click", ({ target }) => this.toArc(target.closest("li")));
    const pressed = (event) => {
      const { key, target } = event;
      const [mark, item] = [target.matches("mark.entity"), target.matches("[role=option]")];
      if (key === "Escape") this.keep(null);
      if (key !== "Enter" && key !== " " || !mark && !item) return;
      event.preventDefault();
      if (mark) {
        const found = this.touching(target);
        this.keep(found);
        this.items[found[0]]?.focus();
      } else {
        this.toArc(target);
        this.markOf(this.data.relations[target.dataset.relation].head).focus({ preventScroll: true });
      }
    };
    for (const place of [text, list]) place.addEventListener("keydown", pressed);
    for (const fold of text.querySelectorAll(".sentence-tables")) {
      fold.addEventListener("toggle", () => fold.open && fold.childElementCount === 1 && this.open(fold));
    }
  }

  markOf(entity) {
    return this.text.querySelector(`mark[data-entity="${entity}"]`);
  }

  toArc(item) {
    if (!item) return;
    this.keep(this.touching(item));
    reveal(this.arcs.layer.querySelector(`.name[data-relation="${item.dataset.relation}"]`), "center");
  }

  /** The relations that an arc or an item shows, or that begin or end at an entity. */
  touching(target) {
    const relation = target.closest("[data-relation]");
    if (relation) return [Number(relation.dataset.relation)];
    const entity = Number(target.closest("[data-entity]")?.dataset.entity ?? -1);
    return this.data.relations.flatMap(({ head, tail }, i) => (this.arcs.shown[i] && (head === entity || tail === entity) ? [i] : []));
  }

  /** Keep relations highlighted until something else is chosen. */
  keep(relations) {
    this.kept = relations?.length ? relations : null;
    for (const item of this.items) item.ariaSelected = String(this.kept?.includes(Number(item.dataset.relation)) ?? false);
    this.point(this.kept ?? []);
  }

  point(relations) {
    this.arcs.point(relations);
    for (const item of this.items) item.classList.toggle("on", relations.includes(Number(item.dataset.relation)));
    this.note.replaceChildren();
    this.together(null);
  }

  /** Frame the mentions of one thing: the entities of a coreference cluster. */
  together(cluster) {
    for (const mark of this.text.querySelectorAll("mark")) {
      mark.classList.toggle("same", cluster !== null && this.data.entities[mark.dataset.entity].cluster === cluster);
    }
  }

  over(target) {
    const found = this.touching(target);
    this.point(found.length ? found : this.kept ?? []);
    const mark = target.closest("mark:not(.off)");
    if (!mark) return;
    const { text, label, colour, score, cluster } = this.data.entities[mark.dataset.entity];
    const others = cluster === null ? [] : this.data.clusters[cluster].filter((name) => name !== text);
    if (cluster !== null) this.together(cluster);
    const facts = [label, ...(score === null ? [] : [`score ${score.toFixed(2)}`]), counted(found.length, "relation", "relations")];
    this.note.replaceChildren(
      html("div", { class: "title" }, html("span", { class: `entity c${colour}` }, html("bdi", {}, text))),
      html("div", {}, facts.join(" · ")),
      ...(others.length ? [html("div", { class: "aside" }, "also: ", ...others.flatMap((name, i) => [i ? ", " : "", html("bdi", {}, name)]))] : []),
    );
    this.place(mark);
  }

  /** Put the note below an entity, or above it at the end of the window. */
  place(mark) {
    const box = mark.getClientRects()[0];
    const { offsetWidth: width, offsetHeight: height } = this.note;
    const below = [...mark.getClientRects()].at(-1).bottom + 6;
    this.note.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8))}px`;
    this.note.style.top = `${below + height < innerHeight ? below : box.top - height - 6}px`;
  }

  /** The tables of one sentence; a very long one has several, one after the other. */
  async open(fold) {
    const sentence = Number(fold.dataset.sentence);
    const first = this.data.tables.findIndex((table) => table.sentence === sentence);
    const tables = await this.fill(sentence);
    fold.open = tables.length > 0; // if they did not arrive, they can be requested again
    let before = 0;
    for (const [i, table] of tables.entries()) {
      const host = html("div");
      fold.append(host);
      if (table.model) {
        [table.model.P, table.model.argmax] = await Promise.all([unpack(table.model.P), unpack(table.model.argmax)]);
      }
      const now = this.data.tables[first + i];
      if (now !== table) Object.assign(table.model, now.model); // decoded again in the meantime
      const view = new TableView(host, this.labels, table);
      this.opened.push({ view, number: first + i });
      const begin = before;
      before += table.words.length;
      host.addEventListener("point", ({ detail }) => {
        const words = [...fold.parentElement.querySelectorAll(".sentence .w")].slice(begin, begin + table.words.length);
        words.forEach((word, k) => word.classList.toggle("on", detail !== null && (k === detail.row || k === detail.column)));
      });
      this.onTable(view);
      onWidth(host, () => view.draw());
    }
  }
}

/** On paper a text has another width: arcs are drawn for it before printing, and again after it. */
function drawForPaper(printing) {
  document.documentElement.classList.toggle("printing", printing);
  for (const view of DocumentView.all) view.draw(true);
}
addEventListener("beforeprint", () => drawForPaper(true));
addEventListener("afterprint", () => drawForPaper(false));
