// The sources and their state.

import { read } from "./agent.js";
import { ago, clock, count, element, setText } from "./dom.js";

const EVERY = 3000;

export function showSources(main) {
  const problem = element("p", { class: "notice", role: "alert", hidden: true });
  const none = element("div", { class: "empty", hidden: true },
    element("h2", {}, "No sources yet"),
    element("p", {}, "Changes come from SPARQL Update, or from sources: files, Web documents, Solid pods, LDES, endpoints, other agents."));
  const body = element("tbody");
  const table = element("div", { class: "scroll", hidden: true }, element("table", { class: "sources" },
    element("caption", { class: "unseen" }, "Sources"),
    element("thead", {}, element("tr", {},
      ...[["Name"], ["Kind"], ["Address", "wide"], ["Quads", "number"], ["Last check"], ["State"]].map(([title, kind]) => element("th", { scope: "col", class: kind }, title)))),
    body));
  main.append(element("div", { class: "heading" }, element("h1", {}, "Sources")), problem, none, table);

  let timer = 0;
  let ended = false;
  const again = async () => {
    try {
      const { sources } = await read("sources");
      if (ended) return;
      const now = Date.now() / 1000;
      none.hidden = sources.length > 0;
      table.hidden = sources.length === 0;
      body.replaceChildren(...sources.map((source) => lineOf(source, now)));
      problem.hidden = true;
    } catch (error) {
      problem.hidden = false;
      setText(problem, error.message);
    }
    if (!ended) timer = setTimeout(again, EVERY);
  };
  again();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

function lineOf(source, now) {
  const state = source.error
    ? element("span", { class: "bad" }, source.stale_since ? `since ${clock(source.stale_since)}: ` : "", source.error)
    : element("span", { class: "good" }, source.last_seen ? "watched" : "not checked yet");
  const seen = source.lag_seconds === null ? "never" : ago(now - source.lag_seconds, now);
  return element("tr", {},
    element("th", { scope: "row" }, source.name),
    element("td", {}, source.kind),
    element("td", { class: "wide long" }, source.address),
    element("td", { class: "number" }, count(source.quads)),
    element("td", {}, seen),
    element("td", { class: "long" }, state));
}
