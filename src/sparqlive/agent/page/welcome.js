// The first thing people see where there is no view yet: sample data, and a live view of it in three clicks.

import { ask, viewPath } from "./agent.js";
import { may } from "./caller.js";
import { element, setText } from "./dom.js";
import { look } from "./pulse.js";
import { registerView } from "./register.js";
import { SAMPLES, sampleChange, sampleData } from "./sample.js";
import { forgetVocabulary } from "./vocabulary.js";

export function welcome() {
  const problem = element("p", { class: "notice", role: "alert", hidden: true });
  const own = element("p", { class: "after" },
    "With your own data: ", element("a", { href: "#/sources" }, "load a file or add a source"), ", then ",
    element("a", { href: "#/query" }, "write a query"), " and register it.");
  if (!may("write") || !may("admin")) {
    const who = may("admin") ? own : element("p", { class: "after" }, element("a", { class: "button main", href: "#/query" }, "Write a query"));
    return element("div", { class: "empty" }, element("h2", {}, "No views yet"), element("p", {}, "A view is a query whose result stays up to date."), who);
  }
  const load = element("button", { type: "button", class: "main", on: { click: () => doing(load, loadSample) } }, "Load the sample shop");
  const views = element("ul", { class: "samples", hidden: true },
    ...SAMPLES.map((sample) => {
      const button = element("button", { type: "button", class: "main", on: { click: () => doing(button, () => create(sample)) } }, "Create");
      button.setAttribute("aria-label", `Create the view ${sample.name}`);
      return element("li", {}, element("span", {}, element("strong", {}, sample.name), element("span", {}, sample.words)), button);
    }));
  const words = element("p", {}, "A view is a query whose result stays up to date while the data changes. See one with a small shop: 42 products with prices and stock.");
  const step = element("p", { class: "after" }, load);

  async function doing(button, work) {
    button.disabled = true;
    problem.hidden = true;
    try {
      await work();
    } catch (error) {
      problem.hidden = false;
      setText(problem, error.message);
    }
    button.disabled = false;
  }

  async function loadSample() {
    await ask("graphs?default", { method: "POST", headers: { "Content-Type": "text/turtle" }, body: sampleData() });
    forgetVocabulary();
    setText(words, "The shop is loaded. Choose a view: the page shows it, and lets you change the shop.");
    step.hidden = true;
    views.hidden = false;
    views.querySelector("button").focus();
  }

  async function create({ name, query, chart }) {
    await registerView(name, query);
    location.hash = `#/${viewPath(name)}${chart ? `/chart?kind=${chart}` : ""}`;
  }

  return element("div", { class: "empty" }, element("h2", {}, "No views yet"), words, problem, step, views, own);
}

// The button that changes the sample shop, on the views of it.
export function changeButton(failed) {
  const button = element("button", { type: "button", class: "main", on: { click: async () => {
    try {
      await ask("sparql", { method: "POST", headers: { "Content-Type": "application/sparql-update" }, body: sampleChange() });
      look();
    } catch (error) {
      failed(error.message);
    }
  } } }, "Change some prices and stock");
  return button;
}
