// All views: number of rows, rate of change, lag.

import { viewPath } from "./agent.js";
import { may } from "./caller.js";
import { bytes, count, counted, element, rate, seconds, setText } from "./dom.js";
import { drawSpark, sparkline } from "./plot.js";
import { RATE_SECONDS, follow, lately, percentile } from "./pulse.js";
import { welcome } from "./welcome.js";

const LISTED = 200; // sorted by name; the user searches for the others
const total = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

export function showViews(main) {
  const tiles = ["Views", "Epoch", "Changes", "Latency"].map((title) => tile(title));
  const filter = element("input", { type: "search", id: "filter", placeholder: "Name", autocomplete: "off", on: { input: () => draw() } });
  const body = element("tbody");
  const table = element("table", { class: "views" },
    element("caption", { class: "unseen" }, "Views"),
    element("thead", {}, element("tr", {},
      ...[["Name"], ["Rows", "number"], ["Rate"], ["Lag"], ["Stored", "number wide"], ["Strategy", "wide"]].map(
        ([title, kind]) => element("th", { scope: "col", class: kind }, title)))),
    body);
  const none = welcome();
  const scroll = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Views" }, table);
  const more = element("p", { class: "hint after" });
  const notice = element("p", { class: "notice", role: "alert", hidden: true });
  const finding = element("p", { class: "finding" }, element("label", { for: "filter" }, "Search"), filter);
  const numbers = element("div", { class: "tiles" }, ...tiles.map((one) => one.box));
  const create = element("a", { class: "button", href: "#/query" }, "New view");
  main.append(
    element("div", { class: "heading" }, element("h1", {}, "Views"), element("div", { class: "actions" }, finding, create)),
    notice, numbers, none, scroll, more);

  const lines = new Map();
  let state = null;
  function draw() {
    notice.hidden = !state.problem;
    setText(notice, state.problem);
    const search = filter.value.toLowerCase();
    const found = state.views.filter((view) => view.name.toLowerCase().includes(search));
    const views = found.sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true })).slice(0, LISTED);
    setText(more, found.length > LISTED ? `${count(LISTED)} of ${counted(found.length, "view")}. Search by name to find the others.` : "");
    none.hidden = !state.now || state.views.length > 0 || Boolean(state.problem);
    scroll.hidden = numbers.hidden = state.views.length === 0;
    create.hidden = scroll.hidden || !may("admin");
    finding.hidden = state.views.length < 8;
    const names = new Set(views.map((view) => view.name));
    for (const [name, line] of lines) {
      if (!names.has(name)) {
        line.row.remove();
        lines.delete(name);
      }
    }
    views.forEach((view, place) => {
      let line = lines.get(view.name);
      if (!line) lines.set(view.name, (line = lineOf(view)));
      line.update(view, state);
      if (body.children[place] !== line.row) body.insertBefore(line.row, body.children[place] ?? null);
    });
    drawTiles(tiles, state);
  }
  return follow((current) => {
    state = current;
    draw();
  });
}

function tile(title) {
  const value = element("dd", {});
  const more = element("dd", { class: "more" });
  return { box: element("dl", { class: "tile" }, element("dt", {}, title), value, more), value, more };
}

function drawTiles([views, epoch, changes, latency], state) {
  const recent = state.epochs.filter((entry) => entry.time > state.now - RATE_SECONDS);
  setText(views.value, count(state.views.length));
  const failed = state.views.filter((view) => view.failure).length;
  setText(views.more, failed ? `${count(failed)} failed` : `${counted(total(state.views.map((view) => view.rows)), "row")}`);
  setText(epoch.value, count(state.epoch));
  setText(epoch.more, `${count(recent.length)} in the last minute`);
  const changed = total(recent.map((entry) => entry.inserted + entry.deleted));
  setText(changes.value, rate(changed / RATE_SECONDS));
  setText(changes.more, `${count(changed)} in the last minute`);
  const half = percentile(recent.map((entry) => entry.seconds), 0.5);
  setText(latency.value, half === null ? "–" : seconds(half));
  setText(latency.more, half === null ? "no epochs in the last minute" : `99 % below ${seconds(percentile(recent.map((entry) => entry.seconds), 0.99))}`);
}

function lineOf(view) {
  const cells = Object.fromEntries(["rows", "lag", "stored", "carried"].map((name) => [name, element("span")]));
  const spark = sparkline(new Array(30).fill(0));
  const speed = element("span", { class: "speed" });
  const form = element("span", { class: "badge" }, view.form);
  const row = element("tr", {},
    element("th", { scope: "row" }, element("a", { href: `#/${viewPath(view.name)}` }, view.name), " ", form),
    element("td", { class: "number" }, cells.rows),
    element("td", {}, element("span", { class: "recently" }, spark, speed)),
    element("td", {}, cells.lag),
    element("td", { class: "number wide" }, cells.stored),
    element("td", { class: "wide" }, cells.carried));
  return {
    row,
    update(now, state) {
      setText(form, now.form);
      setText(cells.rows, count(now.rows));
      const recent = lately((entry) => entry.rows[now.name] ?? 0);
      drawSpark(spark, recent);
      setText(speed, rate(total(recent) / RATE_SECONDS));
      cells.lag.className = now.failure ? "bad" : lagging(now, state) ? "late" : "good";
      setText(cells.lag, lagOf(now, state));
      setText(cells.stored, bytes(now.state_bytes));
      setText(cells.carried, now.strategy);
    },
  };
}

const lagging = (view, state) => view.unseen_changes > 0 || view.epoch < state.epoch;

export function lagOf(view, state) {
  if (view.failure) return "failed";
  if (!lagging(view, state)) return "none";
  const behind = counted(Math.max(0, state.epoch - view.epoch), "epoch");
  return view.unseen_changes ? `${behind}, ${counted(view.unseen_changes, "change")} behind` : `${behind} behind`;
}
