// A chart of a view that moves with its changes.

import { token, viewPath } from "./agent.js";
import { BarChart, LineChart, NumberChart } from "./chart.js";
import { count, element, setText } from "./dom.js";
import { follow } from "./follow.js";
import { Content, NOW, Past, ROWS, guess, points, total } from "./series.js";
import { isTime, shortener } from "./terms.js";

const MOST_ROWS = 20_000;
const TOGETHER = 100; // milliseconds; changes of this time are drawn together
const MOVES = 1000; // how often a line over time is drawn without changes

export class LiveChart {
  // `choice`: { kind, x, y }; what is missing is guessed from the rows. `guessed` is called with the choice and
  // the columns of numbers once the rows are there.
  constructor(place, view, choice, guessed = () => {}) {
    Object.assign(this, { view, choice, guessed, past: new Past(), content: new Content(view.variables), control: new AbortController() });
    this.short = shortener(view.query);
    this.problem = element("p", { class: "notice", role: "alert", hidden: true });
    this.frame = element("div", { class: "chart-frame" });
    place.append(this.problem, this.frame);
    this.ready = false;
    this.turn = () => this.draw();
    addEventListener("resize", this.turn);
    this.clock = setInterval(() => this.overTime && this.draw(), MOVES);
    this.run();
  }

  get overTime() {
    return this.choice.kind === "number" || this.choice.x === NOW;
  }

  async run() {
    if (this.view.rows > MOST_ROWS) {
      return this.say(new Error(`The view has ${count(this.view.rows)} rows; a chart shows up to ${count(MOST_ROWS)}. Use GROUP BY in the query.`));
    }
    const { signal } = this.control;
    try {
      for await (const event of follow(viewPath(this.view.name), { token: token.get(), signal, trouble: (error) => this.say(error) })) {
        if (event.type === "replaced") return dispatchEvent(new Event("hashchange"));
        this.content.take(event);
        this.later ??= setTimeout(() => {
          this.later = undefined;
          this.changed();
        }, TOGETHER);
      }
    } catch (error) {
      if (!signal.aborted) this.say(error);
    }
  }

  say(error) {
    this.problem.hidden = !error;
    setText(this.problem, error?.message ?? "");
  }

  changed() {
    if (!this.ready) {
      const { numbers, ...choice } = guess(this.content, this.choice);
      this.choice = choice;
      this.guessed(choice, numbers);
      this.ready = true;
    }
    this.past.add(total(this.content, this.choice.y));
    this.draw();
  }

  // Shows another chart of the same rows.
  choose(choice) {
    if (choice.y !== this.choice.y) this.past = new Past();
    this.choice = { ...this.choice, ...choice };
    this.chart = null;
    this.past.add(total(this.content, this.choice.y));
    this.draw();
  }

  draw() {
    if (!this.ready) return;
    const { kind, x, y } = this.choice;
    if (!this.chart) {
      this.chart = kind === "number" ? new NumberChart() : kind === "bar" ? new BarChart() : new LineChart({ steps: x === NOW });
      this.frame.replaceChildren(this.chart.node);
    }
    const what = y === ROWS ? "number of rows" : `?${y}`;
    const title = `${this.view.name}, ${what}${kind === "number" || x === NOW ? "" : ` by ?${x}`}`;
    if (kind === "number") this.chart.draw(total(this.content, y), this.past.until(), title);
    else if (x === NOW) this.chart.draw(this.past.until(), { title, time: true });
    else {
      const shown = points(this.content, x, y);
      const name = ({ term, label }) => (term.type === "uri" ? this.short(term.value).local : label);
      this.chart.draw(shown, { title, name, time: shown.some(({ term }) => isTime(term)) });
    }
  }

  end() {
    this.control.abort();
    clearTimeout(this.later);
    clearInterval(this.clock);
    removeEventListener("resize", this.turn);
  }
}
