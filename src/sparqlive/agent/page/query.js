// The query editor: runs a query, shows its plan, registers it as a view.

import { ask, read, viewPath } from "./agent.js";
import { announce, count, counted, element, seconds, setText } from "./dom.js";
import { drawPlan } from "./plan.js";
import { look } from "./pulse.js";
import { shortener, termElement } from "./terms.js";

const KEY = "sparqlive-query";
const FIRST = "SELECT ?subject ?predicate ?object WHERE {\n  ?subject ?predicate ?object\n}\nLIMIT 100\n";
const SHOWN = 300;
const MOST_BYTES = 16_000_000;
const SPARQL = { "Content-Type": "application/sparql-query" };
const RESULTS = "application/sparql-results+json, application/n-triples;q=0.9";

// The text in the editor, stored while the tab is open.
export const draft = {
  get: () => sessionStorage.getItem(KEY) ?? FIRST,
  set: (text) => sessionStorage.setItem(KEY, text),
};

export function showQuery(main) {
  const text = element("textarea", {
    id: "query-text", spellcheck: "false", autocapitalize: "off", rows: 10, "aria-describedby": "query-hint",
    on: { input: () => draft.set(text.value), keydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
    } },
  });
  text.value = draft.get();
  const name = element("input", { type: "text", id: "view-name", size: 18, autocomplete: "off", spellcheck: "false", placeholder: "name" });
  const problem = element("p", { class: "notice", role: "alert", hidden: true });
  const result = element("section", { class: "result", "aria-live": "off" });
  let control = new AbortController();

  // One request at a time: a new one aborts the last one.
  const doing = (work) => async (event) => {
    event?.preventDefault();
    control.abort();
    control = new AbortController();
    const { signal } = control;
    problem.hidden = true;
    result.setAttribute("aria-busy", "true");
    try {
      await work(signal);
    } catch (error) {
      if (signal.aborted) return;
      result.replaceChildren();
      problem.hidden = false;
      setText(problem, error.message);
    }
    if (!signal.aborted) result.removeAttribute("aria-busy");
  };

  const run = doing(async (signal) => {
    const begun = performance.now();
    const response = await ask("sparql", { method: "POST", headers: { ...SPARQL, Accept: RESULTS }, body: text.value, signal });
    const content = await limited(response);
    const lasted = (performance.now() - begun) / 1000;
    const json = response.headers.get("content-type").includes("json");
    showAnswer(result, json ? JSON.parse(content) : content, shortener(text.value), lasted, response.headers.get("sparqlive-view"));
  });
  const plan = doing(async (signal) => {
    const tree = await read("plan", { method: "POST", headers: SPARQL, body: text.value, signal });
    const place = element("div");
    result.replaceChildren(element("h2", {}, "Plan"), place);
    drawPlan(place, tree, text.value);
    announce("The plan is shown below.");
  });
  const register = doing(async (signal) => {
    if (!name.value.trim()) {
      name.focus();
      throw new Error("Enter a name for the view.");
    }
    await ask(viewPath(name.value.trim()), { method: "PUT", headers: SPARQL, body: text.value, signal });
    look();
    location.hash = `#/${viewPath(name.value.trim())}`;
  });

  main.append(
    element("div", { class: "heading" }, element("h1", {}, "Query")),
    element("form", { class: "editor", on: { submit: register } },
      element("label", { for: "query-text", class: "unseen" }, "SPARQL query"),
      text,
      element("div", { class: "actions" },
        element("button", { type: "button", class: "main", on: { click: run } }, "Run"),
        element("button", { type: "button", on: { click: plan } }, "Show plan"),
        element("span", { class: "hint", id: "query-hint" }, element("kbd", {}, "Ctrl"), " ", element("kbd", {}, "Enter"), " runs"),
        element("span", { class: "naming" },
          element("label", { for: "view-name" }, "Register as view"), name,
          element("button", { type: "submit" }, "Register")))),
    problem, result);
  return () => control.abort();
}

// Reads the text of a response, up to a size that a page can show.
async function limited(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
    if (text.length > MOST_BYTES) {
      reader.cancel();
      throw new Error(`The result is larger than ${count(MOST_BYTES)} characters. Add a LIMIT to the query.`);
    }
  }
}

function showAnswer(result, answer, short, lasted, view) {
  const how = `in ${seconds(lasted)}${view ? `, from view ${view}` : ""}`;
  if (typeof answer === "string") {
    const lines = answer.split("\n").filter((line) => line);
    heading(result, counted(lines.length, "triple"), how, lines.length);
    result.append(element("pre", { class: "query", tabindex: "0" }, lines.slice(0, SHOWN).join("\n")));
    return;
  }
  if ("boolean" in answer) {
    heading(result, "Answer", how, 0);
    result.append(element("p", { class: "answer" }, answer.boolean ? "Yes" : "No"));
    return;
  }
  const rows = answer.results.bindings;
  const names = answer.head.vars;
  heading(result, counted(rows.length, "row"), how, rows.length);
  result.append(element("div", { class: "scroll tall", tabindex: "0", role: "region", "aria-label": "Answer" },
    element("table", { class: "rows" },
      element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, `?${name}`)))),
      element("tbody", {}, ...rows.slice(0, SHOWN).map((row) =>
        element("tr", {}, ...names.map((name) => element("td", {}, termElement(row[name], short)))))))));
}

function heading(result, title, how, all) {
  const shown = all > SHOWN ? `, showing the first ${count(SHOWN)}` : "";
  result.replaceChildren(element("div", { class: "bar" }, element("h2", {}, title), element("span", { class: "hint" }, how + shown)));
  announce(`${title} ${how}.`);
}
