// Creates elements and formats numbers. Text enters the page only as text nodes, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const element = (name, attributes = {}, ...children) =>
  fill(document.createElement(name), attributes, children);

export const shape = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

export const byId = (id) => document.getElementById(id);

// Writes a text only if it differs, to avoid needless announcements and repaints.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const whole = new Intl.NumberFormat("en");
export const count = (number) => whole.format(number);
export const counted = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

export function bytes(number) {
  if (number < 1000) return `${number} B`;
  for (const unit of ["kB", "MB", "GB"]) {
    number /= 1000;
    if (number < 999.5) return `${number < 10 ? number.toFixed(1) : Math.round(number)} ${unit}`;
  }
  return `${number.toFixed(1)} TB`;
}

export function seconds(number) {
  if (number === 0) return "0";
  if (number < 1e-3) return `${(number * 1e6).toFixed(number < 1e-5 ? 1 : 0)} µs`;
  if (number < 1) return `${(number * 1e3).toFixed(number < 1e-2 ? 1 : 0)} ms`;
  if (number < 120) return `${number.toFixed(number < 10 ? 1 : 0)} s`;
  return `${count(Math.round(number / 60))} min`;
}

export function rate(number) {
  if (number === 0) return "0 / s";
  return number < 0.1 ? `${(number * 60).toFixed(1)} / min` : `${number < 10 ? number.toFixed(1) : count(Math.round(number))} / s`;
}

export const clock = (time) => new Date(time * 1000).toLocaleTimeString("en-GB");

export function ago(time, now) {
  const gone = Math.max(0, now - time);
  if (gone < 2) return "just now";
  if (gone < 120) return `${Math.round(gone)} s ago`;
  if (gone < 7200) return `${Math.round(gone / 60)} min ago`;
  return `${Math.round(gone / 3600)} h ago`;
}

// Announces a text to screen readers, at most once every five seconds; the last text of a period wins.
const BETWEEN = 5000;
let waiting = "";
let spoken = -BETWEEN;
let timer = 0;

export function announce(text) {
  waiting = text;
  if (timer) return;
  timer = setTimeout(() => {
    timer = 0;
    spoken = performance.now();
    setText(byId("announcement"), waiting);
  }, Math.max(0, spoken + BETWEEN - performance.now()));
}

// A line of a table that narrow windows show as a list of names and values: cells know the titles of their columns. The roles
// are those that elements of tables have anyway, until a style sheet displays them as blocks.
export function card(titles, cells) {
  const shown = cells.filter(Boolean);
  shown.forEach((cell, place) => {
    cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
    if (titles[place]) cell.dataset.title = titles[place];
  });
  return element("tr", { role: "row" }, ...shown);
}
