// Shows a view's rows as they change; rows that enter or leave are marked for a moment.
//
// The page holds the first rows of a view, never all of a large one. It reads them at an epoch and follows
// exactly the changes after that epoch, so that it misses none and applies none twice. Only the agent knows the
// order of a view with ORDER BY, so the first rows of such a view are read again after a change. The agent does
// not sort large views for that: of these, the page shows any rows.

import { ask, headerOf, token, viewPath } from "./agent.js";
import { announce, count, counted, element, setText } from "./dom.js";
import { follow as followView } from "./follow.js";
import { follow } from "./pulse.js";
import { Lines } from "./lines.js";
import { Sorting } from "./sorting.js";

const SHOWN = 300;
const TOGETHER = 120;

// Calls `told` with the number of rows. `extra`: another control for the bar above the rows.
export function showRows(panel, view, told, extra) {
  const live = new Live(panel, view, told, extra);
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
  constructor(panel, view, told, extra) {
    this.view = view;
    this.told = told;
    this.changes = new Map();
    this.total = view.rows;
    this.ordered = false;
    this.epoch = null;
    this.lineage = undefined; // the store that the epochs belong to
    this.read = false;
    this.paused = false;
    this.control = null;
    this.draw(panel, extra);
  }

  draw(panel, extra) {
    this.summary = element("p", { class: "summary" });
    this.recent = element("p", { class: "recent" });
    this.pause = element("button", { type: "button", class: "quiet", "aria-pressed": "false", on: { click: () => this.toggle() } }, "Pause");
    const whole = element("input", { type: "checkbox", on: { change: (event) => this.lines.write(event.target.checked) } });
    this.problem = element("p", { class: "notice", role: "alert", hidden: true });
    this.why = element("p", { class: "why", hidden: true });
    this.lines = new Lines(this.view, SHOWN);
    this.answer = element("p", { class: "answer", hidden: true });
    this.sorting = new Sorting(this.view.variables, (name) => (this.view.form === "SELECT" ? `?${name}` : name), () => this.lines.arrange(this.sorting));
    this.table = element("table", { class: "rows" },
      element("caption", { class: "unseen" }, `Rows of ${this.view.name}`),
      element("thead", {}, element("tr", {},
        element("th", { scope: "col", class: "mark" }, element("span", { class: "unseen" }, "Change")),
        ...this.sorting.cells,
        element("th", { scope: "col", class: "times" }, element("span", { class: "unseen" }, "Times")))),
      this.lines.body);
    this.scroll = element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": `Rows of ${this.view.name}` }, this.table);
    panel.append(
      element("div", { class: "bar" }, this.summary, this.recent, element("label", { class: "check" }, whole, "Full terms"), this.pause, extra),
      this.problem, this.why, this.answer, this.scroll);
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

  // Follows the view. A stream that is aborted by the page itself (`restart`) is followed by another.
  async run(signal) {
    while (!signal.aborted) {
      this.stream = new AbortController();
      try {
        for await (const event of this.events(signal)) {
          this.lineage = event.lineage;
          if (event.type === "replaced") return dispatchEvent(new Event("hashchange")); // show the view again
          if (event.type === "reset") this.restart();
          else if (this.epoch === null) await this.begin(event, signal);
          else if (event.type === "delta") this.take(event.data);
          else if (event.type === "progress") this.epoch = event.epoch;
          if (this.stream.signal.aborted) break;
        }
      } catch (error) {
        if (signal.aborted) return;
        this.say(error);
        const passes = error.status === 0 || error.status === 429 || error.status >= 500;
        if (!passes) return; // the view is gone, or may not be read
        await new Promise((done) => setTimeout(done, 1000));
      }
    }
  }

  events(signal) {
    return followView(viewPath(this.view.name), {
      token: token.get(), snapshot: false, since: this.epoch ?? undefined, lineage: this.lineage,
      signal: AbortSignal.any([signal, this.stream.signal]), trouble: (error) => this.say(error),
    });
  }

  // The first event of a stream names the epoch that its changes follow. The rows are read once the stream is
  // open; if they are from a later epoch already, a new stream starts from there.
  async begin(event, signal) {
    await this.load(signal);
    if (event.epoch !== this.epoch) this.stream.abort();
  }

  // Discards the position: the rows are read again.
  restart() {
    this.epoch = null;
    this.stream.abort();
  }

  say(error) {
    this.problem.hidden = !error;
    setText(this.problem, error?.message ?? "");
  }

  // Reads the first rows. Marks differences from the rows shown, except on the first read. In a view that is not
  // shown completely, marks only rows that are known to have changed: others may just have moved.
  async load(signal) {
    const received = this.changes;
    this.changes = new Map();
    const response = await ask(viewPath(this.view.name, `/rows?limit=${SHOWN}`), { signal });
    const answer = await response.json();
    this.explain(headerOf(response, "sparqlive-hint"));
    const first = !this.read;
    const whole = answer.rows <= SHOWN && this.total <= SHOWN;
    const marked = (key, sign) => !first && (whole || received.get(key)?.weight * sign > 0);
    this.epoch = answer.epoch;
    this.total = answer.rows;
    this.ordered = answer.ordered;
    this.read = true;
    const now = new Map();
    answer.results.bindings.forEach((binding, place) => now.set(this.keyOf(binding), { binding, weight: answer.weights[place] }));
    const { entered, left } = this.lines.become(now, marked);
    this.lines.arrange(this.sorting);
    this.tell(entered, left);
  }

  // Says why there are no rows.
  explain(hint) {
    this.why.hidden = !hint;
    setText(this.why, hint ?? "");
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
    if (delta.complete === false) return this.restart(); // one of many parts: more rows than are shown
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
          this.say(error);
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
      const change = this.lines.add(key, binding, weight);
      entered += change > 0;
      left += change < 0;
    }
    this.changes.clear();
    if (complete) this.total = this.lines.size;
    this.explain(null);
    if (!this.total) return this.load(signal); // the agent may know why
    this.lines.trim();
    this.lines.arrange(this.sorting);
    if (this.lines.size < Math.min(SHOWN / 2, this.total)) this.restart();
    this.tell(entered, left);
  }

  retell(total) {
    this.total = total;
    this.told(total);
    const shown = this.lines.size;
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
