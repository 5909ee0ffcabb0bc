"use strict";

/** The elements of a sentence, from its items; see `mark_sentences` in `markup.py`. All text goes in as text. */
function sentenceOf(items, entities) {
  const root = html("span", { class: "sentence" });
  const opened = [root];
  const numbers = [];
  for (const item of items) {
    if (typeof item === "string") opened.at(-1).append(item);
    else if (Array.isArray(item)) opened.at(-1).append(html("span", { class: "w" }, item[0]));
    else if (item === null) {
      opened.at(-1).append(html("small", { class: "label" }, `\u00a0${entities[numbers.pop()].label}`));
      opened.pop();
    } else if (item < 0) {
      numbers.pop();
      opened.pop();
    } else {
      const mark = html("mark", { class: `entity c${entities[item].colour}`, "data-entity": item });
      opened.at(-1).append(mark);
      opened.push(mark);
      numbers.push(item);
    }
  }
  return root;
}

/** The paragraphs of a text, each sentence with a fold for its table. */
function paragraphsOf({ sentences, entities, tables }) {
  const words = new Map();
  for (const table of tables) words.set(table.sentence, (words.get(table.sentence) ?? 0) + table.words.length);
  const paragraphs = [];
  sentences.forEach(({ items, gap, paragraph }, i) => {
    if (paragraph || !paragraphs.length) paragraphs.push(html("div", { class: "paragraph" }));
    const row = html("div", { class: "row", dir: "auto" }, sentenceOf(items, entities), gap);
    paragraphs.at(-1).append(row);
    if (!words.has(i)) return;
    const title = `Table of ${counted(words.get(i), "word", "words")}`;
    const handle = html("summary", { title }, html("span", { class: "hidden" }, title));
    row.append(html("details", { class: "sentence-tables", dir: "ltr", "data-sentence": i }, handle));
  });
  return paragraphs;
}

/**
 * The page. The server extracts from the text in the field, with the chosen α; the filters work here.
 *
 * One request is pending at a time, and only the latest waiting one is sent next, so α can be dragged fast. A request
 * with an outdated text is aborted. Only the answer to the present text and α is shown undimmed, and can be copied.
 * The address has the text and the settings, so that it can be kept and sent to others.
 */
class Live {
  static PAUSE = 200;

  /** Characters of a text that the address may have. */
  static LINK = 4000;

  /** The largest α of the decoder `likely`: the log-odds of a square of one word are at most ln 100 = 4.6, of two words 18.4. */
  static MOST_EVIDENCE = 20;

  constructor({ labels, alpha, byDistance, examples, characters }) {
    Object.assign(this, { labels, modelAlpha: alpha, alpha, byDistance, characters, answer: null, answered: null, view: null, wanted: false });
    for (const name of ["text", "key", "lock", "problem", "state", "alpha", "reset", "document", "length"]) this[`$${name}`] = document.getElementById(name);
    this.$copies = [...document.querySelectorAll("#copy-json, #copy-triples")];
    const tools = document.getElementById("tools");
    this.filters = new Filters(tools, document.getElementById("legend"), () => this.filter(), labels.slice(1));
    tools.prepend(this.filters.control);
    this.filters.count([]);
    document.getElementById("cutting").hidden = alpha === null;
    document.getElementById("alpha-meaning").textContent = byDistance ? "Tables are cut where neighbouring words are farther apart." : "Log-odds that a square needs to be an entity.";
    this.offer(examples);
    this.listen();
    if (!this.readAddress() && examples.length) this.$text.value = examples[0];
    this.setAlpha(this.alpha);
  }

  offer(examples) {
    const host = document.getElementById("examples");
    host.hidden = !examples.length;
    host.append(...examples.map((example) => {
      const button = html("button", { type: "button", class: "chip", title: example }, `${example.split(" ").slice(0, 4).join(" ")} …`);
      button.addEventListener("click", () => {
        this.$text.value = example;
        this.refresh();
      });
      return button;
    }));
    oneTabStop(host, ".chip")();
  }

  listen() {
    let timer;
    const typed = () => {
      clearTimeout(timer);
      this.compare();
      timer = setTimeout(() => this.refresh(), Live.PAUSE);
    };
    this.$text.addEventListener("input", typed);
    this.$key.addEventListener("input", typed);
    this.$lock.addEventListener("submit", (event) => {
      event.preventDefault(); // the form is not sent: every request has the key
      this.refresh();
    });
    this.$alpha.addEventListener("input", () => this.setAlpha(Number(this.$alpha.value)));
    this.$reset.addEventListener("click", () => this.setAlpha(this.modelAlpha));
    for (const choice of document.querySelectorAll("[name=panels]")) {
      choice.addEventListener("change", () => this.view?.opened.forEach(({ view }) => view.show(this.panels)));
    }
    addEventListener("hashchange", () => this.readAddress() && this.setAlpha(this.alpha));
    this.copies("copy-json", () => `${JSON.stringify(this.filtered, null, 2)}\n`);
    this.copies("copy-triples", () => this.triples);
    this.copies("copy-link", () => location.href);
  }

  // The address

  /** Take text and settings from the address, and return whether it has any. */
  readAddress() {
    const state = new URLSearchParams(location.hash.slice(1));
    if (!state.has("text")) return false;
    const number = (name) => (Number.isFinite(Number(state.get(name) || NaN)) ? Number(state.get(name)) : null);
    this.$text.value = state.get("text");
    if (this.modelAlpha !== null) this.alpha = Math.max(0.01, Math.min(1000, number("alpha") ?? this.modelAlpha));
    this.filters.set({ score: Math.max(0, Math.min(1, number("score") ?? 0)), off: new Set(state.getAll("off")) });
    return true;
  }

  writeAddress() {
    const state = new URLSearchParams();
    const fits = this.$text.value.length <= Live.LINK;
    if (fits) {
      state.set("text", this.$text.value);
      if (this.filters.score) state.set("score", this.filters.score.toFixed(2));
      if (this.alpha !== this.modelAlpha) state.set("alpha", this.alpha.toFixed(2));
      for (const key of this.filters.off) state.append("off", key);
    }
    const link = document.getElementById("copy-link");
    link.disabled = !fits;
    link.title = fits ? "The link has the text and the settings" : `A link holds at most ${Live.LINK.toLocaleString("en")} characters`;
    clearTimeout(this.writing); // browsers allow few changes of the address per second
    this.writing = setTimeout(() => history.replaceState(null, "", fits && this.$text.value ? `#${state}` : location.pathname), Live.PAUSE);
  }

  // Requests

  get panels() {
    return document.querySelector("[name=panels]:checked").value;
  }

  /** What an answer must be for. */
  get question() {
    return JSON.stringify([this.$text.value, this.alpha]);
  }

  get fresh() {
    return this.answer !== null && this.answered === this.question;
  }

  setAlpha(alpha) {
    this.alpha = alpha;
    if (alpha !== null) {
      this.$alpha.max = Math.max(this.most ?? 3, alpha).toFixed(2);
      this.$alpha.value = alpha;
      document.getElementById("alpha-value").value = alpha.toFixed(2);
      this.$reset.disabled = alpha === this.modelAlpha;
    }
    this.refresh();
  }

  async refresh() {
    this.wanted = true;
    this.compare();
    this.writeAddress();
    if (this.asking) {
      if (this.asking.text !== this.$text.value) this.asking.controller.abort();
      return;
    }
    while (this.wanted) {
      this.wanted = false;
      const question = this.question;
      if (this.isTooLong) break;
      this.asking = { text: this.$text.value, controller: new AbortController() };
      const started = performance.now();
      const answer = await this.ask(this.asking.text, [], this.asking.controller.signal);
      if (answer && this.asking.text === this.$text.value) this.show(this.asking.text, question, answer, performance.now() - started);
    }
    this.asking = null;
  }

  /** The server's answer for a text; null after an error, which is shown. */
  async ask(text, cells = [], signal = undefined) {
    const headers = { "Content-Type": "application/json" };
    if (this.$key.value) headers.Authorization = `Bearer ${this.$key.value}`;
    const alpha = this.alpha === null || this.alpha === this.modelAlpha ? {} : { alpha: this.alpha };
    try {
      const response = await fetch("view", { method: "POST", headers, signal, body: JSON.stringify({ text, cells, ...alpha }) });
      const answer = await response.json();
      if (response.ok) return answer;
      if (response.status === 401) this.$lock.hidden = false;
      const pause = Number(response.headers.get("Retry-After"));
      if (pause) setTimeout(() => this.refresh(), 1000 * pause);
      this.complain(answer.error);
    } catch (error) {
      if (error.name !== "AbortError") this.complain("the server does not answer; is it still running?");
    }
    return null;
  }

  /** Show an error, and no older results. */
  complain(sentence) {
    this.$problem.textContent = sentence;
    this.$problem.hidden = false;
    this.$document.hidden = true;
    this.answer = null;
    this.$state.value = "";
    this.compare();
  }

  get isTooLong() {
    return [...this.$text.value].length > this.characters;
  }

  /** Dim results that are not those of the present text and α, and state the limit of a text. */
  compare() {
    const length = [...this.$text.value].length;
    this.$length.value = `${length.toLocaleString("en")} of ${counted(this.characters, "character", "characters")}`;
    this.$length.classList.toggle("over", this.isTooLong);
    this.$document.classList.toggle("stale", !this.fresh);
    this.$document.ariaBusy = String(!this.fresh);
    for (const button of this.$copies) button.disabled = !this.fresh;
    if (this.isTooLong && this.refused !== this.$text.value) {
      this.refused = this.$text.value;
      this.complain(`the text has ${counted(length, "character", "characters")}, and a text may have ${this.characters.toLocaleString("en")}; send it in parts`);
    }
  }

  // Results

  show(text, question, answer, milliseconds) {
    this.$problem.hidden = true;
    this.$document.hidden = !text.trim();
    const same = this.shown === text && this.view;
    Object.assign(this, { answer, milliseconds, answered: question });
    if (same) this.rewrite(answer);
    else this.write(text, answer);
    this.filters.count([answer]);
    this.describe();
    this.compare();
  }

  describe() {
    const selection = this.filters.select(this.answer);
    this.$state.value = `${summary(selection)} in ${Math.round(this.milliseconds)} ms`;
  }

  filter() {
    this.writeAddress();
    this.filters.count(this.answer ? [this.answer] : []);
    if (!this.answer) return;
    this.view.select(this.filters.select(this.answer));
    this.describe();
  }

  /** The document as the API returns it, with what passes the filters. */
  get filtered() {
    const { entities, relations } = this.filters.select(this.answer);
    const found = this.answer.document;
    const kept = new Set(this.answer.relations.filter((_, i) => relations[i]).flatMap(({ positions }) => positions));
    return { ...found, entities: found.entities.filter((_, i) => entities[i]), relations: found.relations.filter((_, i) => kept.has(i)) };
  }

  /** The relations that pass the filters, as tab-separated values. A row is a line, in the order of the document. */
  get triples() {
    const { relations } = this.filters.select(this.answer);
    const kept = new Set(this.answer.relations.filter((_, i) => relations[i]).flatMap(({ positions }) => positions));
    const [head, ...rows] = this.answer.tsv.split("\n").slice(0, -1);
    return [head, ...rows.filter((_, i) => kept.has(i)), ""].join("\n");
  }

  /** Another text. Tables that were open are opened again. */
  write(text, answer) {
    const open = new Set([...this.$document.querySelectorAll(".sentence-tables[open]")].map((fold) => fold.dataset.sentence));
    const body = html("div", { class: "text" }, ...paragraphsOf(answer));
    this.$document.replaceChildren(html("div", { class: "parts" }, body, html("div", { class: "side" })));
    this.shown = text;
    DocumentView.all.clear();
    this.view = new DocumentView(this.$document, this.labels, answer, this.filters.select(answer));
    this.view.fill = async (sentence) => {
      const filled = await this.ask(text, [sentence]);
      return filled ? filled.tables.filter((table) => table.sentence === sentence) : [];
    };
    this.view.onTable = (view) => {
      Object.assign(view, { shown: this.panels, draggable: true });
      view.host.addEventListener("alpha", ({ detail }) => this.setAlpha(Math.round(100 * detail) / 100));
    };
    for (const fold of body.querySelectorAll(".sentence-tables")) fold.open = open.has(fold.dataset.sentence);
    if (this.alpha !== null) {
      this.most = this.byDistance ? Math.max(2, ...answer.tables.flatMap(({ model }) => model.distances)) + 0.05 : Live.MOST_EVIDENCE;
      this.$alpha.max = Math.max(this.most, this.alpha).toFixed(2);
    }
  }

  /** The same text, decoded again. */
  rewrite(answer) {
    const sentences = this.$document.querySelectorAll(".sentence");
    answer.sentences.forEach(({ items }, i) => sentences[i].replaceChildren(...sentenceOf(items, answer.entities).childNodes));
    this.view.update(answer, this.filters.select(answer));
  }

  copies(id, text) {
    const button = document.getElementById(id);
    const title = button.textContent;
    button.addEventListener("click", async () => {
      button.textContent = (await copied(text())) ? "Copied" : "Not copied";
      setTimeout(() => { button.textContent = title; }, 1500);
    });
  }
}

/** Copy a text to the clipboard. Pages without https need the old method. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = html("textarea", {}, text);
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

document.addEventListener("DOMContentLoaded", () => new Live(embedded(document.getElementById("known"))));
