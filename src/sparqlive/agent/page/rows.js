// A view's rows while they change: what enters and what leaves is marked for a moment.
//
// The page holds the first rows of a view, never all of a large one. It reads them as of an epoch and follows
// exactly the changes after it, so that nothing is missed and nothing comes twice. Rows of a view with ORDER BY
// have places that only the agent knows: their beginning is read again after a change. The agent does not sort
// large views for that: of those, any rows are shown.

import { Problem, events, read, viewPath } from "./agent.js";
import { announce, count, counted, element, setText } from "./dom.js";
import { follow } from "./pulse.js";
import { shortener, termElement } from "./terms.js";

const SHOWN = 300;
const MARKED = 2400; // milliseconds; the style sheet knows them too
const TOGETHER = 120;

// `told` hears how many rows there are.
export function showRows(panel, view, told) {
  const live = new Live(panel, view, told);
  // A tab that nobody looks at holds no connection: a browser has few for one host.
  const turn = () => live.turn(!document.hidden && !live.paused);
  document.addEventListener("visibilitychange", turn);
  turn();
  return () => {
    document.removeEventListener("visibilitychange", turn);
    live.turn(false);
  };
}

class Live {
  constructor(panel, view, told) {
    this.view = view;
    this.told = told;
    this.short = shortener(view.query);
    this.rows = new Map();
    this.keys = new WeakMap();
    this.leaving = new Set();
    this.changes = new Map();
    this.total = view.rows;
    this.ordered = false;
    this.epoch = null;
    this.lineage = null; // whose epochs these are: another store's mean nothing
    this.read = false;
    this.paused = false;
    this.full = false;
    this.control = null;
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
      this.scroll.hidden = this.summary.hidden = whole.parentElement.hidden = true;
      this.answer.hidden = false;
    }
  }

  // Begins to follow, from where it was left, or ends it.
  turn(on) {
    if (on === Boolean(this.control)) return;
    if (!on) {
      this.control.abort();
      this.control = null;
      this.unfollow();
      clearTimeout(this.later);
      this.later = undefined;
      return;
    }
    this.control = new AbortController();
    this.unfollow = follow((state) => {
      const now = state.views.find((view) => view.name === this.view.name);
      if (now && this.total > SHOWN) this.retell(now.rows);
    });
    this.schedule();
    this.run(this.control.signal);
  }

  toggle() {
    this.paused = !this.paused;
    this.pause.setAttribute("aria-pressed", String(this.paused));
    setText(this.pause, this.paused ? "Go on" : "Pause");
    this.turn(!this.paused);
  }

  // Follows, and after a failure tries again, ever more seldom.
  async run(signal) {
    for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 15000)) {
      this.stream = new AbortController();
      try {
        for await (const event of this.events(signal)) {
          wait = 500;
          this.say("");
          if (this.stream.signal.aborted) break;
          if (event.name === "end" && this.ended(JSON.parse(event.data))) return;
          if (event.name === "reset") this.readAnew();
          else if (this.epoch === null) await this.begin(event, signal);
          else if (event.name === "delta") this.take(JSON.parse(event.data));
          else if (event.name === "progress") this.epoch = Number(event.id);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error.name === "AbortError") wait = 50; // it was asked to
        else if (!(error instanceof Problem) && error.name !== "TypeError") throw error;
        else this.say(error instanceof Problem ? error.message : "The agent does not answer.");
      }
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  events(signal) {
    const known = this.epoch === null ? "" : `&since=${this.epoch}&lineage=${encodeURIComponent(this.lineage)}`;
    return events(viewPath(this.view.name, `/changes?snapshot=false${known}`), {
      signal: AbortSignal.any([signal, this.stream.signal]),
      opened: (headers) => (this.lineage = headers.get("sparqlive-lineage")),
    });
  }

  // A stream begins by saying which epoch its changes follow on. The rows are read once it is open; if they are
  // of a later epoch already, they are followed from there.
  async begin(event, signal) {
    await this.load(signal);
    if (Number(event.id) !== this.epoch) this.stream.abort();
  }

  // What was followed cannot be gone on with.
  readAnew() {
    this.epoch = null;
    this.stream.abort();
  }

  // Whether the stream has ended for good.
  ended({ reason, detail }) {
    if (reason === "replaced") dispatchEvent(new Event("hashchange")); // another query: the place is shown anew
    else this.say(detail);
    return ["replaced", "dropped", "failed"].includes(reason);
  }

  say(sentence) {
    this.problem.hidden = !sentence;
    setText(this.problem, sentence);
  }

  // The first rows as they are now. What differs from what is shown is marked, unless nothing was shown yet; of
  // a view that is not shown whole, only what is known to have changed: other rows may just have moved.
  async load(signal) {
    const heard = this.changes;
    this.changes = new Map();
    const given = await read(viewPath(this.view.name, `/rows?limit=${SHOWN}`), { signal });
    const first = !this.read;
    const whole = given.rows <= SHOWN && this.total <= SHOWN;
    const marked = (key, sign) => !first && (whole || heard.get(key)?.weight * sign > 0);
    this.epoch = given.epoch;
    this.total = given.rows;
    this.ordered = given.ordered;
    this.read = true;
    const now = new Map();
    given.results.bindings.forEach((binding, place) => now.set(this.keyOf(binding), { binding, weight: given.weights[place] }));
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
      // Rows that are leaving keep their place until they are gone.
      let next = before ? before.nextSibling : this.body.firstChild;
      while (next && this.leaving.has(next)) next = next.nextSibling;
      if (next !== row.line) this.body.insertBefore(row.line, next);
      before = row.line;
    }
    this.tell(entered, left);
  }

  keyOf(binding) {
    return JSON.stringify(this.view.variables.map((name) => binding[name] ?? null));
  }

  // Whether the rows have places, or an answer, that only the agent knows.
  get placed() {
    return this.view.form === "ASK" || this.ordered;
  }

  // Changes wait for a moment and are summed, so that what comes and goes at once is not shown.
  take(delta) {
    if (this.view.form === "ASK") this.changes.set("", null);
    else delta.results.bindings.forEach((binding, place) => {
      const key = this.keyOf(binding);
      const known = this.changes.get(key) ?? { binding, weight: 0 };
      known.weight += delta.weights[place];
      if (known.weight) this.changes.set(key, known);
      else this.changes.delete(key);
    });
    this.epoch = delta.epoch;
    this.schedule();
  }

  schedule() {
    if (!this.changes.size || this.epoch === null) return; // what is about to be read holds them
    const { signal } = this.control;
    this.later ??= setTimeout(async () => {
      try {
        await this.show(signal);
      } catch (error) {
        if (!signal.aborted) {
          this.say(error.message);
          this.readAnew();
        }
      }
      if (signal.aborted) return;
      this.later = undefined;
      this.schedule();
    }, TOGETHER);
  }

  async show(signal) {
    if (this.placed) return this.load(signal);
    if (this.changes.size > SHOWN) return this.readAnew();
    const complete = this.total <= SHOWN;
    let entered = 0;
    let left = 0;
    for (const [key, { binding, weight }] of this.changes) {
      const row = this.rows.get(key);
      if (row) {
        this.weigh(row, row.weight + weight);
        if (row.weight <= 0) {
          left += 1;
          this.leave(key, true);
        }
      } else if (weight > 0) {
        entered += 1;
        const made = this.enter(key, binding, true);
        this.weigh(made, weight);
        this.body.prepend(made.line);
      } else left += 1;
    }
    this.changes.clear();
    if (complete) this.total = this.rows.size;
    this.trim();
    if (this.rows.size < Math.min(SHOWN / 2, this.total)) this.readAnew();
    this.tell(entered, left);
  }

  // Of more rows than are shown, those at the end go.
  trim() {
    const lines = [...this.body.children].filter((line) => !this.leaving.has(line));
    for (const line of lines.slice(SHOWN)) {
      this.rows.delete(this.keys.get(line));
      line.remove();
    }
  }

  enter(key, binding, marked) {
    const cells = this.view.variables.map((name) => element("td", {}, termElement(binding[name], this.short, this.full)));
    const mark = element("td", { class: "mark" });
    const times = element("td", { class: "times" });
    const row = { binding, weight: 0, times, cells, line: element("tr", {}, mark, ...cells, times) };
    this.rows.set(key, row);
    this.keys.set(row.line, key);
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

  retell(total) {
    this.total = total;
    this.told(total);
    const shown = this.rows.size;
    const some = shown < total ? `${count(shown)} of ${counted(total, "row")}` : counted(total, "row");
    setText(this.summary, this.view.ordered && !this.ordered ? `${some}, not in order` : some);
  }

  tell(entered, left) {
    this.retell(this.total);
    if (this.view.form === "ASK") setText(this.answer, this.total ? "Yes" : "No");
    if (!entered && !left) return;
    this.recent.replaceChildren(
      element("span", { class: "plus" }, `+${count(entered)}`), " ", element("span", { class: "minus" }, `−${count(left)}`),
      element("span", { class: "at" }, ` at epoch ${count(this.epoch)}`));
    announce(`${this.view.name}: ${counted(entered, "row")} entered, ${count(left)} left; ${counted(this.total, "row")} now.`);
  }
}
