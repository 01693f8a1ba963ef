// Splits SPARQL text into tokens, for colours and completion. Never fails: what it does not know is "other".
// Tokens cover the whole text, in order: { kind, text, start }.

export const KEYWORDS = [
  "ADD", "ALL", "AS", "ASC", "ASK", "BASE", "BIND", "BY", "CLEAR", "CONSTRUCT", "COPY", "CREATE", "DATA", "DEFAULT",
  "DELETE", "DESC", "DESCRIBE", "DISTINCT", "DROP", "EXISTS", "FILTER", "FROM", "GRAPH", "GROUP", "HAVING", "IN",
  "INSERT", "INTO", "LIMIT", "LOAD", "MINUS", "MOVE", "NAMED", "NOT", "OFFSET", "OPTIONAL", "ORDER", "PREFIX",
  "REDUCED", "SELECT", "SERVICE", "SILENT", "TO", "UNDEF", "UNION", "USING", "VALUES", "WHERE", "WITH",
];
export const FUNCTIONS = [
  "ABS", "AVG", "BNODE", "BOUND", "CEIL", "COALESCE", "CONCAT", "CONTAINS", "COUNT", "DATATYPE", "DAY",
  "ENCODE_FOR_URI", "FLOOR", "GROUP_CONCAT", "HOURS", "IF", "IRI", "isBLANK", "isIRI", "isLITERAL", "isNUMERIC",
  "isURI", "LANG", "LANGMATCHES", "LCASE", "MAX", "MD5", "MIN", "MINUTES", "MONTH", "NOW", "RAND", "REGEX",
  "REPLACE", "ROUND", "sameTerm", "SAMPLE", "SECONDS", "SEPARATOR", "SHA1", "SHA256", "SHA384", "SHA512", "STR",
  "STRAFTER", "STRBEFORE", "STRDT", "STRENDS", "STRLANG", "STRLEN", "STRSTARTS", "STRUUID", "SUBSTR", "SUM",
  "TIMEZONE", "TZ", "UCASE", "URI", "UUID", "YEAR",
];
const UPDATES = new Set(["ADD", "CLEAR", "COPY", "CREATE", "DELETE", "DROP", "INSERT", "LOAD", "MOVE", "WITH"]);
const WORDS = new Map([
  ...KEYWORDS.map((word) => [word, "keyword"]),
  ...FUNCTIONS.map((word) => [word.toUpperCase(), "function"]),
  ["A", "keyword"], ["TRUE", "number"], ["FALSE", "number"],
]);

const NAME = "[\\p{L}\\p{N}_.·-]";
const KINDS = [
  ["space", "\\s+"],
  ["comment", "#[^\\n]*"],
  ["iri", "<[^<>\"{}|^`\\\\\\s]*>"],
  ["string", "\"\"\"(?:[^\"\\\\]|\\\\[\\s\\S]|\"{1,2}(?!\"))*(?:\"\"\"|$)"],
  ["string", "'''(?:[^'\\\\]|\\\\[\\s\\S]|'{1,2}(?!'))*(?:'''|$)"],
  ["string", "\"(?:[^\"\\\\\\n]|\\\\.)*\"?"],
  ["string", "'(?:[^'\\\\\\n]|\\\\.)*'?"],
  ["variable", "[?$][\\p{L}\\p{N}_·]+"],
  ["blank", "_:[\\p{L}\\p{N}_.-]+"],
  ["language", "@[A-Za-z]+(?:-[A-Za-z0-9]+)*"],
  ["name", `(?:\\p{L}(?:${NAME}*[\\p{L}\\p{N}_·-])?)?:(?:[\\p{L}\\p{N}_:%\\\\](?:[\\p{L}\\p{N}_:%.·\\\\-]*[\\p{L}\\p{N}_:%·-])?)?`],
  ["number", "[+-]?(?:\\d+\\.?\\d*|\\.\\d+)(?:[eE][+-]?\\d+)?"],
  ["word", "[\\p{L}_][\\p{L}\\p{N}_-]*"],
  ["sign", "[{}()\\[\\];,.|/^*+!=<>&?-]"],
  ["other", "[\\s\\S]"],
];
const TOKEN = new RegExp(KINDS.map(([, pattern]) => `(${pattern})`).join("|"), "gu");

export function tokens(text) {
  const found = [];
  for (const match of text.matchAll(TOKEN)) {
    let kind = KINDS[match.findIndex((part, place) => place && part !== undefined) - 1][0];
    if (kind === "word") kind = wordKind(match[0]);
    found.push({ kind, text: match[0], start: match.index });
  }
  return found;
}

const wordKind = (word) => (word === "a" ? "keyword" : word === "A" ? "other" : (WORDS.get(word.toUpperCase()) ?? "other"));

// Whether a text is an update: by its first word after the prologue.
export function isUpdate(text) {
  const word = tokens(text).find(({ kind, text: word }) => kind === "keyword" && !/^(prefix|base)$/i.test(word));
  return Boolean(word) && UPDATES.has(word.text.toUpperCase());
}

// The prefixes that a text declares: name → IRI.
export function declaredPrefixes(text) {
  const found = new Map();
  const parts = tokens(text).filter(({ kind }) => kind !== "space" && kind !== "comment");
  parts.forEach((part, place) => {
    if (part.kind !== "keyword" || part.text.toUpperCase() !== "PREFIX") return;
    const [name, iri] = [parts[place + 1], parts[place + 2]];
    if (name?.kind === "name" && name.text.endsWith(":") && iri?.kind === "iri") found.set(name.text.slice(0, -1), iri.text.slice(1, -1));
  });
  return found;
}

// The token that ends at a position or contains it, and those before it without space and comments.
export function tokenAt(text, position) {
  const before = [];
  for (const token of tokens(text)) {
    if (token.start >= position) break;
    if (token.start + token.text.length >= position) return { token, before };
    if (token.kind !== "space" && token.kind !== "comment") before.push(token);
  }
  return { token: null, before };
}
