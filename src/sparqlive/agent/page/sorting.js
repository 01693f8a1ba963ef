// Heads of columns that sort rows: a click sorts by the column, another one the other way round.

import { announce, element, setText } from "./dom.js";
import { isNumeric } from "./terms.js";

const MARKS = { ascending: "↑", descending: "↓" };

export class Sorting {
  // `head` turns a column's name into its title. `changed` is called when the order is another one.
  constructor(names, head, changed) {
    this.name = null;
    this.direction = "ascending";
    this.changed = changed;
    this.titles = new Map(names.map((name) => [name, this.title(name, head)]));
  }

  get cells() {
    return [...this.titles.values()].map(({ cell }) => cell);
  }

  title(name, head) {
    const mark = element("span", { class: "direction", "aria-hidden": "true" });
    const button = element("button", { type: "button", class: "sort", title: "Sort", on: { click: () => this.by(name) } }, head(name), mark);
    return { cell: element("th", { scope: "col" }, button), mark };
  }

  by(name) {
    const again = this.name === name;
    this.direction = again && this.direction === "ascending" ? "descending" : "ascending";
    this.name = name;
    for (const [other, { cell, mark }] of this.titles) {
      setText(mark, other === name ? MARKS[this.direction] : "");
      if (other === name) cell.setAttribute("aria-sort", this.direction);
      else cell.removeAttribute("aria-sort");
    }
    this.changed();
    announce(`Sorted by ${name}, ${this.direction}.`);
  }

  // The same rows in the chosen order; `of` gives the solution of a row.
  sorted(rows, of = (row) => row) {
    if (this.name === null) return rows;
    const sign = this.direction === "ascending" ? 1 : -1;
    return [...rows].sort((a, b) => sign * compare(of(a)[this.name], of(b)[this.name]));
  }
}

// Unbound first, then numbers by value, then everything else by its text.
function compare(a, b) {
  if (!a || !b) return Number(Boolean(a)) - Number(Boolean(b));
  if (isNumeric(a) && isNumeric(b)) return Number(a.value) - Number(b.value);
  if (isNumeric(a) !== isNumeric(b)) return isNumeric(a) ? -1 : 1;
  return a.value.localeCompare(b.value, undefined, { numeric: true });
}
