// One view: its rows as they change, a chart of them, its plan and its query; refreshes, replaces and drops it.

import { read, viewPath } from "./agent.js";
import { may } from "./caller.js";
import { copyButton, downloads } from "./copying.js";
import { bytes, clock, count, element, rate, setText } from "./dom.js";
import { colouredQuery } from "./editor.js";
import { showPlan } from "./plan.js";
import { RATE_SECONDS, follow, lately } from "./pulse.js";
import { viewActions } from "./register.js";
import { showRows } from "./rows.js";
import { isSample } from "./sample.js";
import { showChart } from "./viewchart.js";
import { lagOf } from "./views.js";
import { changeButton } from "./welcome.js";

const TABS = { rows: "Rows", chart: "Chart", plan: "Plan", query: "Query" };

export function showView(main, name, tab, options) {
  const chosen = tab in TABS ? tab : "rows";
  const facts = element("dl", { class: "facts" });
  const fact = Object.fromEntries(["Rows", "Changes", "Lag", "Stored", "Strategy"].map((title) => {
    const value = element("dd");
    facts.append(element("div", {}, element("dt", {}, title), value));
    return [title, value];
  }));
  const form = element("span", { class: "badge" });
  const actions = element("div", { class: "actions" });
  const failure = element("p", { class: "notice", role: "alert", hidden: true });
  const panel = element("section", { class: "panel", "aria-label": TABS[chosen] });
  main.append(
    element("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, element("a", { href: "#/views" }, "Views"), element("span", { "aria-hidden": "true" }, "/")),
    element("div", { class: "heading" }, element("h1", {}, name, " ", form), actions),
    facts, failure,
    element("nav", { class: "tabs", "aria-label": "About this view" },
      ...Object.entries(TABS).map(([key, title]) =>
        element("a", { href: `#/${viewPath(name)}/${key}`, "aria-current": key === chosen ? "page" : null }, title))),
    panel);

  let end = null;
  let gone = false;
  const open = async () => {
    let view;
    try {
      view = await read(viewPath(name, "/statistics"));
    } catch (error) {
      return fail(error.message);
    }
    if (gone) return;
    setText(form, view.form);
    if (may("write") && isSample(view)) actions.append(changeButton(fail));
    actions.append(viewActions(view, may, fail));
    if (chosen === "rows") end = showRows(panel, view, (rows) => setText(fact.Rows, count(rows)), saving(view));
    else if (chosen === "chart") end = showChart(panel, view, options);
    else if (chosen === "plan") end = showPlan(panel, viewPath(name, "/plan"), view.query);
    else end = showText(panel, view);
  };
  const fail = (sentence) => {
    failure.hidden = !sentence;
    setText(failure, sentence ?? "");
  };
  const saving = (view) => downloads({ form: view.form, name, path: viewPath(name), failed: (error) => fail(error.message) });
  open();

  const unfollow = follow((state) => {
    const view = state.views.find((one) => one.name === name);
    if (!view) return;
    if (chosen !== "rows") setText(fact.Rows, count(view.rows));
    const recent = lately((entry) => entry.rows[name] ?? 0).reduce((sum, number) => sum + number, 0);
    setText(fact.Changes, rate(recent / RATE_SECONDS));
    setText(fact.Lag, lagOf(view, state));
    setText(fact.Stored, bytes(view.state_bytes));
    const last = state.epochs.findLast((entry) => name in entry.rows);
    setText(fact.Strategy, last ? `${view.strategy}, last at ${clock(last.time)}` : view.strategy);
    fail(view.failure);
  });
  return () => {
    gone = true;
    unfollow();
    end?.();
  };
}

function showText(panel, view) {
  panel.append(
    element("pre", { class: "query", tabindex: "0", "aria-label": "Query" }, colouredQuery(view.query)),
    element("div", { class: "actions after" },
      may("read") ? element("a", { href: `#/query?${new URLSearchParams({ query: view.query })}`, class: "button" }, "Open in the query editor") : null,
      copyButton("Copy", () => view.query)));
  return () => {};
}
