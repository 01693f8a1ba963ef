// The lines of a table of rows that change: each row has a weight; rows that enter or leave are marked for a moment.

import { count, element, setText } from "./dom.js";
import { shortener, termElement } from "./terms.js";

const MARKED = 2400; // milliseconds, as in the style sheet

export class Lines {
  constructor(view, most) {
    this.variables = view.variables;
    this.short = shortener(view.query);
    this.most = most;
    this.full = false;
    this.body = element("tbody");
    this.rows = new Map();
    this.keys = new WeakMap();
    this.leaving = new Set();
  }

  get size() {
    return this.rows.size;
  }

  // Shows exactly these rows in this order. `marked` says which changes are shown: by key, and 1 or -1.
  become(now, marked) {
    let left = 0;
    for (const key of [...this.rows.keys()].filter((key) => !now.has(key))) {
      left += marked(key, -1);
      this.leave(key, marked(key, -1));
    }
    let entered = 0;
    let before = null;
    for (const [key, { binding, weight }] of now) {
      let row = this.rows.get(key);
      if (!row) {
        entered += marked(key, 1);
        row = this.enter(key, binding, marked(key, 1));
      }
      this.weigh(row, weight);
      before = this.place(row.line, before);
    }
    return { entered, left };
  }

  // Moves a line behind another one. Rows that are leaving keep their place until they are gone.
  place(line, before) {
    let next = before ? before.nextSibling : this.body.firstChild;
    while (next && this.leaving.has(next)) next = next.nextSibling;
    if (next !== line) this.body.insertBefore(line, next);
    return line;
  }

  // Shows the rows in the order that the user chose, if any.
  arrange(sorting) {
    if (sorting.name === null) return;
    let before = null;
    for (const row of sorting.sorted([...this.rows.values()], ({ binding }) => binding)) before = this.place(row.line, before);
  }

  // Adds a weight to a row. Returns 1 if a row entered, -1 if it left, and 0 otherwise.
  add(key, binding, weight) {
    const row = this.rows.get(key);
    if (row) {
      this.weigh(row, row.weight + weight);
      if (row.weight > 0) return 0;
      this.leave(key, true);
      return -1;
    }
    if (weight <= 0) return -1; // of a row that is not among those shown
    const entry = this.enter(key, binding, true);
    this.weigh(entry, weight);
    this.body.prepend(entry.line);
    return 1;
  }

  // Removes rows beyond the maximum, from the end.
  trim() {
    const lines = [...this.body.children].filter((line) => !this.leaving.has(line));
    for (const line of lines.slice(this.most)) {
      this.rows.delete(this.keys.get(line));
      line.remove();
    }
  }

  // Shows terms in full or in short form.
  write(full) {
    this.full = full;
    for (const row of this.rows.values()) {
      row.cells.forEach((cell, place) => cell.replaceChildren(this.term(row.binding, this.variables[place])));
    }
  }

  term(binding, name) {
    return termElement(binding[name], this.short, this.full);
  }

  enter(key, binding, marked) {
    const cells = this.variables.map((name) => element("td", {}, this.term(binding, name)));
    const mark = element("td", { class: "mark" });
    const times = element("td", { class: "times" });
    const row = { binding, weight: 0, times, cells, line: element("tr", {}, mark, ...cells, times) };
    this.rows.set(key, row);
    this.keys.set(row.line, key);
    if (marked) this.mark(row.line, mark, "entered", "+");
    return row;
  }

  leave(key, marked) {
    const { line } = this.rows.get(key);
    this.rows.delete(key);
    if (!marked || this.leaving.size >= this.most) return line.remove();
    this.leaving.add(line);
    this.mark(line, line.firstChild, "left", "−");
  }

  mark(line, cell, name, sign) {
    line.classList.remove("entered");
    line.classList.add(name);
    cell.replaceChildren(element("span", { "aria-hidden": "true" }, sign), element("span", { class: "unseen" }, name));
    setTimeout(() => {
      if (name === "left") {
        this.leaving.delete(line);
        line.remove();
      } else if (!line.classList.contains("left")) {
        line.classList.remove(name);
        cell.replaceChildren();
      }
    }, MARKED);
  }

  weigh(row, weight) {
    row.weight = weight;
    setText(row.times, weight > 1 ? `× ${count(weight)}` : "");
  }
}
