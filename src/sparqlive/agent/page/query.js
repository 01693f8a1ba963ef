// The query editor: tabs of queries and updates, run and cancelled, shown as a plan, shared, registered as a view.

import { ask, headerOf, read, viewPath } from "./agent.js";
import { heading, limitedText, showAnswer, showUpdated } from "./answer.js";
import { may } from "./caller.js";
import { copyButton } from "./copying.js";
import { announce, element, seconds, setText } from "./dom.js";
import { Editor } from "./editor.js";
import { isUpdate } from "./lexer.js";
import { drawPlan } from "./plan.js";
import { look } from "./pulse.js";
import { FIRST, allTabs, changeTab, chooseTab, chosenTab, closeTab, openTab } from "./querytabs.js";
import { registerView } from "./register.js";

const QUERY = { "Content-Type": "application/sparql-query" };
const UPDATE = { "Content-Type": "application/sparql-update" };
const RESULTS = "application/sparql-results+json, application/n-triples;q=0.9";
const REFRESHES = [["immediate", "with every change"], ["1", "within a second"], ["60", "within a minute"], ["manual", "when asked"]];

// `options`: a query to open in a tab, and the view whose query it is.
export function showQuery(main, options) {
  if (options.get("query")) {
    openTab(options.get("query"), options.get("view") ?? undefined);
    history.replaceState(null, "", "#/query"); // so that going back does not open it again
  }
  const place = new QueryPlace(main, options.get("view") ?? "");
  return () => place.end();
}

class QueryPlace {
  constructor(main, view) {
    this.control = null;
    this.tab = chosenTab();
    this.editor = new Editor({
      id: "query-text", label: "SPARQL query", describedBy: "query-hint",
      changed: (text) => this.edited(text), run: () => this.run(),
    });
    this.problem = element("p", { class: "notice", role: "alert", id: "query-problem", hidden: true });
    this.result = element("section", { class: "result", "aria-label": "Result" });
    this.tabs = element("div", { class: "query-tabs", role: "group", "aria-label": "Queries" });
    this.runButton = element("button", { type: "button", class: "main", on: { click: () => this.run() } }, "Run");
    this.planButton = element("button", { type: "button", on: { click: () => this.plan() } }, "Show plan");
    this.clock = element("span", { class: "clock" });
    this.cancelButton = element("button", { type: "button", on: { click: () => this.cancel() } }, "Cancel");
    this.running = element("span", { class: "running", hidden: true }, this.cancelButton, this.clock);
    this.name = element("input", { type: "text", id: "view-name", size: 16, autocomplete: "off", spellcheck: "false", placeholder: "name", value: view });
    this.refresh = element("select", { id: "view-refresh", "aria-label": "Updated" },
      ...REFRESHES.map(([value, words]) => element("option", { value }, `updated ${words}`)));
    this.naming = element("span", { class: "naming" },
      element("label", { for: "view-name" }, "Register as view"), this.name, this.refresh,
      element("button", { type: "submit" }, "Register"));
    main.append(
      element("div", { class: "heading" }, element("h1", {}, "Query")),
      this.tabs,
      element("form", { class: "editor", on: { submit: (event) => (event.preventDefault(), this.register()) } },
        this.editor.node,
        element("div", { class: "actions" },
          this.runButton, this.planButton, copyButton("Copy link", () => linkTo(this.editor.text)), this.running,
          element("span", { class: "hint", id: "query-hint" }, keys("Ctrl", "Enter"), " runs, ", keys("Ctrl", "Space"), " completes"),
          may("admin") ? this.naming : null)),
      this.problem, this.result);
    this.open(this.tab);
  }

  // Tabs

  open(tab) {
    this.tab = tab;
    chooseTab(tab.id);
    this.editor.text = tab.text;
    this.edited(tab.text);
    this.drawTabs();
  }

  edited(text) {
    if (text !== this.tab.text) changeTab(this.tab.id, { text });
    this.tab.text = text;
    const update = isUpdate(text);
    setText(this.runButton, update ? "Run update" : "Run");
    this.runButton.disabled = !may(update ? "write" : "read");
    this.runButton.title = this.runButton.disabled ? `Your token lacks the right ${update ? "write" : "read"}.` : "";
    this.planButton.hidden = update;
    this.naming.hidden = update;
  }

  drawTabs(focus = false) {
    const tabs = allTabs();
    this.tabs.replaceChildren(...tabs.map((tab) => this.drawTab(tab, tabs.length > 1)),
      element("button", { type: "button", class: "add", "aria-label": "New query", title: "New query", on: { click: () => {
        this.open(openTab(FIRST, `Query ${tabs.length + 1}`));
        this.editor.area.focus();
      } } }, "+"));
    if (focus) this.tabs.querySelector("[aria-pressed=true]").focus();
  }

  drawTab(tab, closable) {
    const chosen = tab.id === this.tab.id;
    const choose = element("button", {
      type: "button", class: "tab", "aria-pressed": String(chosen), title: "Double-click or press F2 to rename",
      on: {
        click: () => this.tab.id === tab.id || (this.open(tab), this.drawTabs(true)),
        dblclick: () => this.rename(tab, choose),
        keydown: (event) => event.key === "F2" && this.rename(tab, choose),
      },
    }, tab.name);
    const close = element("button", { type: "button", class: "close", "aria-label": `Close ${tab.name}`, on: { click: () => {
      closeTab(tab.id);
      this.open(chosenTab());
      this.drawTabs(true);
    } } }, "×");
    return element("span", { class: chosen ? "one chosen" : "one" }, choose, chosen && closable ? close : null);
  }

  rename(tab, button) {
    const field = element("input", { type: "text", value: tab.name, size: 12, "aria-label": "Name of this query", on: {
      blur: () => (changeTab(tab.id, { name: field.value.trim() || tab.name }), this.drawTabs()),
      keydown: (event) => {
        if (event.key !== "Enter" && event.key !== "Escape") return;
        if (event.key === "Escape") field.value = tab.name;
        event.preventDefault();
        field.blur();
        this.tabs.querySelector("[aria-pressed=true]").focus();
      },
    } });
    button.replaceWith(field);
    field.select();
  }

  // Work: one request at a time; a new one cancels the last one.

  async doing(work) {
    this.control?.abort();
    const control = (this.control = new AbortController());
    this.problem.hidden = true;
    this.editor.mark(null);
    this.result.setAttribute("aria-busy", "true");
    const begun = performance.now();
    const lasted = () => (performance.now() - begun) / 1000;
    const ticking = setInterval(() => {
      this.running.hidden = false;
      setText(this.clock, seconds(Math.round(lasted() * 10) / 10));
    }, 200);
    try {
      await work(control.signal, lasted);
    } catch (error) {
      if (!control.signal.aborted) this.fail(error);
    }
    clearInterval(ticking);
    if (this.control !== control) return;
    this.running.hidden = true;
    this.result.removeAttribute("aria-busy");
  }

  fail(error) {
    this.result.replaceChildren();
    this.problem.hidden = false;
    // The line of the query and the caret below it need letters of one width.
    const [sentence, ...place] = error.message.split("\n");
    this.problem.replaceChildren(sentence, ...(place.length ? [element("code", { class: "place", tabindex: "0" }, place.join("\n"))] : []));
    this.editor.mark(error);
    if (error.line) this.editor.area.focus();
  }

  cancel() {
    this.control?.abort();
    heading(this.result, "Cancelled", "");
    this.runButton.focus();
  }

  run() {
    const text = this.editor.text;
    return this.doing((signal, lasted) => (isUpdate(text) ? this.update(text, signal, lasted) : this.query(text, signal, lasted)));
  }

  async query(query, signal, lasted) {
    const response = await ask("sparql", { method: "POST", headers: { ...QUERY, Accept: RESULTS }, body: query, signal });
    const text = await limitedText(response);
    showAnswer(this.result, {
      query, text, type: response.headers.get("content-type"), lasted: lasted(),
      view: headerOf(response, "sparqlive-view"), hint: headerOf(response, "sparqlive-hint"),
      failed: (error) => this.fail(error),
    });
  }

  async update(update, signal, lasted) {
    const answer = await read("sparql", { method: "POST", headers: UPDATE, body: update, signal });
    showUpdated(this.result, answer, lasted());
    look();
  }

  plan() {
    const query = this.editor.text;
    return this.doing(async (signal) => {
      const tree = await read("plan", { method: "POST", headers: QUERY, body: query, signal });
      const place = element("div");
      this.result.replaceChildren(element("h2", {}, "Plan"), place);
      drawPlan(place, tree, query);
      announce("The plan is shown below.");
    });
  }

  register() {
    return this.doing(async (signal) => {
      const name = this.name.value.trim();
      if (!name) {
        this.name.focus();
        throw new Error("Enter a name for the view.");
      }
      const done = await registerView(name, this.editor.text, { refresh: this.refresh.value, signal });
      if (done) location.hash = `#/${viewPath(name)}`;
    });
  }

  end() {
    this.control?.abort();
  }
}

const keys = (...names) => element("span", {}, ...names.flatMap((name) => [element("kbd", {}, name), " "]).slice(0, -1));

// The address of this page with a query in it. Opening it runs nothing.
const linkTo = (query) => `${location.href.split("#")[0]}#/query?${new URLSearchParams({ query })}`;
