// A table of solutions that can be sorted, filtered, paged and copied.

import { copyText } from "./copying.js";
import { announce, count, counted, element, setText } from "./dom.js";
import { Sorting } from "./sorting.js";
import { termElement, termText } from "./terms.js";

const PAGE = 100;

// `head` turns a column's name into its title. `extra`: more controls for the bar.
export function showTable(place, { label, names, rows, short, head = (name) => `?${name}`, extra = [] }) {
  const state = { search: "", page: 0, shown: rows };
  const body = element("tbody");
  const sorting = new Sorting(names, head, select);
  const filter = element("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${label}`, size: 14, on: { input: () => find(filter.value) } });
  const where = element("span", { class: "hint", role: "status" });
  const back = element("button", { type: "button", class: "quiet", on: { click: () => turn(-1) } }, "Previous");
  const on = element("button", { type: "button", class: "quiet", on: { click: () => turn(1) } }, "Next");
  const copy = element("button", { type: "button", class: "quiet", on: { click: () => copyRows() } }, "Copy");
  const scroll = element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": label },
    element("table", { class: "rows" },
      element("caption", { class: "unseen" }, label),
      element("thead", {}, element("tr", {}, ...sorting.cells)),
      body));
  place.append(element("div", { class: "bar tools" }, filter, where, back, on, element("span", { class: "space" }), copy, ...extra), scroll);
  filter.hidden = rows.length < 2;
  copy.hidden = rows.length === 0;
  draw();

  function find(search) {
    state.search = search.toLowerCase();
    select();
  }

  function select() {
    const fits = (row) => names.some((name) => row[name] && termText(row[name]).toLowerCase().includes(state.search));
    state.shown = sorting.sorted(state.search ? rows.filter(fits) : rows);
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
