// What is wrong, what the user may do, and the limits that apply.

import { read } from "./agent.js";
import { caller, may } from "./caller.js";
import { bytes, count, element, seconds, setText } from "./dom.js";
import { follow } from "./pulse.js";

const EVERY = 5000;
const LIMITS = {
  query_seconds: "Time of a query; it is then stopped",
  query_rows: "Rows of a query; more are an error",
  queries: "Queries at the same time; others wait",
  queries_per_token: "Queries of one token at the same time",
  queries_waiting: "Waiting queries of one token",
  view_seconds: "Time to compute a new view",
  epoch_seconds: "Processor time of one view per epoch",
  body_bytes: "Size of a request",
  upload_bytes: "Size of a file to load",
  uploads: "Files that are loaded at the same time",
  history_bytes: "How far a reader of changes may fall behind",
  unsent_bytes: "What waits for all readers of changes together",
  stall_seconds: "How long a reader may accept nothing",
  temporary_rows: "Rows of a temporary view",
  temporary_views: "Temporary views",
  connections: "Open connections",
};
const TOKEN_LIMITS = {
  requests_per_second: "Requests per second", subscriptions: "Open subscriptions", views: "Views that the token registered", query_seconds: "Time of a query",
};
const RIGHTS = { read: "read all data", write: "change data", service: "ask other endpoints (SERVICE)", admin: "change views and sources" };

export function showStatus(main) {
  const faults = element("ul", { class: "faults" });
  const fine = element("p", { class: "good" });
  const { name, token, rights, limits, token_limits: own, version } = caller();
  main.append(
    element("div", { class: "heading" }, element("h1", {}, "Status")),
    element("section", { class: "part" }, element("h2", {}, "Errors"), fine, faults),
    element("section", { class: "part" }, element("h2", {}, "Your access"),
      element("p", {}, whoIs(name, token)),
      element("ul", { class: "plain" }, ...rights.map((right) => element("li", {}, element("code", {}, right), " ", RIGHTS[right] ?? "read one view"))),
      own ? limitTable("Limits of your token", TOKEN_LIMITS, Object.fromEntries(Object.entries(own).filter(([, value]) => value !== null))) : ""),
    limits ? element("section", { class: "part" }, element("h2", {}, "Limits"), limitTable("Limits of the agent", LIMITS, limits),
      element("p", { class: "hint after" }, `${limits.allow_private ? "Sources may read any address." : "Sources, LOAD and SERVICE read public addresses only."} sparqlive ${version}.`)) : "");

  let sources = [];
  let views = [];
  const draw = () => {
    const found = [
      ...views.filter((view) => view.failure).map((view) => [`View ${view.name}`, view.failure]),
      ...sources.filter((source) => source.error).map((source) => [`Source ${source.name}`, source.error]),
    ];
    faults.replaceChildren(...found.map(([what, sentence]) => element("li", { class: "notice" }, element("strong", {}, what), " ", sentence)));
    setText(fine, found.length ? "" : "All views and sources are fine.");
  };
  const unfollow = follow((state) => {
    views = state.views;
    draw();
  });
  let timer = 0;
  const again = async () => {
    try {
      if (may("read")) ({ sources } = await read("sources"));
      draw();
    } catch {
      // The header of the page says that the agent does not respond.
    }
    timer = setTimeout(again, EVERY);
  };
  again();
  return () => {
    unfollow();
    clearTimeout(timer);
  };
}

function whoIs(name, token) {
  if (token) return `The token ${name} may:`;
  return name ? "The agent has no tokens, so everyone on this machine may:" : "The agent gives you no rights yet. Enter a token.";
}

function limitTable(label, words, limits) {
  const known = Object.entries(limits).filter(([name]) => name in words);
  if (!known.length) return "";
  const shown = (name, value) => (name.endsWith("_seconds") ? seconds(value) : name.endsWith("_bytes") ? bytes(value) : count(value));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, element("table", { class: "limits" },
    element("caption", { class: "unseen" }, label),
    element("tbody", {}, ...known.map(([name, value]) => element("tr", {},
      element("th", { scope: "row" }, words[name]), element("td", { class: "number" }, shown(name, value)), element("td", { class: "wide" }, element("code", {}, name)))))));
}
