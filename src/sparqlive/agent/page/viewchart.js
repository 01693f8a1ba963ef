// The chart of a view, with controls to choose what it shows, and the address of a page with only the chart.

import { copyButton } from "./copying.js";
import { element } from "./dom.js";
import { LiveChart } from "./livechart.js";
import { KINDS, NOW, ROWS } from "./series.js";

// `options`: the choice in the address, so that a chart can be linked to.
export function showChart(panel, view, options) {
  if (view.form === "ASK") {
    panel.append(element("p", { class: "hint" }, "An ASK has one answer: Rows shows it."));
    return () => {};
  }
  const given = Object.fromEntries(["kind", "x", "y"].filter((name) => options.get(name)).map((name) => [name, options.get(name)]));
  const kind = choice("Show as", KINDS, (value) => changed({ kind: value }));
  const x = choice("Along", {}, (value) => changed({ x: value }));
  const y = choice("Value", {}, (value) => changed({ y: value }));
  const place = element("div");
  const code = element("code");
  const share = element("details", { class: "embedding", hidden: true },
    element("summary", {}, "Embed this chart"),
    element("p", {}, "A page with only the chart. Pages of other origins can show it if the agent runs with --origin. If the agent has tokens, add &token= and a token with the right read:view for this view alone: everyone who sees the address can use it."),
    element("pre", { class: "query", tabindex: "0" }, code),
    element("div", { class: "actions" }, copyButton("Copy code", () => code.textContent),
      copyButton("Copy address", () => embedAddress(view.name, live.choice))));
  panel.append(element("div", { class: "bar tools" }, kind.node, x.node, y.node), place, share);
  const live = new LiveChart(place, view, given, (chosen, numbers) => {
    y.fill({ ...Object.fromEntries(numbers.map((name) => [name, `?${name}`])), [ROWS]: "number of rows" }, chosen.y);
    kind.fill(KINDS, chosen.kind);
    fillAlong(chosen);
    tell(chosen);
  });

  function changed(change) {
    const chosen = { ...live.choice, ...change };
    if (chosen.kind === "bar" && chosen.x === NOW) chosen.x = view.variables[0];
    fillAlong(chosen);
    live.choose(chosen);
    tell(chosen);
  }

  function fillAlong(chosen) {
    const columns = Object.fromEntries(view.variables.map((name) => [name, `?${name}`]));
    x.fill(chosen.kind === "line" ? { ...columns, [NOW]: "time, from now on" } : columns, chosen.x);
    x.node.hidden = chosen.kind === "number";
  }

  function tell(chosen) {
    share.hidden = false;
    code.textContent = `<iframe src="${escaped(embedAddress(view.name, chosen))}" title="${escaped(view.name)}" width="480" height="360"></iframe>`;
    history.replaceState(null, "", `${location.hash.split("?")[0]}?${new URLSearchParams(chosen)}`);
  }

  return () => live.end();
}

// For the value of an attribute in HTML that the user copies.
const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
const embedAddress = (view, chosen) => `${new URL("chart", document.baseURI)}#${new URLSearchParams({ view, ...chosen })}`;

function choice(label, values, chosen) {
  const select = element("select", { "aria-label": label, on: { change: () => chosen(select.value) } });
  const fill = (options, value) => {
    select.replaceChildren(...Object.entries(options).map(([key, words]) => element("option", { value: key, selected: key === value }, words)));
  };
  fill(values);
  return { node: element("label", { class: "check" }, label, select), fill };
}
