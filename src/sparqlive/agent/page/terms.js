// RDF terms in short form, with the full term in the tooltip.

import { element } from "./dom.js";

const KNOWN = {
  "http://www.w3.org/1999/02/22-rdf-syntax-ns#": "rdf",
  "http://www.w3.org/2000/01/rdf-schema#": "rdfs",
  "http://www.w3.org/2001/XMLSchema#": "xsd",
  "http://www.w3.org/2002/07/owl#": "owl",
  "http://www.w3.org/2004/02/skos/core#": "skos",
  "http://xmlns.com/foaf/0.1/": "foaf",
  "http://purl.org/dc/terms/": "dct",
  "http://schema.org/": "schema",
};
const PREFIX = /prefix\s+([^\s:]*):\s*<([^<>"{}|^`\\\s]*)>/gi;

// Returns a function that shortens IRIs, with the prefixes of a query and some well-known ones.
export function shortener(query = "") {
  const names = new Map(Object.entries(KNOWN));
  for (const [, name, iri] of query.matchAll(PREFIX)) names.set(iri, name);
  const spaces = [...names].filter(([iri]) => iri).sort((a, b) => b[0].length - a[0].length);
  return (iri) => {
    for (const [space, name] of spaces) {
      if (iri.startsWith(space)) {
        const local = iri.slice(space.length);
        if (/^[\w.~-]+$/.test(local)) return { lead: `${name}:`, local };
      }
    }
    const at = Math.max(iri.lastIndexOf("#"), iri.lastIndexOf("/"), iri.indexOf(":") + 1 ? iri.lastIndexOf(":") : -1);
    const local = iri.slice(at + 1);
    return local && at > 0 ? { lead: "…" + iri[at], local } : { lead: "", local: iri };
  };
}

const XSD = "http://www.w3.org/2001/XMLSchema#";
const PLAIN = new Set(["integer", "decimal", "double", "boolean", "string", "int", "long"].map((name) => XSD + name));

export function termElement(term, short, full) {
  if (!term) return element("span", { class: "unbound" }, element("span", { "aria-hidden": "true" }, "–"), element("span", { class: "unseen" }, "unbound"));
  if (term.type === "bnode") return element("span", { class: "term blank" }, `_:${term.value}`);
  if (term.type === "uri") {
    if (full) return element("span", { class: "term iri" }, `<${term.value}>`);
    const { lead, local } = short(term.value);
    return element("span", { class: "term iri", title: term.value }, element("span", { class: "lead" }, lead), local);
  }
  const number = term.datatype && PLAIN.has(term.datatype) && !term.datatype.endsWith("string");
  const literal = element("span", { class: `term literal${number ? " number" : ""}` }, term.value);
  if (term["xml:lang"]) literal.append(element("span", { class: "of" }, `@${term["xml:lang"]}`));
  else if (term.datatype && (full || !PLAIN.has(term.datatype))) {
    const { lead, local } = short(term.datatype);
    literal.append(element("span", { class: "of", title: term.datatype }, full ? `^^<${term.datatype}>` : lead + local));
  }
  return literal;
}
