// RDF terms in short form, with the full term in the tooltip.

import { may } from "./caller.js";
import { element } from "./dom.js";
import { declaredPrefixes } from "./lexer.js";
import { PREFIXES } from "./prefixes.js";

// Returns a function that shortens IRIs, with the prefixes of a query and some well-known ones.
export function shortener(query = "") {
  const names = new Map(Object.entries(PREFIXES).map(([name, iri]) => [iri, name]));
  for (const [name, iri] of declaredPrefixes(query)) names.set(iri, name);
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
const NUMERIC = new Set(
  ["integer", "decimal", "double", "float", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger",
    "nonPositiveInteger", "negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte"].map((name) => XSD + name));
const TIMES = new Set(["dateTime", "date", "gYear", "gYearMonth"].map((name) => XSD + name));

export const isNumeric = (term) => NUMERIC.has(term.datatype);
export const isTime = (term) => TIMES.has(term.datatype);

// A term as text to search, sort and copy.
export const termText = (term) => (term.type === "bnode" ? `_:${term.value}` : term.value);

// Where the page shows what the store knows about an IRI.
export const describePath = (iri) => `#/describe?${new URLSearchParams({ iri })}`;

export function termElement(term, short, full) {
  if (!term) return element("span", { class: "unbound" }, element("span", { "aria-hidden": "true" }, "–"), element("span", { class: "unseen" }, "unbound"));
  if (term.type === "bnode") return element("span", { class: "term blank" }, `_:${term.value}`);
  if (term.type === "uri") {
    const link = may("read") ? { href: describePath(term.value) } : {};
    const linked = (...text) => element(link.href ? "a" : "span", { class: "term iri", title: term.value, ...link }, ...text);
    if (full) return linked(`<${term.value}>`);
    const { lead, local } = short(term.value);
    return linked(element("span", { class: "lead" }, lead), local);
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
