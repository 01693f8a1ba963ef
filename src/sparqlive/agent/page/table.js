// A table of solutions that can be sorted, filtered, paged and copied.

import { copyText } from "./copying.js";
import { announce, count, counted, element, setText } from "./dom.js";
import { isNumeric, termElement, termText } from "./terms.js";

const PAGE = 100;
const MARKS = { ascending: "↑", descending: "↓" };

// `head` turns a column's name into its title. `extra`: more controls for the bar.
export function showTable(place, { label, names, rows, short, head = (name) => `?${name}`, extra = [] }) {
  const state = { sorted: null, direction: "ascending", search: "", page: 0, shown: rows };
  const body = element("tbody");
  const titles = new Map(names.map((name) => [name, title(name)]));
  const filter = element("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${label}`, size: 14, on: { input: () => find(filter.value) } });
  const where = element("span", { class: "hint", role: "status" });
  const back = element("button", { type: "button", class: "quiet", on: { click: () => turn(-1) } }, "Previous");
  const on = element("button", { type: "button", class: "quiet", on: { click: () => turn(1) } }, "Next");
  const copy = element("button", { type: "button", class: "quiet", on: { click: () => copyRows() } }, "Copy");
  const scroll = element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": label },
    element("table", { class: "rows" },
      element("caption", { class: "unseen" }, label),
      element("thead", {}, element("tr", {}, ...[...titles.values()].map(({ cell }) => cell))),
      body));
  place.append(element("div", { class: "bar tools" }, filter, where, back, on, element("span", { class: "space" }), copy, ...extra), scroll);
  filter.hidden = rows.length < 2;
  copy.hidden = rows.length === 0;
  draw();

  function title(name) {
    const mark = element("span", { class: "direction", "aria-hidden": "true" });
    const cell = element("th", { scope: "col" }, element("button", { type: "button", class: "sort", title: "Sort", on: { click: () => sort(name) } }, head(name), mark));
    return { cell, mark };
  }

  function sort(name) {
    const again = state.sorted === name;
    state.direction = again && state.direction === "ascending" ? "descending" : "ascending";
    state.sorted = name;
    for (const [other, { cell, mark }] of titles) {
      setText(mark, other === name ? MARKS[state.direction] : "");
      if (other === name) cell.setAttribute("aria-sort", state.direction);
      else cell.removeAttribute("aria-sort");
    }
    select();
    announce(`Sorted by ${name}, ${state.direction}.`);
  }

  function find(search) {
    state.search = search.toLowerCase();
    select();
  }

  function select() {
    const fits = (row) => names.some((name) => row[name] && termText(row[name]).toLowerCase().includes(state.search));
    state.shown = state.search ? rows.filter(fits) : [...rows];
    if (state.sorted) {
      const sign = state.direction === "ascending" ? 1 : -1;
      state.shown.sort((a, b) => sign * compare(a[state.sorted], b[state.sorted]));
    }
    state.page = 0;
    draw();
  }

  function turn(pages) {
    state.page += pages;
    draw();
    scroll.scrollTop = 0;
  }

  function draw() {
    const [from, all] = [state.page * PAGE, state.shown.length];
    const some = state.shown.slice(from, from + PAGE);
    body.replaceChildren(...some.map((row) => element("tr", {}, ...names.map((name) => element("td", {}, termElement(row[name], short))))));
    const of = state.search ? `${count(all)} of ${counted(rows.length, "row")}` : counted(all, "row");
    setText(where, all > PAGE ? `${count(from + 1)}–${count(from + some.length)} of ${of}` : state.search ? of : "");
    back.hidden = on.hidden = all <= PAGE;
    back.disabled = state.page === 0;
    on.disabled = from + PAGE >= all;
  }

  async function copyRows() {
    const line = (row) => names.map((name) => (row[name] ? termText(row[name]).replace(/[\t\n\r]/g, " ") : "")).join("\t");
    await copyText([names.join("\t"), ...state.shown.map(line)].join("\n"));
    announce(`${counted(state.shown.length, "row")} copied.`);
    setText(copy, "Copied");
    setTimeout(() => setText(copy, "Copy"), 2000);
  }
}

// Unbound first, then numbers by value, then everything else by its text.
function compare(a, b) {
  if (!a || !b) return Number(Boolean(a)) - Number(Boolean(b));
  if (isNumeric(a) && isNumeric(b)) return Number(a.value) - Number(b.value);
  if (isNumeric(a) !== isNumeric(b)) return isNumeric(a) ? -1 : 1;
  return a.value.localeCompare(b.value, undefined, { numeric: true });
}
