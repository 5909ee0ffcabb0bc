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

/** Arcs over a document, and tables below its sentences, each drawn when it is opened first. */
function show(details, labels) {
  const data = JSON.parse(details.querySelector(":scope > .data").textContent);
  const text = details.querySelector(".text");
  const arcs = new Arcs(text, data.relations);
  new ResizeObserver(() => arcs.draw()).observe(text);

  const items = [...details.querySelectorAll(".relations li")];
  const point = (relations) => {
    arcs.point(relations);
    items.forEach((item, i) => item.classList.toggle("on", relations.includes(i)));
  };
  items.forEach((item, i) => {
    item.tabIndex = 0;
    for (const event of ["pointerenter", "focus"]) item.addEventListener(event, () => point([i]));
    for (const event of ["pointerleave", "blur"]) item.addEventListener(event, () => point([]));
  });
  text.addEventListener("pointerover", ({ target }) => {
    const arc = target.closest(".arc");
    const entity = Number(target.closest("[data-entity]")?.dataset.entity ?? -1);
    const touching = data.relations.flatMap(({ head, tail }, i) => (head === entity || tail === entity ? [i] : []));
    point(arc ? arc.dataset.relations.split(" ").map(Number) : touching);
  });
  text.addEventListener("pointerleave", () => point([]));

  for (const fold of text.querySelectorAll(".sentence-tables")) {
    const words = [...fold.previousElementSibling.querySelectorAll(".w")];
    const tables = data.tables.filter(({ sentence }) => sentence === Number(fold.dataset.sentence));
    fold.addEventListener("toggle", () => draw(fold, tables, words, labels), { once: true });
  }
}

/** The tables of one sentence; a very long one has several, one after the other. */
async function draw(fold, tables, words, labels) {
  let before = 0;
  for (const table of tables) {
    const host = html("div");
    const own = words.slice(before, before + table.words.length);
    before += table.words.length;
    fold.append(host);
    if (table.model) {
      [table.model.P, table.model.argmax] = await Promise.all([unpack(table.model.P), unpack(table.model.argmax)]);
    }
    const view = new TableView(host, labels, table);
    host.addEventListener("point", ({ detail }) => {
      own.forEach((word, i) => word.classList.toggle("on", detail !== null && (i === detail.row || i === detail.column)));
    });
    onWidth(host, () => view.draw());
  }
}

document.addEventListener("DOMContentLoaded", () => {
  const { labels } = JSON.parse(document.getElementById("labels").textContent);
  for (const details of document.querySelectorAll(".document")) {
    if (details.open) show(details, labels);
    else details.addEventListener("toggle", () => show(details, labels), { once: true });
  }
});
