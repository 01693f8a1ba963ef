// Registers, replaces, refreshes and drops views.

import { ask, viewPath } from "./agent.js";
import { announce, count, element } from "./dom.js";
import { confirmed } from "./dialogs.js";
import { look } from "./pulse.js";

const SPARQL = { "Content-Type": "application/sparql-query" };

// Registers a query; if the view exists with another query, asks before it is replaced. Returns whether it was done.
export async function registerView(name, query, { refresh = "immediate", replace = false, signal } = {}) {
  const put = (more) => ask(`${viewPath(name)}?${new URLSearchParams({ refresh, ...more })}`, { method: "PUT", headers: SPARQL, body: query, signal });
  try {
    await put(replace ? { replace: "true" } : {});
  } catch (error) {
    if (error.status !== 409) throw error;
    const sentence = "Its query or its refresh setting is replaced, and the view is computed again. Readers of its changes get the new rows.";
    if (!(await confirmed(`Replace the view ${name}?`, sentence, "Replace"))) return false;
    await put({ replace: "true" });
  }
  look();
  return true;
}

// The buttons for one view. `failed` gets errors; `rights` says what the user may do.
export function viewActions(view, may, failed) {
  const doing = (work) => async (event) => {
    const button = event.currentTarget;
    button.disabled = true;
    try {
      await work();
    } catch (error) {
      failed(error.message);
    }
    button.disabled = false;
  };
  const refresh = doing(async () => {
    const answer = await (await ask(viewPath(view.name, "/refresh"), { method: "POST" })).json();
    announce(`${view.name} is at epoch ${count(answer.epoch)}.`);
    look();
  });
  const drop = doing(async () => {
    const sentence = "The view and its stored rows are removed. The data stays. Readers of its changes are disconnected.";
    if (!(await confirmed(`Drop the view ${view.name}?`, sentence, "Drop"))) return;
    await ask(viewPath(view.name), { method: "DELETE" });
    look();
    location.hash = "#/views";
  });
  const edit = `#/query?${new URLSearchParams({ query: view.query, view: view.name })}`;
  return element("div", { class: "actions" },
    may("write") && view.refresh !== "immediate" ? element("button", { type: "button", on: { click: refresh } }, "Refresh") : null,
    may("admin") ? element("a", { class: "button", href: edit }, "Edit") : null,
    may("admin") ? element("button", { type: "button", class: "danger", on: { click: drop } }, "Drop") : null);
}
