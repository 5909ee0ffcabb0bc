"use strict";

/** A search field with a list of the entities that match. */
class EntitySearch {
  static MOST = 12;

  /** `find(words)` returns entities, best first; `choose(entity)` is called with the chosen one. */
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
      if (event.key === "Enter" && this.found?.length) this.take(this.found[0]);
    });
    field.parentElement.addEventListener("focusout", ({ relatedTarget }) => {
      if (!field.parentElement.contains(relatedTarget)) list.hidden = true;
    });
  }

  show() {
    const words = this.field.value.toLowerCase().trim();
    this.found = words ? this.find(words).slice(0, EntitySearch.MOST) : [];
    this.list.replaceChildren(...this.found.map((node) => optionOf(node, () => this.take(node))));
    this.list.hidden = !this.found.length;
    this.settle();
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
    codeOf(node), html("bdi", {}, node.name), html("span", { class: "count" }, String(node.degree)));
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
 *
 * The address has the entity, the filters and the end of a path.
 */
class GraphPage {
  static NEIGHBOURS = 14;
  static SENTENCES = 40;
  static HUBS = 30;

  constructor() {
    const data = embedded(document.getElementById("graph"));
    for (const name of ["facts", "ego", "hubs", "about", "evidence", "path", "download"]) this[`$${name}`] = document.getElementById(name);
    this.nodes = data.nodes.map(([id, name, type, mentions, documents, names]) => ({ id, name, mentions, documents, names, ...data.types[type], score: null, edges: [], degree: 0 }));
    this.edges = data.edges.map(([head, tail, relation, symmetric, mentions, documents, score, evidence]) => {
      const edge = { head, tail, symmetric, mentions, documents, score, evidence, ...data.relations[relation] };
      this.nodes[head].edges.push(edge);
      if (tail !== head) this.nodes[tail].edges.push(edge);
      return edge;
    });
    this.all = { entities: this.nodes, relations: this.edges };
    this.documents = data.documents;
    this.byId = new Map(this.nodes.map((node) => [node.id, node]));
    this.filters = new Filters(document.getElementById("tools"), document.getElementById("legend"), () => this.filter(), [...data.types, ...data.relations]);
    document.getElementById("filters").open = innerWidth > 640;
    const remark = document.getElementById("remark");
    remark.hidden = !remark.textContent;
    this.listen();
    this.readAddress();
  }

  listen() {
    const find = (words) => this.nodes
      .filter((node) => node.degree && [node.name, ...node.names].some((name) => name.toLowerCase().includes(words)))
      .sort((a, b) => b.name.toLowerCase().startsWith(words) - a.name.toLowerCase().startsWith(words) || b.degree - a.degree);
    const field = document.getElementById("search");
    new EntitySearch(field, document.getElementById("results"), find, (node) => this.go(node));
    new EntitySearch(document.getElementById("goal"), document.getElementById("goals"), find, (node) => this.go(this.centre, node));
    this.settle = oneTabStop(this.$hubs, "li");
    this.settleEgo = oneTabStop(this.$ego, ".edge, .go");
    addEventListener("hashchange", () => this.readAddress());
    addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.matches("input")) return;
      event.preventDefault();
      field.focus();
    });
    this.$download.addEventListener("click", () => this.download());
    new ResizeObserver(() => this.link()).observe(this.$ego);
  }

  // State

  readAddress() {
    const state = new URLSearchParams(location.hash.slice(1));
    const score = Number(state.get("score"));
    Object.assign(this.filters, { score: score >= 0 && score <= 1 ? score : 0, off: new Set(state.getAll("off")) });
    this.count();
    const hub = this.nodes.reduce((best, node) => (node.degree > (best?.degree ?? -1) ? node : best), null);
    this.centre = this.byId.get(state.get("entity")) ?? hub;
    this.goal = this.byId.get(state.get("to")) ?? null;
    this.filters.set(this.filters);
  }

  get address() {
    const state = new URLSearchParams({ entity: this.centre.id });
    if (this.goal) state.set("to", this.goal.id);
    if (this.filters.score) state.set("score", this.filters.score.toFixed(2));
    for (const key of this.filters.off) state.append("off", key);
    return `#${state}`;
  }

  /** Show another entity, or the path to one; the way back is in the history. */
  go(centre, goal = null) {
    Object.assign(this, { centre, goal });
    history.pushState(null, "", this.address);
    this.show();
  }

  filter() {
    this.count();
    if (!this.centre) return;
    history.replaceState(null, "", this.address);
    this.show();
  }

  /** Count what passes the filters. */
  count() {
    this.filters.count([this.all]);
    const { relations } = this.filters.select(this.all);
    this.edges.forEach((edge, i) => { edge.shown = relations[i]; });
    for (const node of this.nodes) node.degree = node.edges.filter((edge) => edge.shown).length;
    const connected = this.nodes.filter((node) => node.degree).length;
    const facts = [counted(this.documents, "document", "documents"), counted(connected, "connected entity", "connected entities"), counted(relations.filter(Boolean).length, "relation", "relations")];
    this.$facts.textContent = facts.join(" · ");
    const hubs = this.nodes.filter((node) => node.degree).sort((a, b) => b.degree - a.degree).slice(0, GraphPage.HUBS);
    this.$hubs.replaceChildren(...hubs.map((node) => optionOf(node, () => this.go(node))));
    this.$hubs.hidden = !hubs.length;
  }

  // The entity and its neighbours

  show() {
    this.chosen = null;
    for (const item of this.$hubs.children) item.ariaSelected = String(item.dataset.node === this.centre.id);
    this.settle();
    const edges = this.centre.edges.filter((edge) => edge.shown);
    const [incoming, outgoing] = [[], []];
    for (const edge of edges) (this.nodes[edge.tail] === this.centre && !edge.symmetric ? incoming : outgoing).push(edge);
    const middle = html("div", { class: `centre c${this.centre.colour}` }, html("h2", { class: "entity" }, html("bdi", {}, this.centre.name), "\u00a0", codeOf(this.centre)));
    if (!edges.length) middle.append(html("p", { class: "aside" }, "No relations pass the filters."));
    this.links = svg("svg", { class: "links", "aria-hidden": "true" });
    this.$ego.replaceChildren(this.side("in", incoming), middle, this.side("out", outgoing), this.links);
    this.settleEgo();
    this.link();
    this.describe();
    this.showPath();
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
    const other = this.nodes[this.nodes[edge.head] === this.centre ? edge.tail : edge.head];
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
    for (const other of this.$ego.querySelectorAll(".edge")) other.ariaPressed = String(other === button && this.chosen !== null);
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

  showEvidence() {
    const edges = this.chosen ? [this.chosen] : this.route ?? this.centre.edges.filter((edge) => edge.shown);
    const rows = edges.flatMap((edge) => edge.evidence.map((row) => [edge, row]));
    if (!this.route) rows.sort(([, a], [, b]) => (b[1] ?? 0) - (a[1] ?? 0));
    this.$evidence.replaceChildren(...rows.slice(0, GraphPage.SENTENCES).map(([edge, row]) => this.card(edge, row)));
  }

  card(edge, [source, score, parts]) {
    const ends = [this.nodes[edge.head], this.nodes[edge.tail]];
    const text = parts.map((part) => (typeof part === "string" ? part : html("mark", { class: `entity c${ends[part[1]].colour}` }, part[0])));
    const facts = [edge.label, ...(score === null ? [] : [score.toFixed(2)])].join(" · ");
    return html("li", {}, html("p", { dir: "auto" }, ...text), html("p", { class: "facts" }, `${facts} · `, html("bdi", {}, source)));
  }

  // Paths and download

  /** A shortest path between two entities along shown edges, whatever their direction; null if there is none. */
  pathTo(goal) {
    const before = new Map([[this.centre, null]]);
    const queue = [this.centre];
    for (let node = queue.shift(); node && node !== goal; node = queue.shift()) {
      for (const edge of node.edges) {
        const other = this.nodes[this.nodes[edge.head] === node ? edge.tail : edge.head];
        if (!edge.shown || before.has(other)) continue;
        before.set(other, [node, edge]);
        queue.push(other);
      }
    }
    if (!before.has(goal)) return null;
    const steps = [];
    for (let step = before.get(goal), node = goal; step; node = step[0], step = before.get(step[0])) steps.unshift([...step, node]);
    return steps;
  }

  showPath() {
    this.$path.hidden = !this.goal;
    this.route = null;
    if (!this.goal) return;
    const steps = this.pathTo(this.goal);
    if (!steps?.length) {
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
      const onward = this.nodes[edge.head] === from;
      const arrow = edge.symmetric ? `↔ ${edge.label} ↔` : onward ? `— ${edge.label} →` : `← ${edge.label} —`;
      return html("li", {}, html("span", { class: "arrow" }, arrow), place(to));
    }));
  }

  /** The relations that are shown, as CSV. Spreadsheets run cells with some first characters, so these are quoted. */
  download() {
    const cell = (value) => {
      const text = String(value ?? "");
      const safe = /^[=+\-@＝＋－＠\t\r\n']/.test(text) ? `'${text}` : text;
      return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const edges = this.route ?? this.centre.edges.filter((edge) => edge.shown);
    const rows = edges.map((edge) => [this.nodes[edge.head].name, edge.label, this.nodes[edge.tail].name, edge.documents, edge.mentions, edge.score]);
    const text = [["head", "relation", "tail", "documents", "mentions", "score"], ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
    const link = html("a", { download: "relations.csv", href: URL.createObjectURL(new Blob([text], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}

document.addEventListener("DOMContentLoaded", () => new GraphPage());
