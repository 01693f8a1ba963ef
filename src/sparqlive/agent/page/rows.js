// A view's rows while they change: what enters and what leaves is marked for a moment.
//
// The page holds the first rows of a view, never all of a large one, and reads them again and again.

import { Problem, read, viewPath } from "./agent.js";
import { announce, count, counted, element, setText } from "./dom.js";
import { shortener, termElement } from "./terms.js";

const SHOWN = 300;
const MARKED = 2400; // milliseconds; the style sheet knows them too

export function showRows(panel, view) {
  const live = new Live(panel, view);
  live.begin();
  return () => live.end();
}

class Live {
  constructor(panel, view) {
    this.view = view;
    this.short = shortener(view.query);
    this.rows = new Map();
    this.leaving = new Set();
    this.total = view.rows;
    this.epoch = null;
    this.full = false;
    this.draw(panel);
  }

  draw(panel) {
    this.summary = element("p", { class: "summary" });
    this.recent = element("p", { class: "recent" });
    this.pause = element("button", { type: "button", class: "quiet", "aria-pressed": "false", on: { click: () => this.toggle() } }, "Pause");
    const whole = element("input", { type: "checkbox", on: { change: (event) => this.write(event.target.checked) } });
    this.problem = element("p", { class: "notice", role: "alert", hidden: true });
    this.body = element("tbody");
    this.answer = element("p", { class: "answer", hidden: true });
    const variables = this.view.variables;
    this.table = element("table", { class: "rows" },
      element("caption", { class: "unseen" }, `Rows of ${this.view.name}`),
      element("thead", {}, element("tr", {},
        element("th", { scope: "col", class: "mark" }, element("span", { class: "unseen" }, "Change")),
        ...variables.map((name) => element("th", { scope: "col" }, this.view.form === "SELECT" ? `?${name}` : name)),
        element("th", { scope: "col", class: "times" }, element("span", { class: "unseen" }, "Times")))),
      this.body);
    this.scroll = element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": `Rows of ${this.view.name}` }, this.table);
    panel.append(
      element("div", { class: "bar" }, this.summary, this.recent, element("label", { class: "check" }, whole, "Whole terms"), this.pause),
      this.problem, this.answer, this.scroll);
    if (this.view.form === "ASK") {
      this.scroll.hidden = true;
      this.answer.hidden = false;
    }
  }

  begin() {
    this.control = new AbortController();
    this.run(this.control.signal);
  }

  end() {
    this.control.abort();
  }

  toggle() {
    const paused = this.pause.getAttribute("aria-pressed") !== "true";
    this.pause.setAttribute("aria-pressed", String(paused));
    setText(this.pause, paused ? "Go on" : "Pause");
    if (paused) this.end();
    else this.begin();
  }

  // Reads, follows, and after a failure tries again, ever more seldom.
  async run(signal) {
    for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 15000)) {
      try {
        await this.load(signal);
        this.say("");
        wait = 250;
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof Problem) && error.name !== "TypeError") throw error;
        this.say(error instanceof Problem ? error.message : "The agent does not answer.");
      }
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  say(sentence) {
    this.problem.hidden = !sentence;
    setText(this.problem, sentence);
  }

  // The first rows as they are now; what differs from what is shown is marked, unless nothing is shown yet.
  async load(signal) {
    const given = await read(viewPath(this.view.name, `/rows?limit=${SHOWN}`), { signal });
    const marks = this.epoch !== null;
    this.epoch = given.epoch;
    this.total = given.rows;
    const now = new Map();
    given.results.bindings.forEach((binding, place) => now.set(this.keyOf(binding), { binding, weight: given.weights[place] }));
    let left = 0;
    for (const key of [...this.rows.keys()]) {
      if (!now.has(key)) {
        left += 1;
        this.leave(key, marks);
      }
    }
    let entered = 0;
    let before = null;
    for (const [key, { binding, weight }] of now) {
      let row = this.rows.get(key);
      if (!row) {
        entered += 1;
        row = this.enter(key, binding, marks);
      }
      this.weigh(row, weight);
      // Rows that are leaving keep their place until they are gone.
      let next = before ? before.nextSibling : this.body.firstChild;
      while (next && this.leaving.has(next)) next = next.nextSibling;
      if (next !== row.line) this.body.insertBefore(row.line, next);
      before = row.line;
    }
    this.tell(marks ? entered : 0, marks ? left : 0);
  }

  keyOf(binding) {
    return JSON.stringify(this.view.variables.map((name) => binding[name] ?? null));
  }

  enter(key, binding, marked) {
    const cells = this.view.variables.map((name) => element("td", {}, termElement(binding[name], this.short, this.full)));
    const mark = element("td", { class: "mark" });
    const times = element("td", { class: "times" });
    const row = { binding, weight: 0, times, cells, line: element("tr", {}, mark, ...cells, times) };
    this.rows.set(key, row);
    if (marked) this.mark(row.line, mark, "entered", "+", "entered");
    return row;
  }

  leave(key, marked) {
    const { line } = this.rows.get(key);
    this.rows.delete(key);
    if (!marked || this.leaving.size >= SHOWN) return line.remove();
    this.leaving.add(line);
    this.mark(line, line.firstChild, "left", "−", "left");
  }

  mark(line, cell, name, sign, word) {
    line.classList.remove("entered");
    line.classList.add(name);
    cell.replaceChildren(element("span", { "aria-hidden": "true" }, sign), element("span", { class: "unseen" }, word));
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

  write(full) {
    this.full = full;
    for (const row of this.rows.values()) {
      row.cells.forEach((cell, place) => cell.replaceChildren(termElement(row.binding[this.view.variables[place]], this.short, full)));
    }
  }

  tell(entered, left) {
    const shown = this.rows.size;
    setText(this.summary, shown < this.total ? `${count(shown)} of ${counted(this.total, "row")}` : counted(this.total, "row"));
    if (this.view.form === "ASK") setText(this.answer, this.total ? "Yes" : "No");
    if (!entered && !left) return;
    this.recent.replaceChildren(
      element("span", { class: "plus" }, `+${count(entered)}`), " ", element("span", { class: "minus" }, `−${count(left)}`),
      element("span", { class: "at" }, ` at epoch ${count(this.epoch)}`));
    announce(`${this.view.name}: ${counted(entered, "row")} entered, ${count(left)} left; ${counted(this.total, "row")} now.`);
  }
}
