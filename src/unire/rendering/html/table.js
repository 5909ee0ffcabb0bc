"use strict";

/**
 * The table of a sentence: gold, the model's probabilities of every cell with the distances of rows, and the decoding.
 *
 *     const view = new TableView(host, labels, table);
 *     view.draw();                     // again when the host changes its width
 *     view.decoded({ alpha, cuts, entities, relations });   // show another decoding of the same cells
 *     view.show("raw");                // the cells, "decoded", or "both"
 *     host.addEventListener("point", ({ detail }) => ...);  // { row, column } of the cell pointed at, or null
 *     host.addEventListener("alpha", ({ detail }) => ...);  // where α is dragged to, if `view.draggable`
 *
 * `labels[id]` is `{ label, code, colour }`. `table` has `words`; `gold` (`entities` as [start, end, label], `relations` as
 * [head, tail, label]) or null; and `model` or null, with `P` (thousandths, n·n·|Y|) and `argmax` (n·n) as arrays,
 * `distances` (n - 1) and `alpha` or null, `cuts`, and `entities` and `relations` as in gold with a score more.
 */
class TableView {
  static SMALLEST = 10;
  static LEGIBLE = 18;
  static LARGEST = 30;
  static NAME = 12;
  static CHART = 74;
  static SCALE = 1000;

  constructor(host, labels, table) {
    Object.assign(this, { host, labels, table, n: table.words.length, shown: "both", draggable: false });
    this.body = html("div", { class: "panels" });
    this.legend = html("ul", { class: "legend", "aria-label": "Colours" });
    this.note = html("div", { class: "note", role: "status", "aria-live": "polite" });
    host.append(this.body, this.legend, this.note);
  }

  decoded(decoding) {
    Object.assign(this.table.model, decoding);
    this.draw();
  }

  show(shown) {
    this.shown = shown;
    this.draw();
  }

  draw() {
    if (!this.host.clientWidth) return; // folded away
    const { model, gold } = this.table;
    const kinds = [];
    if (gold) {
      const unheld = gold.unheld ? `without ${gold.unheld} that a table cannot represent` : "";
      kinds.push({ title: "Gold", small: unheld, fill: (panel) => this.boxes(panel, gold) });
    }
    const raw = { title: "Model", small: "the most probable label of each cell", fill: (panel) => this.cells(panel) };
    const decoded = { title: "Decoded", small: "squares are entities, rectangles are relations", fill: (panel) => this.boxes(panel, model, model.cuts) };
    const chosen = model ? { raw: [raw], decoded: [decoded], both: [raw, decoded] }[this.shown] : [];
    if (chosen.length) chosen[0].chart = model.distances;
    kinds.push(...chosen);
    this.measure(kinds.length);
    this.panels = kinds.map((kind) => this.panel(kind));
    this.body.replaceChildren(...this.panels.map((panel) => panel.figure));
    this.legend.replaceChildren(...this.used().map((id) => html("li", { class: `c${this.labels[id].colour}` }, codeOf(this.labels[id]), " ", this.labels[id].label)));
  }

  /** As many panels side by side as leave legible cells. Words above the columns are slanted, or upright in a narrow page. */
  measure(panels) {
    const letters = Math.min(16, Math.max(...this.table.words.map((word) => word.length)));
    const largest = Math.min(TableView.LARGEST, Math.max(TableView.SMALLEST, Math.ceil(660 / this.n)));
    const fits = (row, size, slanted) => {
      Object.assign(this, { size, slanted, margin: 12 + 0.57 * TableView.font(size) * letters });
      return row * this.width + (row - 1) * 24 <= this.host.clientWidth;
    };
    for (let row = panels; row >= 1; row--) {
      const smallest = row > 1 ? Math.min(largest, TableView.LEGIBLE) : TableView.SMALLEST;
      for (const slanted of [true, false]) {
        const least = slanted ? Math.min(largest, TableView.LEGIBLE) : smallest;
        for (let size = largest; size >= least; size--) if (fits(row, size, slanted && size >= 16)) return;
      }
    }
  }

  /** Of a panel. Slanted words above the columns reach beyond the last one. */
  get width() {
    return this.margin + this.n * this.size + (this.slanted ? 0.65 * this.margin : 6);
  }

  static font(size) {
    return Math.max(9, Math.min(12, size - 2));
  }

  panel({ title, small, fill, chart }) {
    const { n, size, margin, slanted, width } = this;
    const side = n * size;
    const top = slanted ? margin * 0.75 + 8 : margin;
    const picture = svg("svg", { width, height: top + side + (chart ? TableView.CHART : 4), "aria-hidden": "true" });
    picture.append(svg("rect", { class: "ground", x: margin, y: top, width: side, height: side }));
    for (let i = 0; i <= n; i++) {
      const at = i * size;
      picture.append(svg("line", { class: "rule", x1: margin, x2: margin + side, y1: top + at, y2: top + at }));
      picture.append(svg("line", { class: "rule", x1: margin + at, x2: margin + at, y1: top, y2: top + side }));
    }
    this.table.words.forEach((word, i) => {
      const short = word.length > 16 ? `${word.slice(0, 15)}…` : word;
      const middle = (i + 0.5) * size;
      const style = { "font-size": TableView.font(size), "dominant-baseline": "central" };
      picture.append(svg("text", { ...style, x: margin - 6, y: top + middle, "text-anchor": "end" }, short));
      const turn = `translate(${margin + middle + (slanted ? 3 : 0)} ${top - 6}) rotate(${slanted ? -45 : -90})`;
      picture.append(svg("text", { ...style, transform: turn }, short));
    });
    const cursor = svg("g");
    const label = `${title}: ${small}. Arrow keys go from cell to cell.`;
    const frame = html("div", { class: "frame", tabindex: "0", role: "application", "aria-roledescription": "table of word pairs", "aria-label": label }, picture);
    const figure = html("figure", { class: "panel" }, html("figcaption", {}, title, " ", html("small", {}, small)), frame);
    const panel = { figure, frame, picture, cursor, top, rows: chart ? n + 1 : n };
    fill(panel);
    if (chart) this.chart(panel, top + side);
    picture.append(cursor);
    this.listen(panel);
    return panel;
  }

  /** The label of each cell, the stronger the likelier, with its code where there is space. */
  cells({ picture, top }) {
    const { n, size, margin, labels } = this;
    for (let row = 0; row < n; row++) {
      for (let column = 0; column < n; column++) {
        const id = this.table.model.argmax[row * n + column];
        if (!id) continue;
        const opacity = 0.15 + 0.85 * this.probability(row, column, id);
        const place = { x: margin + column * size + 0.5, y: top + row * size + 0.5, width: size - 1, height: size - 1 };
        picture.append(svg("rect", { class: `cell c${labels[id].colour}`, ...place, "fill-opacity": opacity.toFixed(2) }));
        const font = Math.min(9, (size - 3) / TableView.wide(labels[id].code));
        if (font < 6) continue;
        picture.append(svg("text", { class: "code", x: place.x + place.width / 2, y: place.y + place.height / 2, "font-size": font.toFixed(1) }, labels[id].code));
      }
    }
  }

  /** Entities as squares on the diagonal, relations as rectangles, cuts across the table. */
  boxes({ picture, top }, { entities, relations }, cuts = []) {
    const { n, size, margin } = this;
    for (const cut of cuts) {
      const at = cut * size;
      picture.append(svg("line", { class: "cut", x1: margin, x2: margin + n * size, y1: top + at, y2: top + at }));
      picture.append(svg("line", { class: "cut", x1: margin + at, x2: margin + at, y1: top, y2: top + n * size }));
    }
    for (const { rows, columns, id, kind } of TableView.regions({ entities, relations })) {
      const [x, y] = [margin + columns[0] * size, top + rows[0] * size];
      const [width, height] = [(columns[1] - columns[0]) * size, (rows[1] - rows[0]) * size];
      const { label, colour } = this.labels[id];
      picture.append(svg("rect", { class: `box ${kind} c${colour}`, x: x + 1, y: y + 1, width: width - 2, height: height - 2, rx: 2 }));
      this.name(picture, label, x + width / 2, y + height / 2, width - 6, height - 6);
    }
  }

  /** A label in a box, in one line or, if it is then larger, in two. One that would be too small is left to the legend. */
  name(picture, name, x, y, width, height) {
    const parts = name.match(/^(.*?[-_ ]|.*?[a-z](?=[A-Z]))(.+)$/)?.slice(1) ?? [];
    const font = (lines) => Math.min(TableView.NAME, width / Math.max(...lines.map(TableView.wide)), height / lines.length / 1.1);
    const lines = parts.length && font(parts) > font([name]) ? parts : [name];
    const size = font(lines);
    if (size < 6.5) return;
    lines.forEach((line, i) => {
      const middle = y + (i - (lines.length - 1) / 2) * 1.15 * size;
      picture.append(svg("text", { class: "name", x, y: middle, "font-size": size.toFixed(2) }, line));
    });
  }

  /** The width of a label, in units of its font size. */
  static wide(name) {
    Arcs.PEN.font = `600 100px system-ui, sans-serif`;
    return Arcs.PEN.measureText(name).width / 100;
  }

  static regions({ entities, relations }) {
    const squares = entities.map(([start, end, id, score]) => ({ rows: [start, end], columns: [start, end], id, score, kind: "square" }));
    const rectangles = relations.map(([head, tail, id, score]) => ({ rows: squares[head].rows, columns: squares[tail].columns, id, score, kind: "rectangle" }));
    return [...rectangles, ...squares];
  }

  /** How far neighbouring rows and columns are apart, and the threshold above which the table is cut, if it is by them. */
  chart({ picture }, y) {
    const { size, margin, n } = this;
    const { distances, alpha, cuts } = this.table.model;
    const height = TableView.CHART - 22;
    const floor = y + 10 + height;
    this.most ??= Math.max((alpha ?? 1) * 1.2, ...distances);
    const most = Math.max(this.most, alpha ?? 0);
    const at = (distance) => floor - (distance / most) * height;
    distances.forEach((distance, i) => {
      const above = cuts.includes(i + 1) ? " above" : "";
      const width = Math.min(12, size * 0.55);
      picture.append(svg("rect", { class: `bar${above}`, x: margin + (i + 1) * size - width / 2, y: at(distance), width, height: floor - at(distance) }));
    });
    picture.append(svg("line", { class: "rule", x1: margin, x2: margin + n * size, y1: floor, y2: floor }));
    const style = { x: margin - 6, "text-anchor": "end", "font-size": 10 };
    picture.append(svg("text", { ...style, class: "axis", y: floor }, "distance"));
    if (alpha === null) return;
    picture.append(svg("line", { class: "alpha", x1: margin, x2: margin + n * size, y1: at(alpha), y2: at(alpha) }));
    picture.append(svg("text", { ...style, class: "alpha-name", y: at(alpha) + 3 }, `α = ${alpha.toFixed(2)}`));
    if (this.draggable) picture.append(this.handle(at(alpha), (height) => (most * (floor - height)) / (floor - at(most))));
  }

  /** The handle for dragging α. It is redrawn during a drag, so the window has the listeners. */
  handle(y, alphaAt) {
    const { margin, n, size } = this;
    const handle = svg("rect", { class: "handle", x: 0, y: y - 10, width: margin + n * size, height: 20 });
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const drag = ({ clientY }) => {
        const alpha = alphaAt(clientY - this.body.querySelector("svg:has(.handle)").getBoundingClientRect().top);
        this.host.dispatchEvent(new CustomEvent("alpha", { detail: Math.max(0.01, Math.min(this.most, alpha)) }));
      };
      addEventListener("pointermove", drag);
      for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => removeEventListener("pointermove", drag), { once: true });
    });
    return handle;
  }

  listen(panel) {
    const { frame, picture } = panel;
    const cell = (event) => {
      const box = picture.getBoundingClientRect();
      return this.inside(panel, Math.floor((event.clientY - box.top - panel.top) / this.size), event.clientX - box.left - this.margin);
    };
    picture.addEventListener("pointermove", (event) => this.point(panel, cell(event)));
    picture.addEventListener("pointerdown", (event) => this.point(panel, cell(event)));
    picture.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && this.point(panel, null));
    frame.addEventListener("focus", () => frame.matches(":focus-visible") && this.point(panel, this.at ?? { row: 0, column: 0 }));
    frame.addEventListener("blur", () => this.point(panel, null));
    frame.addEventListener("keydown", (event) => {
      const to = this.moved(panel, event.key);
      if (to === undefined) return;
      event.preventDefault();
      this.point(panel, to);
      panel.cursor.lastElementChild?.scrollIntoView({ block: "nearest", inline: "nearest" });
      if (to) this.place(panel, to); // where the cell is now
    });
  }

  /** The cell at a row and at a distance in pixels; the row below the last one is the chart's, whose bars are between words. */
  inside(panel, row, x) {
    const column = row >= this.n ? Math.round(x / this.size) : Math.floor(x / this.size);
    if (row >= this.n && panel.rows > this.n) return column >= 1 && column < this.n ? { row: this.n, column } : null;
    return row >= 0 && row < this.n && column >= 0 && column < this.n ? { row, column } : null;
  }

  moved(panel, key) {
    if (key === "Escape") return null;
    const { row, column } = this.at ?? { row: 0, column: 0 };
    const to = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, this.n - 1], PageUp: [0, column], PageDown: [this.n - 1, column],
    }[key];
    if (!to) return undefined;
    const next = { row: Math.max(0, Math.min(panel.rows - 1, to[0])), column: Math.max(0, Math.min(this.n - 1, to[1])) };
    if (next.row === this.n) next.column = Math.max(1, next.column);
    return next;
  }

  /** Show a cell in every panel, and a note on it. */
  point(panel, cell) {
    if (cell && this.at && cell.row === this.at.row && cell.column === this.at.column && !this.note.hidden) return;
    this.at = cell;
    for (const each of this.panels) each.cursor.replaceChildren(...(cell ? this.cross(each, cell) : []));
    this.note.hidden = !cell;
    this.note.replaceChildren(...(cell ? this.describe(cell) : []));
    if (cell) this.place(panel, cell);
    this.host.dispatchEvent(new CustomEvent("point", { detail: cell }));
  }

  cross({ top, rows }, { row, column }) {
    const { n, size, margin } = this;
    if (row === n) {
      const height = n * size + (rows > n ? TableView.CHART - 12 : 0);
      return [svg("rect", { class: "cursor", x: margin + (column - 0.5) * size, y: top, width: size, height })];
    }
    const [x, y] = [margin + column * size, top + row * size];
    return [
      svg("rect", { class: "cursor", x: 0, y, width: margin + n * size, height: size }),
      svg("rect", { class: "cursor", x, y: 0, width: size, height: top + n * size }),
      svg("rect", { class: "cursor here", x, y, width: size, height: size }),
    ];
  }

  /** Beside the cell, within the window. */
  place({ picture, top }, { row, column }) {
    const box = picture.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.note;
    const x = box.left + this.margin + (column + 1) * this.size + 10;
    const y = box.top + top + (row + 1) * this.size + 10;
    const left = x + width < innerWidth - 8 ? x : x - width - this.size - 20;
    const upper = y + height < innerHeight - 8 ? y : y - height - this.size - 20;
    this.note.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
    this.note.style.top = `${Math.max(8, upper)}px`;
  }

  describe({ row, column }) {
    const { words, model, gold } = this.table;
    if (row === this.n) return this.describeDistance(column);
    const title = row === column ? words[row] : `${words[row]} → ${words[column]}`;
    const parts = [html("div", { class: "title" }, title)];
    if (model) parts.push(this.shares(row, column));
    const verdict = (found) => {
      const region = TableView.regions(found).find(({ rows, columns }) => rows[0] <= row && row < rows[1] && columns[0] <= column && column < columns[1]);
      if (!region) return this.labels[0].label;
      return this.labels[region.id].label + (region.score == null ? "" : ` (score ${region.score.toFixed(3)})`);
    };
    if (model) parts.push(html("div", { class: "aside" }, `Decoded: ${verdict(model)}`));
    if (gold) parts.push(html("div", { class: "aside" }, `Gold: ${verdict(gold)}`));
    return parts;
  }

  describeDistance(column) {
    const { words, model } = this.table;
    const cut = model.cuts.includes(column);
    const compared = model.alpha === null ? "" : ` ${cut ? ">" : "≤"} α = ${model.alpha.toFixed(2)}`;
    return [
      html("div", { class: "title" }, `between ${words[column - 1]} and ${words[column]}`),
      html("div", {}, `distance ${model.distances[column - 1].toFixed(3)}${compared}: ${cut ? "cut" : "no cut"}`),
    ];
  }

  /** The labels of a cell that have a share worth showing, the likeliest first. */
  shares(row, column) {
    const ids = this.labels.map((_, id) => id).filter((id) => this.probability(row, column, id) >= 0.001);
    ids.sort((a, b) => this.probability(row, column, b) - this.probability(row, column, a));
    const list = html("dl");
    for (const id of ids.slice(0, 6)) {
      const { label, colour } = this.labels[id];
      const p = this.probability(row, column, id);
      const share = html("div", { class: `share${colour === null ? "" : ` c${colour}`}`, role: "presentation" });
      share.style.width = `${Math.max(1, 100 * p)}%`;
      list.append(html("dt", {}, label), html("dd", { class: "track" }, share), html("dd", { class: "p" }, p.toFixed(3)));
    }
    return list;
  }

  probability(row, column, id) {
    return this.table.model.P[(row * this.n + column) * this.labels.length + id] / TableView.SCALE;
  }

  /** Labels that appear in the table, by id. */
  used() {
    const { model, gold } = this.table;
    const ids = [model, gold].filter(Boolean).flatMap((found) => TableView.regions(found).map(({ id }) => id));
    return [...new Set([...ids, ...(model ? model.argmax : [])])].filter(Boolean).sort((a, b) => a - b);
  }
}
