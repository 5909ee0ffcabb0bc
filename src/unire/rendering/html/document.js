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
 * A document on a page: arcs over its text, a list of triples that points at them, and a table below each sentence.
 *
 * `root` has a `.text` with a `.sentence` for each sentence, after each a fold `.sentence-tables` for its tables, and
 * a list `.relations`. `data` has `relations` for the arcs, and `tables` by sentence.
 *
 *     const view = new DocumentView(root, labels, data);
 *     view.update(data);                                    // after another decoding
 *     view.fill = async (sentence) => [...];                // loads the cells, if the tables come without
 *     view.onTable = (table) => ...;                        // is called with each TableView before it is drawn
 */
class DocumentView {
  constructor(root, labels, data) {
    Object.assign(this, { root, labels, opened: [], text: root.querySelector(".text"), onTable: () => {} });
    this.fill = async (sentence) => this.data.tables.filter((table) => table.sentence === sentence);
    this.update(data);
    new ResizeObserver(() => this.arcs.draw()).observe(this.text);
    this.text.addEventListener("pointerover", ({ target }) => this.over(target));
    this.text.addEventListener("pointerleave", () => this.point([]));
    for (const fold of this.text.querySelectorAll(".sentence-tables")) {
      fold.addEventListener("toggle", () => fold.open && fold.childElementCount === 1 && this.open(fold));
    }
  }

  /** Text and list have been rewritten. */
  update(data) {
    this.data = data;
    this.arcs?.layer.remove();
    this.arcs = new Arcs(this.text, data.relations);
    this.arcs.draw();
    this.items = [...this.root.querySelectorAll(".relations li")];
    this.items.forEach((item) => {
      item.tabIndex = 0;
      for (const event of ["pointerenter", "focus"]) item.addEventListener(event, () => this.point(relationsOf(item)));
      for (const event of ["pointerleave", "blur"]) item.addEventListener(event, () => this.point([]));
    });
    for (const { view, number } of this.opened) view.decoded(data.tables[number].model);
  }

  point(relations) {
    this.arcs.point(relations);
    for (const item of this.items) item.classList.toggle("on", relationsOf(item).some((i) => relations.includes(i)));
  }

  over(target) {
    const arc = target.closest(".arc");
    const entity = Number(target.closest("[data-entity]")?.dataset.entity ?? -1);
    const touching = this.data.relations.flatMap(({ head, tail }, i) => (head === entity || tail === entity ? [i] : []));
    this.point(arc ? relationsOf(arc) : touching);
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
        const words = [...fold.previousElementSibling.querySelectorAll(".w")].slice(begin, begin + table.words.length);
        words.forEach((word, k) => word.classList.toggle("on", detail !== null && (k === detail.row || k === detail.column)));
      });
      this.onTable(view);
      onWidth(host, () => view.draw());
    }
  }
}
