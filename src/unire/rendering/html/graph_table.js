"use strict";

/**
 * A comparison table of relations. Rows are the entities of one type. Columns are the types of what they are related to;
 * or, if a second type is chosen, its entities.
 */
class GraphTable {
  static ROWS = 30;
  static COLUMNS = 12;
  static ENTRIES = 5;

  /** `choose(edge, button)` is called for a relation, `go(entity)` for an entity. */
  constructor(host, choose, go) {
    Object.assign(this, { host, choose, go });
    this.settle = oneTabStop(host, "button");
  }

  /** Show relations; return those in the table. */
  show(edges, kind, other) {
    this.lay(edges, kind, other);
    const corner = html("th", { scope: "col" }, kind);
    const head = html("tr", {}, corner, ...this.columns.map((column) => html("th", { scope: "col" }, column.id ? this.nameOf(column) : column.label)));
    this.host.replaceChildren(html("thead", {}, head), html("tbody", {}, ...this.rows.map(([entity, cells]) => (
      html("tr", {}, html("th", { scope: "row" }, this.nameOf(entity)), ...this.columns.map((column) => (
        html("td", {}, ...(cells.get(column) ?? []).map(([met, edge]) => this.entry(entity, met, edge, column)))
      )))
    ))));
    this.host.hidden = !this.rows.length;
    this.settle();
    return [...new Set(this.rows.flatMap(([, cells]) => [...cells.values()].flatMap((entries) => entries.map(([, edge]) => edge))))];
  }

  /** Choose rows and columns, as `compare` does in `explore.py`: those with the most in common first. */
  lay(edges, kind, other) {
    const types = new Map();
    const table = new Map();
    for (const edge of edges) {
      for (const [entity, met] of [[edge.head, edge.tail], [edge.tail, edge.head]]) {
        if (entity.label !== kind || (other && met.label !== other)) continue;
        if (!types.has(met.label)) types.set(met.label, { label: met.label });
        const column = other ? met : types.get(met.label);
        if (!table.has(entity)) table.set(entity, new Map());
        const cells = table.get(entity);
        if (!cells.has(column)) cells.set(column, []);
        cells.get(column).push([met, edge]);
      }
    }
    const sizes = new Map();
    for (const cells of table.values()) for (const column of cells.keys()) sizes.set(column, (sizes.get(column) ?? 0) + 1);
    this.columns = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a)).slice(0, GraphTable.COLUMNS);
    const filled = (cells) => this.columns.filter((column) => cells.has(column)).length;
    const total = (cells) => [...cells.values()].reduce((sum, entries) => sum + entries.length, 0);
    this.rows = [...table].filter(([, cells]) => filled(cells)).sort(([, a], [, b]) => filled(b) - filled(a) || total(b) - total(a)).slice(0, GraphTable.ROWS);
    this.columns = this.columns.filter((column) => this.rows.some(([, cells]) => cells.has(column)));
    for (const [, cells] of this.rows) {
      for (const [column, entries] of cells) {
        if (!this.columns.includes(column)) cells.delete(column);
        entries.sort(([, a], [, b]) => b.documents - a.documents || b.score - a.score).splice(GraphTable.ENTRIES);
      }
    }
  }

  nameOf(entity) {
    const button = html("button", { type: "button", class: `go c${entity.colour}`, title: `Show ${entity.name}` }, codeOf(entity), " ", html("bdi", {}, entity.name));
    button.addEventListener("click", () => this.go(entity));
    return button;
  }

  /** A relation in a cell: its code and direction, seen from the row; and the other entity if the column has several. */
  entry(entity, met, edge, column) {
    const arrow = edge.symmetric ? "↔" : edge.head === entity ? "→" : "←";
    const facts = `${edge.label} ${arrow}, ${counted(edge.documents, "document", "documents")}${edge.score === null ? "" : `, ${edge.score.toFixed(2)}`}`;
    const code = html("small", { class: `relation c${edge.colour}` }, `${edge.code} ${arrow}`);
    const button = html("button", { type: "button", class: "edge", "aria-pressed": "false", title: facts, "aria-label": `${facts}: ${met.name}` }, code, ...(column === met ? [] : [" ", html("bdi", {}, met.name)]));
    button.addEventListener("click", () => this.choose(edge, button));
    return button;
  }

  /** The rows of the table as lists of texts. */
  get cells() {
    const describe = (column, [met, edge]) => [...(column === met ? [] : [met.name]), `(${edge.label}${edge.score === null ? "" : ` ${edge.score.toFixed(2)}`})`].join(" ");
    return [["", ...this.columns.map(({ name, label }) => name ?? label)], ...this.rows.map(([entity, cells]) => (
      [entity.name, ...this.columns.map((column) => (cells.get(column) ?? []).map((entry) => describe(column, entry)).join("; "))]
    ))];
  }
}
