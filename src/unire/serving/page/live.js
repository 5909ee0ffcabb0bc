"use strict";

/** Elements from markup of the server. Scripts in it would not run. */
function elements(markup) {
  const template = html("template");
  template.innerHTML = markup;
  return [...template.content.childNodes];
}

/**
 * The page. The server extracts from the text in the field, with the chosen α.
 *
 * One request is pending at a time, and only the latest waiting one is sent next, so α can be dragged fast. A request
 * with an outdated text is aborted.
 */
class Live {
  static PAUSE = 200;

  /** The largest α of the decoder `likely`: the log-odds of a square of one word are at most ln 100 = 4.6, of two words 18.4. */
  static MOST_EVIDENCE = 20;

  constructor({ labels, alpha, byDistance }) {
    Object.assign(this, { labels, modelAlpha: alpha, alpha, byDistance, shown: null, answer: null, view: null, wanted: false });
    for (const name of ["text", "key", "lock", "problem", "state", "alpha", "reset", "document"]) this[`$${name}`] = document.getElementById(name);
    this.listen();
    document.getElementById("cutting").hidden = alpha === null;
    if (!byDistance) document.querySelector("label[for=alpha]").title = "Log-odds that a square needs to be an entity";
    if (alpha !== null) this.setAlpha(alpha);
    else this.refresh();
  }

  listen() {
    let timer;
    const typed = () => {
      clearTimeout(timer);
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
    this.copies("copy-json", () => `${JSON.stringify(this.answer.document, null, 2)}\n`);
    this.copies("copy-triples", () => this.answer.tsv);
  }

  get panels() {
    return document.querySelector("[name=panels]:checked").value;
  }

  setAlpha(alpha) {
    this.alpha = alpha;
    this.$alpha.max = Math.max(this.most ?? 3, alpha).toFixed(2);
    this.$alpha.value = alpha;
    document.getElementById("alpha-value").value = alpha.toFixed(2);
    this.$reset.disabled = alpha === this.modelAlpha;
    this.refresh();
  }

  async refresh() {
    this.wanted = true;
    if (this.asking) {
      if (this.asking.text !== this.$text.value) this.asking.controller.abort();
      return;
    }
    while (this.wanted) {
      this.wanted = false;
      this.asking = { text: this.$text.value, controller: new AbortController() };
      const started = performance.now();
      const answer = await this.ask(this.asking.text, [], this.asking.controller.signal);
      if (answer) this.show(this.asking.text, answer, performance.now() - started);
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

  complain(sentence) {
    this.$problem.textContent = sentence;
    this.$problem.hidden = false;
    this.$document.classList.add("stale");
  }

  show(text, answer, milliseconds) {
    this.$problem.hidden = true;
    this.$document.classList.remove("stale");
    this.answer = answer;
    const same = this.shown === text;
    if (same) this.rewrite(answer);
    else this.write(text, answer);
    const { entities, relations } = answer.document;
    const counted = (number, one, more) => `${number} ${number === 1 ? one : more}`;
    this.$state.value = `${counted(entities.length, "entity", "entities")}, ${counted(relations.length, "relation", "relations")} in ${Math.round(milliseconds)} ms`;
  }

  /** Another text. Tables that were open are opened again. */
  write(text, answer) {
    const open = new Set([...this.$document.querySelectorAll(".sentence-tables[open]")].map((fold) => fold.dataset.sentence));
    const words = new Map();
    for (const table of answer.tables) words.set(table.sentence, (words.get(table.sentence) ?? 0) + table.words.length);
    const body = html("div", { class: "text" });
    answer.sentences.forEach((markup, i) => {
      const sentence = html("div", { class: "sentence", dir: "auto" }, ...elements(markup));
      body.append(sentence);
      if (!words.has(i)) return;
      const title = `Table of ${words.get(i)} word${words.get(i) === 1 ? "" : "s"}`;
      body.append(html("details", { class: "sentence-tables", "data-sentence": i }, html("summary", {}, title)));
    });
    this.$document.replaceChildren(body, ...elements(answer.triples));
    this.$document.hidden = !text.trim();
    this.shown = text;
    this.view = new DocumentView(this.$document, this.labels, answer);
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
    answer.sentences.forEach((markup, i) => sentences[i].replaceChildren(...elements(markup)));
    this.$document.querySelector(".relations")?.remove();
    this.$document.append(...elements(answer.triples));
    this.view.update(answer);
  }

  copies(id, text) {
    const button = document.getElementById(id);
    const title = button.textContent;
    button.addEventListener("click", async () => {
      if (!this.answer) return;
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

document.addEventListener("DOMContentLoaded", () => new Live(JSON.parse(document.getElementById("known").textContent)));
