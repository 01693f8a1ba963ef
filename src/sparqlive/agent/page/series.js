// What a chart shows: the rows of a view as they change, turned into one number, or into points with a label.
//
// `ROWS` stands for the number of rows, `NOW` for the time at which a number changed while the chart was open.

import { isNumeric, isTime, termText } from "./terms.js";

export const ROWS = "(rows)";
export const NOW = "(time)";
export const KINDS = { number: "Number", bar: "Bars", line: "Line" };
const MOST_POINTS = 600;

// The rows of a view with their weights, from the events that follow.js gives.
export class Content {
  constructor(variables) {
    this.variables = variables;
    this.rows = new Map();
  }

  take({ type, first, data }) {
    if (type === "reset" || type === "replaced" || first) this.rows.clear();
    (data.results?.bindings ?? []).forEach((binding, place) => {
      const key = JSON.stringify(this.variables.map((name) => binding[name] ?? null));
      const row = this.rows.get(key) ?? { binding, weight: 0 };
      row.weight += data.weights[place];
      if (row.weight) this.rows.set(key, row);
      else this.rows.delete(key);
    });
  }
}

// Which columns have numbers, and which chart fits the rows best, as far as it is not given.
export function guess(content, given) {
  const { variables } = content;
  const rows = [...content.rows.values()].slice(0, 200);
  const share = (name, test) => rows.length > 0 && rows.every(({ binding }) => !binding[name] || test(binding[name])) && rows.some(({ binding }) => binding[name]);
  const numbers = variables.filter((name) => share(name, isNumeric));
  const along = variables.find((name) => share(name, isTime));
  const label = along ?? variables.find((name) => !numbers.includes(name)) ?? variables.find((name) => name !== numbers.at(-1));
  const value = numbers.findLast((name) => name !== label) ?? ROWS;
  const fits = rows.length <= 1 || value === ROWS || label === undefined ? "number" : along ? "line" : "bar";
  const kind = given.kind in KINDS ? given.kind : fits;
  const x = kind === "number" ? NOW : (label ?? (kind === "bar" ? variables[0] : NOW));
  return { numbers, kind, x: known(given.x) ? given.x : x, y: numbers.includes(given.y) || given.y === ROWS ? given.y : value };

  function known(name) {
    return variables.includes(name) || (name === NOW && kind !== "bar");
  }
}

const valueOf = (binding, y) => (y === ROWS ? 1 : binding[y] && isNumeric(binding[y]) ? Number(binding[y].value) : NaN);

// The sum of a column over all rows, or the number of rows; null if there is nothing to add up.
export function total(content, y) {
  let sum = 0;
  let any = y === ROWS;
  for (const { binding, weight } of content.rows.values()) {
    const value = valueOf(binding, y);
    if (Number.isNaN(value)) continue;
    any = true;
    sum += value * weight;
  }
  return any ? sum : null;
}

// Points { key, label, at, value }: rows with the same label are added up. `at` is a number for columns of numbers
// and times, and null for others.
export function points(content, x, y) {
  const found = new Map();
  for (const { binding, weight } of content.rows.values()) {
    const value = valueOf(binding, y);
    if (Number.isNaN(value) || !binding[x]) continue;
    const term = binding[x];
    const key = JSON.stringify(term);
    const point = found.get(key) ?? { key, term, label: termText(term), at: placeOf(term), value: 0 };
    point.value += value * weight;
    found.set(key, point);
  }
  return [...found.values()];
}

function placeOf(term) {
  const at = isNumeric(term) ? Number(term.value) : isTime(term) ? Date.parse(term.value) : NaN;
  return Number.isNaN(at) ? null : at;
}

// The values of a number since the chart was opened: { at, value }, at most as many as can be drawn.
export class Past {
  constructor() {
    this.points = [];
  }

  add(value, at = Date.now()) {
    if (value === null) return;
    if (this.points.at(-1)?.value !== value) this.points.push({ at, value });
    if (this.points.length > MOST_POINTS) this.points.shift();
  }

  // With a last point for this moment, so that a line reaches it.
  until(at = Date.now()) {
    const last = this.points.at(-1);
    return last ? [...this.points, { at, value: last.value }] : [];
  }
}
