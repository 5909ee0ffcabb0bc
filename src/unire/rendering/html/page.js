"use strict";

/** A document of the page. It is drawn when it is first opened. */
class PageDocument {
  constructor(root, labels, filters) {
    Object.assign(this, { root, labels, filters, view: null });
    this.data = embedded(root.querySelector(":scope > .data"));
    this.counts = root.querySelector(".counts");
    root.addEventListener("toggle", () => this.show());
    this.show();
  }

  show() {
    if (!this.root.open || this.view) return;
    this.view = new DocumentView(this.root, this.labels, this.data, this.filters.select(this.data));
  }

  /** Its id and text, for the search. */
  get words() {
    this.known ??= [...this.root.querySelectorAll(".id, .sentence")].map(textOf).join(" ").replace(/\s+/g, " ").toLowerCase();
    return this.known;
  }

  filter() {
    const selection = this.filters.select(this.data);
    this.counts.textContent = summary(selection);
    this.view?.select(selection);
  }
}

/** The filters and, if there are several documents, the search and a button that opens all. */
class Page {
  constructor() {
    const { labels } = embedded(document.getElementById("labels"));
    const tools = document.getElementById("tools");
    this.filters = new Filters(tools, document.getElementById("legend"), () => this.filter(), labels.slice(1));
    this.documents = [...document.querySelectorAll(".document")].map((root) => new PageDocument(root, labels, this.filters));
    this.count();
    this.filters.control.hidden = !this.filters.scored;
    this.settle = oneTabStop(document.getElementById("documents"), ".document > summary");
    this.settle();
    if (this.documents.length > 1) this.addSearch(tools);
    tools.hidden = !this.filters.scored && this.documents.length < 2;
    const remark = document.getElementById("remark");
    if (remark) document.querySelector("header").append(remark);
    addEventListener("hashchange", () => this.openTarget());
    this.openTarget();
  }

  count() {
    this.filters.count(this.documents.map(({ data }) => data));
  }

  filter() {
    this.count();
    for (const each of this.documents) each.filter();
  }

  addSearch(tools) {
    this.field = html("input", { type: "search", placeholder: "Search documents (press /)", "aria-label": "Search documents", dir: "auto" });
    this.fold = html("button", { type: "button" }, "Expand all");
    this.state = html("output", { class: "state" });
    tools.prepend(this.field);
    tools.append(this.fold, this.state);
    this.field.addEventListener("input", () => this.search());
    this.fold.addEventListener("click", () => {
      const open = !this.allOpen;
      for (const { root } of this.documents) if (!root.hidden) root.open = open;
      this.nameFold();
    });
    document.getElementById("documents").addEventListener("toggle", () => this.nameFold(), true);
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input")) return;
      event.preventDefault();
      this.field.focus();
    });
    this.search();
    this.nameFold();
  }

  get allOpen() {
    return this.documents.every(({ root }) => root.open || root.hidden);
  }

  nameFold() {
    this.fold.textContent = this.allOpen ? "Collapse all" : "Expand all";
  }

  search() {
    const wanted = this.field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const each of this.documents) each.root.hidden = !wanted.every((word) => each.words.includes(word));
    const shown = this.documents.filter(({ root }) => !root.hidden).length;
    const all = counted(this.documents.length, "document", "documents");
    this.state.value = wanted.length ? `${shown.toLocaleString("en")} of ${all}` : all;
    this.nameFold();
    this.settle();
  }

  /** Open the document that the address names. */
  openTarget() {
    const target = /^#document-\d+$/.test(location.hash) && document.querySelector(location.hash);
    if (!target) return;
    target.open = true;
    target.scrollIntoView();
  }
}

document.addEventListener("DOMContentLoaded", () => new Page());
