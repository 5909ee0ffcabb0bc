"use strict";

/** What a page knows of a graph, from what `GraphEncoder` wrote. An entity is the same object wherever it occurs. */
class GraphData {
  constructor({ documents, types, relations }) {
    Object.assign(this, { documents, types, relations, byId: new Map() });
  }

  /** Take entities and relations; a relation has its two entities. */
  take({ nodes, edges }) {
    const taken = nodes.map(([id, name, type, mentions, documents, names]) => {
      if (!this.byId.has(id)) this.byId.set(id, { id, name, mentions, documents, names, ...this.types[type], edges: [], degree: 0 });
      return this.byId.get(id);
    });
    return {
      nodes: taken,
      edges: edges.map(([head, tail, relation, symmetric, mentions, documents, score, evidence]) => (
        { head: taken[head], tail: taken[tail], symmetric, mentions, documents, score, evidence, ...this.relations[relation] }
      )),
    };
  }

  /** The steps of a path: from where, along which relation, to where. */
  steps(start, edges) {
    let from = start;
    return edges.map((edge) => {
      const step = [from, edge, edge.head === from ? edge.tail : edge.head];
      from = step[2];
      return step;
    });
  }
}

/** A graph that the page holds. Its methods are asynchronous because those of `ServedGraph` are. */
class EmbeddedGraph extends GraphData {
  constructor(data) {
    super(data);
    Object.assign(this, this.take(data));
    for (const edge of this.edges) {
      edge.head.edges.push(edge);
      edge.tail.edges.push(edge);
    }
  }

  /** Count what passes the filters, and find the entities with the most relations. */
  async overview(filters, most) {
    const counts = new Map();
    const add = (key) => counts.set(key, (counts.get(key) ?? 0) + 1);
    for (const node of this.nodes) add(`entity:${node.label}`);
    for (const edge of this.edges) {
      if (filters.passes(edge)) add(`relation:${edge.label}`);
      edge.shown = filters.passes(edge) && ![`relation:${edge.label}`, `entity:${edge.head.label}`, `entity:${edge.tail.label}`].some((key) => filters.off.has(key));
    }
    for (const node of this.nodes) node.degree = node.edges.filter((edge) => edge.shown).length;
    const connected = this.nodes.filter((node) => node.degree);
    const hubs = connected.sort((a, b) => b.degree - a.degree).slice(0, most);
    return { counts, hubs, entities: connected.length, relations: this.edges.filter((edge) => edge.shown).length };
  }

  /** The entities with some words in a name, best first. */
  async find(words) {
    return this.nodes
      .filter((node) => node.degree && [node.name, ...node.names].some((name) => name.toLowerCase().includes(words)))
      .sort((a, b) => b.name.toLowerCase().startsWith(words) - a.name.toLowerCase().startsWith(words) || b.degree - a.degree);
  }

  /** An entity and its relations; null if there is none. */
  async entity(id) {
    const node = this.byId.get(id);
    return node ? { node, edges: node.edges.filter((edge) => edge.shown) } : null;
  }

  async evidence(edge) {
    return edge.evidence;
  }

  /** A shortest path along shown relations, whatever their direction; null if there is none. */
  async path(start, goal) {
    const before = new Map([[start, null]]);
    const queue = [start];
    for (let node = queue.shift(); node && node !== goal; node = queue.shift()) {
      for (const edge of node.edges) {
        const other = edge.head === node ? edge.tail : edge.head;
        if (!edge.shown || before.has(other)) continue;
        before.set(other, [node, edge]);
        queue.push(other);
      }
    }
    const edges = [];
    for (let step = before.get(goal); step; step = before.get(step[0])) edges.unshift(step[1]);
    return edges.length ? this.steps(start, edges) : null;
  }

  /** The relations between entities of two types; all types if the second one is empty. */
  async table(kind, other) {
    const joins = (a, b) => a.label === kind && (!other || b.label === other);
    return this.edges.filter((edge) => edge.shown && (joins(edge.head, edge.tail) || joins(edge.tail, edge.head)));
  }
}

/**
 * A graph that the server of the page has.
 *
 * A question replaces one of its kind that is still open, whose answer is then null, as it is after an error.
 */
class ServedGraph extends GraphData {
  static PAUSE = 200;

  constructor(data) {
    super(data);
    Object.assign(this, { counts: data.counts, open: new Map(), filters: {} });
    for (const name of ["key", "lock", "problem"]) this[`$${name}`] = document.getElementById(name);
  }

  async ask(kind, question, pause = 0) {
    this.open.get(kind)?.abort();
    const controller = new AbortController();
    this.open.set(kind, controller);
    if (pause) await new Promise((resolve) => { setTimeout(resolve, pause); });
    if (controller.signal.aborted) return null;
    const headers = { "Content-Type": "application/json" };
    if (this.$key.value) headers.Authorization = `Bearer ${this.$key.value}`;
    try {
      const response = await fetch(location.pathname, { method: "POST", headers, signal: controller.signal, body: JSON.stringify({ ...question, ...this.filters }) });
      const answer = await response.json();
      this.$problem.hidden = response.ok;
      if (response.ok) return answer;
      this.$problem.textContent = answer.error;
      if (response.status === 401) this.$lock.hidden = false;
    } catch (error) {
      if (error.name === "AbortError") return null;
      this.$problem.textContent = "the server does not answer; is it still running?";
      this.$problem.hidden = false;
    }
    return null;
  }

  /** Entities with their numbers of relations. */
  ranked(answer) {
    const { nodes } = this.take(answer);
    nodes.forEach((node, i) => { node.degree = answer.degrees[i]; });
    return nodes;
  }

  async overview({ score, off }, most) {
    const hidden = (kind) => [...off].filter((key) => key.startsWith(`${kind}:`)).map((key) => key.slice(kind.length + 1));
    this.filters = { min_score: score, hidden_types: hidden("entity"), hidden_relations: hidden("relation") };
    const answer = await this.ask("overview", { overview: most }, this.answered ? ServedGraph.PAUSE : 0);
    if (!answer) return null;
    this.answered = true;
    const { entities, relations } = answer;
    const counts = new Map([...Object.entries(this.counts).map(([label, n]) => [`entity:${label}`, n]), ...Object.entries(answer.counts).map(([label, n]) => [`relation:${label}`, n])]);
    return { counts, hubs: this.ranked(answer), entities, relations };
  }

  async find(words) {
    const answer = await this.ask("search", { search: words }, ServedGraph.PAUSE);
    return answer && this.ranked(answer);
  }

  async entity(id) {
    const answer = await this.ask("entity", { entity: id });
    if (!answer) return null;
    const { edges } = this.take(answer);
    return this.byId.has(id) ? { node: this.byId.get(id), edges, total: answer.total } : null;
  }

  async evidence(edge) {
    edge.evidence ??= (await this.ask("evidence", { evidence: [edge.head.id, edge.label, edge.tail.id] }))?.evidence;
    return edge.evidence ?? [];
  }

  async path(start, goal) {
    const answer = await this.ask("path", { path: [start.id, goal.id] });
    const edges = answer ? this.take(answer).edges : [];
    return edges.length ? this.steps(start, edges) : null;
  }

  async table(kind, other) {
    const answer = await this.ask("table", { table: other ? [kind, other] : [kind] });
    return answer && this.take(answer).edges;
  }
}
