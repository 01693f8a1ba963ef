// Shows a view's rows as they change; rows that enter or leave are marked for a moment.
//
// The page holds the first rows of a view, never all of a large one. It reads them at an epoch and follows
// exactly the changes after that epoch, so that it misses none and applies none twice. Only the agent knows the
// order of a view with ORDER BY, so the first rows of such a view are read again after a change. The agent does
// not sort large views for that: of these, the page shows any rows.

import { Problem, events, read, viewPath } from "./agent.js";
import { announce, count, counted, element, setText } from "./dom.js";
import { follow } from "./pulse.js";
import { shortener, termElement } from "./terms.js";

const SHOWN = 300;
const MARKED = 2400; // milliseconds, as in the style sheet
const TOGETHER = 120;

// Calls `told` with the number of rows.
export function showRows(panel, view, told) {
  const live = new Live(panel, view, told);
  // A hidden tab holds no connection, because a browser has only a few per host.
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
    this.lineage = null; // the store that the epochs belong to
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
      element("div", { class: "bar" }, this.summary, this.recent, element("label", { class: "check" }, whole, "Full terms"), this.pause),
      this.problem, this.answer, this.scroll);
    if (this.view.form === "ASK") {
      this.scroll.hidden = this.summary.hidden = whole.parentElement.hidden = true;
      this.answer.hidden = false;
    }
  }

  // Starts following, from the last known epoch, or stops it.
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
    setText(this.pause, this.paused ? "Resume" : "Pause");
    this.turn(!this.paused);
  }

  // Follows the view; after a failure, retries with growing pauses.
  async run(signal) {
    for (let wait = 500; !signal.aborted; wait = Math.min(wait * 2, 15000)) {
      this.stream = new AbortController();
      try {
        for await (const event of this.events(signal)) {
          wait = 500;
          this.say("");
          if (this.stream.signal.aborted) break;
          if (event.name === "end" && this.ended(JSON.parse(event.data))) return;
          if (event.name === "reset") this.restart();
          else if (this.epoch === null) await this.begin(event, signal);
          else if (event.name === "delta") this.take(JSON.parse(event.data));
          else if (event.name === "progress") this.epoch = Number(event.id);
        }
      } catch (error) {
        if (signal.aborted) return;
        if (error.name === "AbortError") wait = 50; // the page aborted it itself
        else if (!(error instanceof Problem) && error.name !== "TypeError") throw error;
        else this.say(error instanceof Problem ? error.message : "The agent does not respond.");
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

  // The first event of a stream names the epoch that its changes follow. The rows are read once the stream is
  // open; if they are from a later epoch already, a new stream starts from there.
  async begin(event, signal) {
    await this.load(signal);
    if (Number(event.id) !== this.epoch) this.stream.abort();
  }

  // Discards the position: the rows are read again.
  restart() {
    this.epoch = null;
    this.stream.abort();
  }

  // Shows why a stream ended; returns whether it ended for good.
  ended({ reason, detail }) {
    if (reason === "replaced") dispatchEvent(new Event("hashchange")); // a different query: show the section again
    else this.say(detail);
    return ["replaced", "dropped", "failed"].includes(reason);
  }

  say(sentence) {
    this.problem.hidden = !sentence;
    setText(this.problem, sentence);
  }

  // Reads the first rows. Marks differences from the rows shown, except on the first read. In a view that is not
  // shown completely, marks only rows that are known to have changed: others may just have moved.
  async load(signal) {
    const received = this.changes;
    this.changes = new Map();
    const answer = await read(viewPath(this.view.name, `/rows?limit=${SHOWN}`), { signal });
    const first = !this.read;
    const whole = answer.rows <= SHOWN && this.total <= SHOWN;
    const marked = (key, sign) => !first && (whole || received.get(key)?.weight * sign > 0);
    this.epoch = answer.epoch;
    this.total = answer.rows;
    this.ordered = answer.ordered;
    this.read = true;
    const now = new Map();
    answer.results.bindings.forEach((binding, place) => now.set(this.keyOf(binding), { binding, weight: answer.weights[place] }));
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

  // Whether only the agent knows the order of the rows, or the answer.
  get placed() {
    return this.view.form === "ASK" || this.ordered;
  }

  // Sums changes for a moment, so that rows that come and go at once are not shown.
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
    if (!this.changes.size || this.epoch === null) return; // the rows are about to be read anyway
    const { signal } = this.control;
    this.later ??= setTimeout(async () => {
      try {
        await this.show(signal);
      } catch (error) {
        if (!signal.aborted) {
          this.say(error.message);
          this.restart();
        }
      }
      if (signal.aborted) return;
      this.later = undefined;
      this.schedule();
    }, TOGETHER);
  }

  async show(signal) {
    if (this.placed) return this.load(signal);
    if (this.changes.size > SHOWN) return this.restart();
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
        const entry = this.enter(key, binding, true);
        this.weigh(entry, weight);
        this.body.prepend(entry.line);
      } else left += 1;
    }
    this.changes.clear();
    if (complete) this.total = this.rows.size;
    this.trim();
    if (this.rows.size < Math.min(SHOWN / 2, this.total)) this.restart();
    this.tell(entered, left);
  }

  // Removes rows beyond the maximum, from the end.
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
    setText(this.summary, this.view.ordered && !this.ordered ? `${some}, not sorted` : some);
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
