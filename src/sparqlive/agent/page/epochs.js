// The last epochs: size, strategy, reason and duration.

import { card, clock, count, element, seconds, setText, shape } from "./dom.js";
import { follow, percentile } from "./pulse.js";

const LISTED = 60;
const PLOT = { height: 220, left: 64, right: 4, top: 10, bottom: 26 };
const HEADS = [["Epoch", "number"], ["Time"], ["Changes", "number"], ["Ignored", "number"], ["Rows changed"], ["Strategy"], ["Reason"], ["Duration", "number"]];
const STRATEGIES = ["live", "duckdb", "spark", "rebuild"];

export function showEpochs(main) {
  const drawing = shape("svg", { height: PLOT.height, role: "img" });
  const words = element("span", { class: "hint" });
  const body = element("tbody");
  const none = element("div", { class: "empty" }, element("h2", {}, "No epochs yet"), element("p", {}, "Each committed batch of changes is an epoch."));
  const problem = element("p", { class: "notice", role: "alert", hidden: true });
  const figure = element("figure", { class: "plot" },
    element("figcaption", {}, element("h2", {}, "Latency"), words,
      ...STRATEGIES.map((name) => element("span", { class: "key" },
        shape("svg", { width: 10, height: 10, viewBox: "-5 -5 10 10", "aria-hidden": "true" }, dot(name, 0, 0, 4)), name))),
    drawing);
  const table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Epochs" }, element("table", { class: "epochs cards", role: "table" },
    element("caption", { class: "unseen" }, "The last epochs, newest first"),
    element("thead", {}, element("tr", {},
      ...HEADS.map(([title, kind]) => element("th", { scope: "col", class: kind }, title)))),
    body));
  main.append(element("div", { class: "heading" }, element("h1", {}, "Epochs")), problem, none, figure, table);

  const lines = new Map();
  return follow((state) => {
    problem.hidden = !state.problem;
    setText(problem, state.problem);
    const any = state.epochs.length > 0;
    none.hidden = any || !state.now || Boolean(state.problem);
    figure.hidden = table.hidden = !any;
    if (!any) return;
    drawPlot(drawing, state.epochs, words);
    // Existing lines are reused, so that open and focused elements in them stay as they are.
    const listed = state.epochs.slice(-LISTED).reverse();
    const times = new Set(listed.map((entry) => entry.time));
    for (const [time, line] of lines) {
      if (!times.has(time)) {
        line.remove();
        lines.delete(time);
      }
    }
    listed.forEach((entry, place) => {
      if (!lines.has(entry.time)) lines.set(entry.time, lineOf(entry));
      const line = lines.get(entry.time);
      if (body.children[place] !== line) body.insertBefore(line, body.children[place] ?? null);
    });
  });
}

function lineOf(entry) {
  const names = Object.entries(entry.rows).sort((a, b) => b[1] - a[1]);
  const some = names.slice(0, 3).map(([name, rows]) => `${name} ${count(rows)}`).join(", ");
  const more = names.length > 3 ? `, ${count(names.length - 3)} more` : "";
  return card(HEADS.map(([title]) => title), [
    element("th", { scope: "row", class: "number" }, count(entry.epoch)),
    element("td", {}, clock(entry.time)),
    element("td", { class: "number" }, ...(isRefresh(entry) ? ["–"]
      : [element("span", { class: "plus" }, `+${count(entry.inserted)}`), " ", element("span", { class: "minus" }, `−${count(entry.deleted)}`)])),
    element("td", { class: "number" }, count(entry.ignored)),
    element("td", {}, some + more || "none"),
    element("td", {}, entry.strategy),
    element("td", { class: "reason" }, reasons(entry)),
    element("td", { class: "number" }, seconds(entry.seconds))]);
}

// A delayed refresh of a view is listed at the epoch that it brings the view to.
const isRefresh = (entry) => entry.inserted + entry.deleted + entry.ignored === 0;

function reasons(entry) {
  const choices = Object.entries(entry.choices);
  if (!choices.length) return isRefresh(entry) ? "a view was refreshed" : "small change: processed live";
  const list = choices.map(([name, choice]) => element("p", {}, `${name}: ${choice.reason} Duration: ${seconds(choice.seconds)}.`));
  if (choices.length === 1) return `${choices[0][0]}: ${choices[0][1].reason}`;
  return element("details", {}, element("summary", {}, choices[0][1].reason), ...list);
}

function dot(strategy, x, y, size) {
  const kind = STRATEGIES.find((name) => strategy.includes(name) && name !== "live") ?? "live";
  if (kind === "live") return shape("circle", { class: "mark-live", cx: x, cy: y, r: size * 0.8 });
  if (kind === "duckdb") return shape("path", { class: "mark-duckdb", d: `M${x} ${y - size} L${x + size} ${y} L${x} ${y + size} L${x - size} ${y} Z` });
  if (kind === "spark") return shape("rect", { class: "mark-spark", x: x - size, y: y - size, width: 2 * size, height: 2 * size });
  return shape("path", { class: "mark-rebuild", d: `M${x} ${y - size} L${x + size} ${y + size} L${x - size} ${y + size} Z` });
}

// Draws the duration of each epoch, in order, on a logarithmic scale.
function drawPlot(drawing, epochs, words) {
  const took = epochs.map((entry) => Math.max(1e-7, entry.seconds));
  const low = Math.floor(Math.log10(Math.min(...took)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...took))));
  const { height, left, right, top, bottom } = PLOT;
  const width = Math.max(280, drawing.clientWidth);
  drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const x = (place) => left + 8 + ((width - left - right - 16) * place) / Math.max(1, epochs.length - 1);
  const y = (number) => top + ((height - top - bottom) * (high - Math.log10(number))) / (high - low);
  const parts = [];
  for (let power = low; power <= high; power += 1) {
    const at = y(10 ** power);
    parts.push(shape("line", { class: "grid", x1: left, x2: width - right, y1: at, y2: at }));
    parts.push(shape("text", { x: left - 10, y: at + 4, "text-anchor": "end" }, seconds(10 ** power)));
  }
  const half = percentile(took, 0.5);
  const most = percentile(took, 0.99);
  parts.push(shape("line", { class: "half", x1: left, x2: width - right, y1: y(half), y2: y(half) }));
  epochs.forEach((entry, place) => {
    const mark = dot(entry.strategy, x(place), y(took[place]), 3.4);
    mark.append(shape("title", {}, `epoch ${entry.epoch}: ${seconds(entry.seconds)}, ${entry.strategy}`));
    parts.push(mark);
  });
  parts.push(shape("text", { x: x(0), y: height - 6, "text-anchor": "start" }, `epoch ${count(epochs[0].epoch)}`));
  parts.push(shape("text", { x: width - right, y: height - 6, "text-anchor": "end" }, `epoch ${count(epochs.at(-1).epoch)}`));
  drawing.replaceChildren(...parts);
  const summary = `median ${seconds(half)}, 99 % below ${seconds(most)}`;
  setText(words, summary);
  drawing.setAttribute("aria-label", `Latency of ${count(epochs.length)} epochs: ${summary}`);
}
