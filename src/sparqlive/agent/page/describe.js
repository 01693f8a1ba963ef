// What the store knows about one IRI: its properties, and where it is mentioned.

import { select } from "./agent.js";
import { copyButton } from "./copying.js";
import { element, setText } from "./dom.js";
import { allTabs } from "./querytabs.js";
import { showTable } from "./table.js";
import { shortener } from "./terms.js";

const MOST = 1000;

export function showDescription(main, options) {
  const iri = options.get("iri") ?? "";
  const short = shortener(allTabs().map((tab) => tab.text).join("\n")); // with the prefixes that the user wrote
  const { lead, local } = short(iri);
  const problem = element("p", { class: "notice", role: "alert", hidden: true });
  const query = `DESCRIBE <${iri}>`;
  main.append(
    element("div", { class: "heading" }, element("h1", {}, lead, local),
      element("div", { class: "actions" },
        copyButton("Copy IRI", () => iri),
        element("a", { class: "button", href: `#/query?${new URLSearchParams({ query })}` }, "Query"))),
    element("p", { class: "full-iri" }, /^https?:/.test(iri) ? element("a", { href: iri, rel: "noopener noreferrer", target: "_blank" }, iri) : iri),
    problem);
  const control = new AbortController();
  const part = async (title, body, names) => {
    const place = element("section", { class: "part" }, element("h2", {}, title));
    main.append(place);
    try {
      const answer = await select(`SELECT ${names.map((name) => `?${name}`).join(" ")} { ${body} } LIMIT ${MOST + 1}`, { signal: control.signal });
      const rows = answer.results.bindings;
      if (!rows.length) return place.append(element("p", { class: "hint" }, "None."));
      if (rows.length > MOST) place.append(element("p", { class: "hint" }, `The first ${MOST}. Query for the others.`));
      showTable(place, { label: title, names, rows: rows.slice(0, MOST), short, head: (name) => name });
    } catch (error) {
      if (control.signal.aborted) return;
      problem.hidden = false;
      setText(problem, error.message);
    }
  };
  if (/[<>"{}|^`\\\s]/.test(iri) || !iri.includes(":")) {
    problem.hidden = false;
    setText(problem, "This is not an absolute IRI.");
    return () => {};
  }
  part("Properties", `<${iri}> ?property ?value`, ["property", "value"]);
  part("Mentioned by", `?subject ?property <${iri}>`, ["subject", "property"]);
  return () => control.abort();
}
