"use strict";

/**
 * The filters of a page: a slider for the lowest score, and a legend whose chips switch labels off and on.
 *
 *     const filters = new Filters(tools, legend, () => ...);  // is called when a filter has changed
 *     filters.count([data, ...]);                             // chips for the labels of these documents
 *     const { entities, relations } = filters.select(data);   // what passes, as lists of true and false
 */
class Filters {
  constructor(tools, legend, changed, labels = []) {
    Object.assign(this, { legend, changed, score: 0, off: new Set(), chips: new Map() });
    this.slider = html("input", { type: "range", id: "score", min: 0, max: 1, step: 0.01, value: 0 });
    this.value = html("output", { for: "score" }, "0.00");
    this.control = html("div", { class: "control" }, html("label", { for: "score" }, "Score at least"), this.slider, this.value);
    tools.append(this.control);
    this.slider.addEventListener("input", () => this.set({ score: Number(this.slider.value), off: this.off }));
    legend.setAttribute("role", "group");
    legend.setAttribute("aria-label", "Types");
    this.settle = oneTabStop(legend, ".chip");
    for (const label of labels) this.chip(label.kind, label);
    this.settle();
  }

  set({ score, off }) {
    Object.assign(this, { score, off });
    this.slider.value = score;
    this.value.value = score.toFixed(2);
    this.changed();
  }

  /** Whether anything is filtered out. */
  get active() {
    return this.score > 0 || this.off.size > 0;
  }

  /** The chip of a label; a new one if it is the first of its label. */
  chip(kind, { label, code, colour }) {
    const key = `${kind}:${label}`;
    if (!this.chips.has(key)) {
      const count = html("span", { class: "count" });
      const button = html("button", { type: "button", class: `chip of-${kind} c${colour}` }, codeOf({ label, code }), html("bdi", {}, label), " ", count);
      button.addEventListener("click", () => {
        const off = new Set(this.off);
        if (!off.delete(key)) off.add(key);
        this.set({ score: this.score, off });
      });
      this.chips.set(key, { button, count, kind });
      const next = this.legend.querySelector(kind === "entity" ? ".of-relation, .hint" : ".hint");
      this.legend.insertBefore(button, next);
    }
    return this.chips.get(key);
  }

  /** Count the labels of documents, above the score, and show in the chips which are off. */
  count(documents) {
    const counts = new Map();
    this.scored = false;
    for (const data of documents) {
      for (const [kind, items] of [["entity", data.entities], ["relation", data.relations]]) {
        for (const item of items) {
          this.chip(kind, item);
          this.scored ||= item.score !== null;
          const key = `${kind}:${item.label}`;
          if (this.passes(item)) counts.set(key, (counts.get(key) ?? 0) + 1);
        }
      }
    }
    this.show(counts);
  }

  /** Show counts in the chips, and which are off. */
  show(counts) {
    for (const [key, chip] of this.chips) {
      chip.button.ariaPressed = String(!this.off.has(key));
      chip.button.classList.toggle("empty", !counts.has(key));
      chip.count.textContent = (counts.get(key) ?? 0).toLocaleString("en");
    }
    this.settle();
  }

  /** Items without a score pass. */
  passes({ score }) {
    return (score ?? 1) >= this.score;
  }

  /** What `ResultFilter` keeps: no relation without its head and tail. */
  select({ entities, relations }) {
    const passing = entities.map((entity) => this.passes(entity) && !this.off.has(`entity:${entity.label}`));
    return {
      entities: passing,
      relations: relations.map((relation) => this.passes(relation) && passing[relation.head] && passing[relation.tail] && !this.off.has(`relation:${relation.label}`)),
    };
  }
}

/** "3 entities, 1 relation", of those selected. */
function summary({ entities, relations }) {
  const number = (list) => list.filter(Boolean).length;
  return `${counted(number(entities), "entity", "entities")}, ${counted(number(relations), "relation", "relations")}`;
}
