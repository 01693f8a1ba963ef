// Reads N-Triples, as the agent writes them, into rows of subject, predicate and object.

const TERM = /<([^>]*)>|_:(\S+)|"((?:[^"\\]|\\.)*)"(?:@([\w-]+)|\^\^<([^>]*)>)?/gu;
const ESCAPES = { t: "\t", b: "\b", n: "\n", r: "\r", f: "\f", '"': '"', "'": "'", "\\": "\\" };
export const VARIABLES = ["subject", "predicate", "object"];

const unescape = (text) =>
  text.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))/g, (_, short, long, sign) =>
    sign ? (ESCAPES[sign] ?? sign) : String.fromCodePoint(parseInt(short ?? long, 16)));

export function readTriples(text) {
  return text.split("\n").filter((line) => line.trim() && !line.startsWith("#")).map((line) =>
    Object.fromEntries([...line.matchAll(TERM)].slice(0, 3).map((match, place) => [VARIABLES[place], termOf(match)])));
}

function termOf([, iri, blank, value, language, datatype]) {
  if (iri !== undefined) return { type: "uri", value: unescape(iri) };
  if (blank !== undefined) return { type: "bnode", value: blank };
  const literal = { type: "literal", value: unescape(value) };
  if (language) literal["xml:lang"] = language;
  if (datatype) literal.datatype = datatype;
  return literal;
}
