// What can stand at the caret: prefixes, keywords, variables of the text, and the store's predicates and classes.
// A suggestion is { label, detail, from, text, prefix }: `text` replaces the part from `from` to the caret, and
// `prefix` is a prefix that the text must declare for it.

import { FUNCTIONS, KEYWORDS, declaredPrefixes, tokenAt, tokens } from "./lexer.js";
import { PREFIXES } from "./prefixes.js";

const MOST = 30;
const TYPE = new Set(["a", "rdf:type", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"]);

// `terms`: { predicates, classes } of the store. `asked`: the user asked for suggestions, and did not only type.
export function suggestions(text, position, terms, asked) {
  const { token, before } = tokenAt(text, position);
  if (token && ["comment", "string", "number", "language", "blank"].includes(token.kind)) return [];
  const opened = /<(?:[a-z][^<>"{}|^`\\\s]*)?$/i.exec(text.slice(0, position))?.[0]; // an IRI that is not closed yet
  if (opened && (asked || opened.length > 1)) return iris(opened, position - opened.length, terms, before);
  const empty = !token || token.kind === "space" || (token.kind === "sign" && token.text !== "?");
  const typed = empty ? "" : text.slice(token.start, position);
  const from = position - typed.length;
  const last = before.at(-1)?.text.toUpperCase();
  if (last === "PREFIX") return declarations(typed, from);
  if (/^[?$]/.test(typed)) return variables(text, typed, from);
  if (!asked && typed.length < 2 && !typed.includes(":")) return [];
  const known = names(text, typed, from, terms, before);
  if (typed.includes(":")) return known.slice(0, MOST);
  return [...words(typed, from), ...known].slice(0, MOST);
}

function declarations(typed, from) {
  const search = typed.replace(/:.*/s, "").toLowerCase();
  return Object.entries(PREFIXES)
    .filter(([name]) => name.startsWith(search))
    .map(([name, iri]) => ({ label: `${name}:`, detail: iri, from, text: `${name}: <${iri}>` }))
    .slice(0, MOST);
}

function variables(text, typed, from) {
  const found = new Set(tokens(text).filter(({ kind, start }) => kind === "variable" && start !== from).map(({ text: name }) => name));
  return [...found].filter((name) => name.startsWith(typed) && name !== typed).sort()
    .map((name) => ({ label: name, detail: "variable", from, text: name })).slice(0, MOST);
}

function words(typed, from) {
  const search = typed.toUpperCase();
  const of = (list, detail, end) => list.filter((word) => search && word.toUpperCase().startsWith(search) && word.toUpperCase() !== search)
    .map((word) => ({ label: word, detail, from, text: word + end }));
  return [...of(KEYWORDS, "keyword", " "), ...of(FUNCTIONS, "function", "(")];
}

// After `a`, classes come first; elsewhere predicates.
const inOrder = (terms, before) =>
  TYPE.has(before.at(-1)?.text)
    ? [...terms.classes.map((iri) => [iri, "class"]), ...terms.predicates.map((iri) => [iri, "predicate"])]
    : [...terms.predicates.map((iri) => [iri, "predicate"]), ...terms.classes.map((iri) => [iri, "class"])];

function iris(typed, from, terms, before) {
  const search = typed.slice(1).toLowerCase();
  return inOrder(terms, before).filter(([iri]) => iri.toLowerCase().includes(search))
    .map(([iri, detail]) => ({ label: `<${iri}>`, detail, from, text: `<${iri}>` })).slice(0, MOST);
}

// Terms of the store by their name, written with a prefix if there is one; and prefixes.
function names(text, typed, from, terms, before) {
  const declared = declaredPrefixes(text);
  const prefixes = [...declared, ...Object.entries(PREFIXES).filter(([name]) => !declared.has(name))];
  const search = typed.toLowerCase();
  const found = [];
  for (const [iri, detail] of inOrder(terms, before)) {
    const [name, space] = prefixes.find(([, start]) => start && iri.startsWith(start) && /^[\w-]*$/.test(iri.slice(start.length))) ?? [];
    const local = iri.slice(space ? space.length : Math.max(iri.lastIndexOf("#"), iri.lastIndexOf("/")) + 1);
    const label = space ? `${name}:${local}` : `<${iri}>`;
    if (!label.toLowerCase().startsWith(search) && !local.toLowerCase().startsWith(search)) continue;
    if (label === typed) continue;
    found.push({ label, detail, from, text: label, prefix: space && !declared.has(name) ? [name, space] : null });
  }
  if (search && !search.includes(":")) {
    for (const [name, iri] of prefixes) {
      if (name.startsWith(search)) found.push({ label: `${name}:`, detail: iri, from, text: `${name}:`, prefix: declared.has(name) ? null : [name, iri] });
    }
  }
  return found;
}
