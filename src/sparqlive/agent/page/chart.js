// Draws charts: one number, bars, or a line. All of them have their numbers as text too.

import { count, element, setText, shape } from "./dom.js";

const MOST_BARS = 25;
const PLOT = { height: 300, left: 56, right: 16, top: 14, bottom: 30 };

const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 6 });
export const figure = (value) => (Number.isInteger(value) ? count(value) : precise.format(value));

// One large number, how much it changed last, and a line of its past.
export class NumberChart {
  constructor() {
    this.value = element("p", { class: "figure" });
    this.change = element("p", { class: "change" });
    this.line = new LineChart({ height: 120, steps: true });
    this.node = element("div", { class: "chart number" }, this.value, this.change, this.line.node);
    this.last = null;
  }

  draw(value, past, title) {
    setText(this.value, value === null ? "–" : figure(value));
    if (this.last !== null && value !== null && value !== this.last) {
      const more = value - this.last;
      setText(this.change, `${more > 0 ? "▲ +" : "▼ −"}${figure(Math.abs(more))}`);
      this.change.className = `change ${more > 0 ? "plus" : "minus"}`;
    }
    if (value !== null) this.last = value;
    this.line.node.toggleAttribute("hidden", past.length < 3);
    if (past.length >= 3) this.line.draw(past, { title, time: true });
  }
}

// Horizontal bars, the largest first; a table, so that every reader gets the numbers.
export class BarChart {
  constructor() {
    this.body = element("tbody");
    this.more = element("p", { class: "hint" });
    this.caption = element("caption", { class: "unseen" });
    this.node = element("div", { class: "chart bars" }, element("table", {}, this.caption, this.body), this.more);
    this.bars = new Map();
  }

  // `name` turns a point into the words of its label.
  draw(points, { title, name }) {
    const shown = points.toSorted((a, b) => b.value - a.value || a.label.localeCompare(b.label)).slice(0, MOST_BARS);
    const most = Math.max(...shown.map(({ value }) => Math.abs(value)), 1e-12);
    setText(this.caption, title);
    const kept = new Set(shown.map(({ key }) => key));
    for (const [key, bar] of this.bars) {
      if (kept.has(key)) continue;
      bar.row.remove();
      this.bars.delete(key);
    }
    shown.forEach((point, place) => {
      if (!this.bars.has(point.key)) this.bars.set(point.key, bar(name(point)));
      const { row, length, number } = this.bars.get(point.key);
      length.style.width = `${(100 * Math.abs(point.value)) / most}%`;
      length.classList.toggle("negative", point.value < 0);
      setText(number, figure(point.value));
      if (this.body.children[place] !== row) this.body.insertBefore(row, this.body.children[place] ?? null);
    });
    setText(this.more, points.length > MOST_BARS ? `The largest ${MOST_BARS} of ${count(points.length)}.` : "");
  }
}

function bar(label) {
  const length = element("div", { class: "length" });
  const number = element("td", { class: "number" });
  return { length, number, row: element("tr", {}, element("th", { scope: "row" }, label), element("td", { class: "track" }, length), number) };
}

// A line through points { at, value }, or { label, value } at equal distances.
export class LineChart {
  constructor({ height = PLOT.height, steps = false } = {}) {
    this.height = height;
    this.steps = steps;
    this.node = shape("svg", { class: "chart line", role: "img", height });
  }

  // `name` turns a point without a place into the words of its label.
  draw(points, { title, time, name }) {
    const { left, right, top, bottom } = PLOT;
    const width = Math.max(260, this.node.clientWidth || 600);
    this.node.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    const placed = points.every(({ at }) => at !== null && at !== undefined);
    const sorted = placed ? points.toSorted((a, b) => a.at - b.at) : points;
    const values = sorted.map(({ value }) => value);
    if (!values.length) return this.node.replaceChildren();
    const [low, high] = placed ? [sorted[0].at, sorted.at(-1).at] : [0, sorted.length - 1];
    const scale = ticks(Math.min(...values), Math.max(...values), Math.max(2, Math.floor(this.height / 55)));
    const x = (point, place) => left + (width - left - right) * (high === low ? 0.5 : ((placed ? point.at : place) - low) / (high - low));
    const y = (value) => top + (this.height - top - bottom) * (1 - (value - scale.low) / (scale.high - scale.low));
    const path = sorted.map((point, place) => {
      const [px, py] = [x(point, place).toFixed(1), y(point.value).toFixed(1)];
      return place === 0 ? `M${px} ${py}` : this.steps ? `H${px} V${py}` : `L${px} ${py}`;
    }).join(" ");
    const words = (point) => (placed ? placeText(point.at, time, high - low) : name(point));
    const last = sorted.at(-1);
    this.node.replaceChildren(
      ...scale.marks.flatMap((mark) => [
        shape("line", { class: "grid", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }),
        shape("text", { x: left - 8, y: y(mark) + 4, "text-anchor": "end" }, figure(mark)),
      ]),
      shape("path", { class: "stroke", d: path }),
      shape("circle", { class: "head", cx: x(last, sorted.length - 1), cy: y(last.value), r: 4 }),
      shape("text", { x: left, y: this.height - 8 }, words(sorted[0])),
      shape("text", { x: width - right, y: this.height - 8, "text-anchor": "end" }, sorted.length > 1 ? words(last) : ""));
    const summary = `${count(values.length)} points from ${figure(Math.min(...values))} to ${figure(Math.max(...values))}, last ${figure(last.value)}`;
    this.node.setAttribute("aria-label", `${title}: ${summary}`);
  }
}

function placeText(at, time, span) {
  if (!time) return figure(at);
  const date = new Date(at);
  if (span < 86_400_000) return date.toLocaleTimeString("en-GB");
  return span < 366 * 86_400_000 ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : String(date.getFullYear());
}

// Round marks that enclose a range.
export function ticks(least, most, number) {
  if (least === most) [least, most] = least === 0 ? [0, 1] : [Math.min(0, least), Math.max(0, most)];
  else if (least > 0 && least < most / 2) least = 0;
  const rough = (most - least) / number;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) ?? 10);
  const [low, high] = [Math.floor(least / step) * step, Math.ceil(most / step) * step];
  const marks = Array.from({ length: Math.round((high - low) / step) + 1 }, (_, place) => Number((low + place * step).toPrecision(12)));
  return { low, high, marks };
}
