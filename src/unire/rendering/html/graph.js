"use strict";

/** A search field with a list of the entities that match. */
class EntitySearch {
  static MOST = 12;

  /** `find(words)` promises entities, best first, or null if it was asked again; `choose(entity)` is called with the chosen one. */
  constructor(field, list, find, choose) {
    Object.assign(this, { field, list, find, choose });
    this.settle = oneTabStop(list, "li");
    field.addEventListener("input", () => this.show());
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
      if (event.key === "ArrowDown" && !list.hidden) {
        event.preventDefault();
        list.querySelector("li")?.focus();
      }
      if (event.key === "Enter") this.takeFirst();
    });
    field.parentElement.addEventListener("focusout", ({ relatedTarget }) => {
      if (!field.parentElement.contains(relatedTarget)) list.hidden = true;
    });
  }

  async show() {
    const words = this.words;
    this.found = [];
    const found = words ? await this.find(words) : [];
    if (!found || words !== this.words) return;
    this.found = found.slice(0, EntitySearch.MOST);
    this.list.replaceChildren(...this.found.map((node) => optionOf(node, () => this.take(node))));
    this.list.hidden = !this.found.length;
    this.settle();
  }

  get words() {
    return this.field.value.toLowerCase().trim();
  }

  /** Take the first entity, which may have to be found yet. */
  async takeFirst() {
    if (!this.found?.length) await this.show();
    if (this.found?.length) this.take(this.found[0]);
  }

  take(node) {
    this.close();
    this.choose(node);
  }

  close() {
    this.field.value = "";
    this.list.hidden = true;
  }
}

/** An entity in a list: its type, its name, and its number of relations. */
function optionOf(node, choose) {
  const item = html("li", { role: "option", "aria-selected": "false", class: `c${node.colour}`, "data-node": node.id },
    codeOf(node), html("bdi", {}, node.name), html("span", { class: "count" }, node.degree.toLocaleString("en")));
  item.addEventListener("click", choose);
  item.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose();
  });
  return item;
}

/**
 * The page: one entity in the middle, what points at it on the left, what it points at on the right, and the sentences.
 * Or a comparison table in the middle.
 *
 * The address has the entity, the filters and the end of a path, or the types of the table.
 */
class GraphPage {
  static NEIGHBOURS = 14;
  static SENTENCES = 40;
  static HUBS = 30;

  constructor() {
    const data = embedded(document.getElementById("graph"));
    this.graph = data.counts ? new ServedGraph(data) : new EmbeddedGraph(data);
    for (const name of ["facts", "ego", "hubs", "about", "evidence", "path", "download", "rows", "columns", "around", "compare"]) this[`$${name}`] = document.getElementById(name);
    this.filters = new Filters(document.getElementById("tools"), document.getElementById("legend"), () => this.filter(), [...data.types, ...data.relations]);
    document.getElementById("filters").open = innerWidth > 640;
    const remark = document.getElementById("remark");
    remark.hidden = !remark.textContent;
    this.table = new GraphTable(document.getElementById("table"), (edge, button) => this.choose(edge, button), (node) => this.go(node));
    const options = data.types.map(({ label }) => html("option", { value: label }, label));
    this.$columns.append(...options.map((option) => option.cloneNode(true)));
    this.$rows.append(...options);
    this.listen();
    this.readAddress();
  }

  listen() {
    const find = (words) => this.graph.find(words);
    const field = document.getElementById("search");
    new EntitySearch(field, document.getElementById("results"), find, (node) => this.go(node));
    new EntitySearch(document.getElementById("goal"), document.getElementById("goals"), find, (node) => this.go(this.centre, node));
    this.settle = oneTabStop(this.$hubs, "li");
    this.settleEgo = oneTabStop(this.$ego, ".edge, .go");
    addEventListener("hashchange", () => this.readAddress());
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input, select")) return;
      event.preventDefault();
      field.focus();
    });
    for (const button of document.querySelectorAll("[data-view]")) button.addEventListener("click", () => this.turn(button.dataset.view));
    for (const select of [this.$rows, this.$columns]) select.addEventListener("change", () => this.turn("table"));
    document.getElementById("lock").addEventListener("submit", (event) => {
      event.preventDefault(); // the form is not sent: every question has the key
      this.readAddress();
    });
    this.$download.addEventListener("click", () => this.download());
    new ResizeObserver(() => this.link()).observe(this.$ego);
  }

  // State

  async readAddress() {
    const state = new URLSearchParams(location.hash.slice(1));
    const score = Number(state.get("score"));
    const [rows, columns] = ["rows", "columns"].map((name) => (this.graph.types.some(({ label }) => label === state.get(name)) ? state.get(name) : ""));
    this.view = state.get("view") === "table" ? "table" : "entity";
    this.$rows.value = rows || this.graph.types[0]?.label;
    this.$columns.value = columns;
    this.wanted = { entity: state.get("entity"), to: state.get("to") };
    this.filters.set({ score: score >= 0 && score <= 1 ? score : 0, off: new Set(state.getAll("off")) });
  }

  get address() {
    const state = this.view === "table" ? new URLSearchParams({ view: "table", rows: this.$rows.value, columns: this.$columns.value }) : new URLSearchParams({ entity: this.centre.id });
    if (this.goal && this.view === "entity") state.set("to", this.goal.id);
    if (this.filters.score) state.set("score", this.filters.score.toFixed(2));
    for (const key of this.filters.off) state.append("off", key);
    return `#${state}`;
  }

  /** Show another entity, or the path to one; the way back is in the history. */
  go(centre, goal = null) {
    Object.assign(this, { centre, goal, view: "entity" });
    history.pushState(null, "", this.address);
    this.show();
  }

  /** Show the entity or the table. */
  turn(view) {
    this.view = view;
    history.pushState(null, "", this.address);
    this.show();
  }

  /** Count what passes the filters, and show it. */
  async filter() {
    const found = await this.graph.overview(this.filters, GraphPage.HUBS);
    if (!found) return;
    this.filters.show(found.counts);
    this.$facts.textContent = [counted(this.graph.documents, "document", "documents"), counted(found.entities, "connected entity", "connected entities"), counted(found.relations, "relation", "relations")].join(" · ");
    this.$hubs.replaceChildren(...found.hubs.map((node) => optionOf(node, () => this.go(node))));
    this.$hubs.hidden = !found.hubs.length;
    if (this.wanted) {
      const { entity, to } = this.wanted;
      this.wanted = null;
      this.centre = (entity && (await this.graph.entity(entity))?.node) || found.hubs[0];
      this.goal = (to && (await this.graph.entity(to))?.node) || null;
    }
    this.centre ??= found.hubs[0];
    if (!this.centre) return;
    history.replaceState(null, "", this.address);
    this.show();
  }

  // The entity and its neighbours

  async show() {
    this.chosen = null;
    this.$around.hidden = this.view !== "entity";
    this.$compare.hidden = this.view !== "table";
    this.$download.textContent = `Download ${this.view === "table" ? "this table" : "these relations"} (CSV)`;
    for (const button of document.querySelectorAll("[data-view]")) button.ariaPressed = String(button.dataset.view === this.view);
    for (const item of this.$hubs.children) item.ariaSelected = String(this.view === "entity" && item.dataset.node === this.centre.id);
    this.settle();
    const address = this.address;
    await (this.view === "table" ? this.showTable(address) : this.showEntity(address));
  }

  async showTable(address) {
    const [kind, other] = [this.$rows.value, this.$columns.value];
    const edges = await this.graph.table(kind, other);
    if (!edges || address !== this.address) return;
    this.edges = this.table.show(edges, kind, other);
    this.route = null;
    document.getElementById("empty").hidden = this.edges.length > 0;
    this.$about.replaceChildren(html("p", {}, html("strong", {}, `${kind} × ${other || "all types"}`), html("span", { class: "facts" }, ` ${counted(this.edges.length, "relation", "relations")} in the table`)));
    this.showEvidence();
  }

  async showEntity(address) {
    const found = await this.graph.entity(this.centre.id);
    if (!found || address !== this.address) return;
    const { edges, total = edges.length } = found;
    this.edges = edges;
    const [incoming, outgoing] = [[], []];
    for (const edge of edges) (edge.tail === this.centre && !edge.symmetric ? incoming : outgoing).push(edge);
    const middle = html("div", { class: `centre c${this.centre.colour}` }, html("h2", { class: "entity" }, html("bdi", {}, this.centre.name), "\u00a0", codeOf(this.centre)));
    if (!edges.length) middle.append(html("p", { class: "aside" }, "No relations pass the filters."));
    if (total > edges.length) middle.append(html("p", { class: "aside" }, `${edges.length.toLocaleString("en")} of ${total.toLocaleString("en")} relations, the best ones`));
    this.links = svg("svg", { class: "links", "aria-hidden": "true" });
    this.$ego.replaceChildren(this.side("in", incoming), middle, this.side("out", outgoing), this.links);
    this.settleEgo();
    this.link();
    this.describe();
    await this.showPath(address);
    this.showEvidence();
  }

  /** The neighbours on one side, by relation; below its name. */
  side(name, edges) {
    const size = new Map();
    for (const { label } of edges) size.set(label, (size.get(label) ?? 0) + 1);
    edges.sort((a, b) => size.get(b.label) - size.get(a.label) || (a.label < b.label ? -1 : a.label > b.label ? 1 : 0) || b.documents - a.documents || b.score - a.score);
    const list = html("ul", { "aria-label": name === "in" ? "Relations to this entity" : "Relations from this entity" });
    const fill = (most) => {
      list.replaceChildren(...edges.slice(0, most).flatMap((edge, i) => {
        const known = i > 0 && edges[i - 1].label === edge.label;
        const heading = html("li", { class: "kind" }, html("span", { class: `relation c${edge.colour}` }, edge.label), edge.symmetric ? " ↔" : " →");
        return known ? [this.neighbour(edge)] : [heading, this.neighbour(edge)];
      }));
      const more = edges.length - most;
      if (more <= 0) return;
      const button = html("button", { type: "button", class: "more" }, `and ${more} more`);
      button.addEventListener("click", () => {
        fill(edges.length);
        this.settleEgo();
        this.link();
      });
      list.append(html("li", {}, button));
    };
    fill(GraphPage.NEIGHBOURS);
    const side = html("div", { class: name });
    if (edges.length) side.append(list);
    return side;
  }

  neighbour(edge) {
    const other = edge.head === this.centre ? edge.tail : edge.head;
    const score = edge.score === null ? "" : edge.score.toFixed(2);
    const sentences = counted(edge.mentions, "sentence", "sentences");
    const about = { title: `Show ${sentences}`, "aria-label": `${edge.label} ${score}: show ${sentences}` };
    const relation = html("button", { type: "button", class: "edge", "aria-pressed": "false", ...about }, score || "…");
    relation.addEventListener("click", () => this.choose(edge, relation));
    const name = html("button", { type: "button", class: `go c${other.colour}`, title: other.name }, codeOf(other), " ", html("bdi", {}, other.name));
    name.addEventListener("click", () => this.go(other));
    const item = html("li", { class: `neighbour c${edge.colour}` }, relation, name);
    item.edge = edge;
    return item;
  }

  /** Show the sentences of one edge only, or of all again. */
  choose(edge, button) {
    this.chosen = this.chosen === edge ? null : edge;
    for (const other of document.querySelectorAll(".panel-middle .edge")) other.ariaPressed = String(other === button && this.chosen !== null);
    this.showEvidence();
  }

  /** Draw the lines between the entity and its neighbours. */
  link() {
    const middle = this.$ego.querySelector(".centre")?.getBoundingClientRect();
    if (!middle) return;
    const frame = this.$ego.getBoundingClientRect();
    this.links.replaceChildren();
    this.links.setAttribute("width", frame.width);
    this.links.setAttribute("height", frame.height);
    const y = middle.top + middle.height / 2 - frame.top;
    for (const item of this.$ego.querySelectorAll(".neighbour")) {
      const box = item.getBoundingClientRect();
      const incoming = item.closest(".in") !== null;
      const [from, to] = incoming ? [box.right + 4, middle.left - 4] : [middle.right + 4, box.left - 4];
      if (to - from < 20) continue; // a narrow page has lists below one another
      const [x1, x2, at] = [from - frame.left, to - frame.left, box.top + box.height / 2 - frame.top];
      const [y1, y2, bend] = [incoming ? at : y, incoming ? y : at, (x2 - x1) / 2];
      this.links.append(svg("path", { class: `line c${item.edge.colour}`, d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }));
    }
  }

  // Evidence

  describe() {
    const { name, label, documents, mentions, names, colour } = this.centre;
    const facts = `${label} · ${counted(documents, "document", "documents")} · ${counted(mentions, "mention", "mentions")}`;
    this.$about.replaceChildren(
      html("p", {}, html("strong", { class: `c${colour}`, dir: "auto" }, name), html("span", { class: "facts" }, ` ${facts}`)),
      ...(names.length ? [html("p", { class: "facts" }, "also: ", ...names.flatMap((other, i) => [i ? ", " : "", html("bdi", {}, other)]))] : []),
    );
  }

  async showEvidence() {
    const { chosen } = this;
    if (chosen) await this.graph.evidence(chosen);
    if (chosen !== this.chosen) return;
    const edges = chosen ? [chosen] : this.route ?? this.edges;
    const rows = edges.flatMap((edge) => (edge.evidence ?? []).map((row) => [edge, row]));
    if (!this.route) rows.sort(([, a], [, b]) => (b[1] ?? 0) - (a[1] ?? 0));
    this.$evidence.replaceChildren(...rows.slice(0, GraphPage.SENTENCES).map(([edge, row]) => this.card(edge, row)));
  }

  card(edge, [source, score, parts]) {
    const ends = [edge.head, edge.tail];
    const text = parts.map((part) => (typeof part === "string" ? part : html("mark", { class: `entity c${ends[part[1]].colour}` }, part[0])));
    const facts = [edge.label, ...(score === null ? [] : [score.toFixed(2)])].join(" · ");
    return html("li", {}, html("p", { dir: "auto" }, ...text), html("p", { class: "facts" }, `${facts} · `, html("bdi", {}, source)));
  }

  // Paths and download

  async showPath(address) {
    this.$path.hidden = !this.goal;
    this.route = null;
    if (!this.goal) return;
    const steps = await this.graph.path(this.centre, this.goal);
    if (address !== this.address) return;
    if (!steps) {
      this.$path.replaceChildren(html("li", {}, `No path leads to ${this.goal.name}.`));
      return;
    }
    this.route = steps.map(([, edge]) => edge);
    const place = (node) => {
      const button = html("button", { type: "button", class: `go c${node.colour}` }, codeOf(node), " ", html("bdi", {}, node.name));
      button.addEventListener("click", () => this.go(node));
      return button;
    };
    this.$path.replaceChildren(html("li", {}, place(this.centre)), ...steps.map(([from, edge, to]) => {
      const onward = edge.head === from;
      const arrow = edge.symmetric ? `↔ ${edge.label} ↔` : onward ? `— ${edge.label} →` : `← ${edge.label} —`;
      return html("li", {}, html("span", { class: "arrow" }, arrow), place(to));
    }));
  }

  /** What is shown, as CSV. Spreadsheets run cells with some first characters, so these are quoted. */
  download() {
    const cell = (value) => {
      const text = String(value ?? "");
      const safe = /^[=+\-@＝＋－＠\t\r\n']/.test(text) ? `'${text}` : text;
      return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const list = () => [["head", "relation", "tail", "documents", "mentions", "score"], ...(this.route ?? this.edges).map((edge) => [edge.head.name, edge.label, edge.tail.name, edge.documents, edge.mentions, edge.score])];
    const rows = this.view === "table" ? this.table.cells : list();
    const text = rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
    const link = html("a", { download: `${this.view === "table" ? "table" : "relations"}.csv`, href: URL.createObjectURL(new Blob([text], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}

document.addEventListener("DOMContentLoaded", () => new GraphPage());
