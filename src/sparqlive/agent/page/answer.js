// Shows the answer of a query or update.

import { downloads } from "./copying.js";
import { announce, count, counted, element, seconds } from "./dom.js";
import { VARIABLES, readTriples } from "./ntriples.js";
import { showTable } from "./table.js";
import { shortener } from "./terms.js";

const MOST_CHARACTERS = 32_000_000;

// Reads the text of a response, up to a size that a page can show; undefined beyond it.
export async function limitedText(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const pieces = [];
  let length = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return pieces.join("");
    pieces.push(value);
    length += value.length;
    if (length > MOST_CHARACTERS) {
      reader.cancel();
      return undefined;
    }
  }
}

// `view`: the name of the view that answered, if one did. `hint`: why there are no rows. `failed` gets errors of
// downloads.
export function showAnswer(result, { query, type, text, lasted, view, hint, failed }) {
  const how = `in ${seconds(lasted)}${view ? `, from view ${view}` : ""}`;
  const saving = (form) => downloads({
    form, name: view ?? "answer", path: "sparql", failed,
    request: { method: "POST", headers: { "Content-Type": "application/sparql-query" }, body: query },
  });
  if (text === undefined) {
    heading(result, "Too large to show", how);
    result.append(element("p", {}, `The answer has more than ${count(MOST_CHARACTERS)} characters. Add a LIMIT, or save it as a file.`),
      element("div", { class: "bar" }, saving(type.includes("json") ? "SELECT" : "CONSTRUCT")));
    return;
  }
  const short = shortener(query);
  if (!type.includes("json")) {
    const rows = readTriples(text);
    heading(result, counted(rows.length, "triple"), how, hint);
    showTable(result, { label: "Answer", names: VARIABLES, rows, short, head: (name) => name, extra: [saving("CONSTRUCT")] });
    return;
  }
  const answer = JSON.parse(text);
  if ("boolean" in answer) {
    heading(result, "Answer", how, hint);
    result.append(element("p", { class: "answer" }, answer.boolean ? "Yes" : "No"));
    return;
  }
  const rows = answer.results.bindings;
  heading(result, counted(rows.length, "row"), how, hint);
  showTable(result, { label: "Answer", names: answer.head.vars, rows, short, extra: [saving("SELECT")] });
}

export function showUpdated(result, { epoch, inserted, deleted, ignored }, lasted) {
  heading(result, "Update done", `in ${seconds(lasted)}, epoch ${count(epoch)}`);
  const facts = { Inserted: inserted, Deleted: deleted, Ignored: ignored };
  result.append(element("dl", { class: "facts" }, ...Object.entries(facts).map(([title, number]) =>
    element("div", {}, element("dt", {}, title), element("dd", {}, counted(number, "quad"))))));
}

export function heading(result, title, how, hint = null) {
  result.replaceChildren(
    element("div", { class: "bar" }, element("h2", {}, title), element("span", { class: "hint" }, how)),
    ...(hint ? [element("p", { class: "why" }, hint)] : []));
  announce(`${title} ${how}. ${hint ?? ""}`);
}
