// One view: its rows as they change, its plan and its query.

import { read, viewPath } from "./agent.js";
import { bytes, clock, count, element, rate, setText } from "./dom.js";
import { draft } from "./query.js";
import { showPlan } from "./plan.js";
import { RATE_SECONDS, follow, lately } from "./pulse.js";
import { showRows } from "./rows.js";
import { lagOf } from "./views.js";

const TABS = { rows: "Rows", plan: "Plan", query: "Query" };

export function showView(main, name, tab) {
  const chosen = tab in TABS ? tab : "rows";
  const facts = element("dl", { class: "facts" });
  const fact = Object.fromEntries(["Rows", "Changes", "Lag", "Stored", "Strategy"].map((title) => {
    const value = element("dd");
    facts.append(element("div", {}, element("dt", {}, title), value));
    return [title, value];
  }));
  const form = element("span", { class: "badge" });
  const failure = element("p", { class: "notice", role: "alert", hidden: true });
  const panel = element("section", { class: "panel", "aria-label": TABS[chosen] });
  main.append(
    element("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, element("a", { href: "#/views" }, "Views"), element("span", { "aria-hidden": "true" }, "/")),
    element("div", { class: "heading" }, element("h1", {}, name, " ", form)),
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
    if (chosen === "rows") end = showRows(panel, view, (rows) => setText(fact.Rows, count(rows)));
    else if (chosen === "plan") end = showPlan(panel, viewPath(name, "/plan"), view.query);
    else end = showText(panel, view);
  };
  const fail = (sentence) => {
    failure.hidden = !sentence;
    setText(failure, sentence ?? "");
  };
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
    element("pre", { class: "query", tabindex: "0" }, element("code", {}, view.query)),
    element("p", { class: "after" }, element("a", { href: "#/query", class: "button", on: { click: () => draft.set(view.query) } }, "Open in the query editor")));
  return () => {};
}
