// Sends requests to the agent that served this page, with the user's token. Errors carry the agent's message.

const KEY = "sparqlive-token";
const SPARQL_QUERY = { "Content-Type": "application/sparql-query" };

export class Problem extends Error {
  // `line` and `column` say where a query is malformed, if the agent knows.
  constructor(status, sentence, { line, column } = {}) {
    super(sentence);
    Object.assign(this, { status, line, column });
  }
}

// A browser may deny storage to an embedded page: the token then lasts as long as the page.
let only = "";
export const token = {
  get() {
    try {
      return only || (sessionStorage.getItem(KEY) ?? "");
    } catch {
      return only;
    }
  },
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
  useOnce: (text) => (only = text),
};

const address = (path) => new URL(path, document.baseURI);
export const viewPath = (name, rest = "") => `views/${encodeURIComponent(name)}${rest}`;

export async function ask(path, { method = "GET", headers = {}, body, signal } = {}) {
  const secret = token.get();
  if (secret) headers = { ...headers, Authorization: `Bearer ${secret}` };
  let response;
  try {
    response = await fetch(address(path), { method, headers, body, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The agent does not respond.");
  }
  if (response.ok) return response;
  let sentence = `The agent answered ${response.status} ${response.statusText}.`;
  let place = {};
  try {
    place = await response.json();
    sentence = place.detail ?? sentence;
  } catch {
    // The response has no message: show its status.
  }
  // A late answer to a request with an older token asks for nothing.
  if (response.status === 401 && secret === token.get()) document.dispatchEvent(new CustomEvent("token-needed", { detail: sentence }));
  throw new Problem(response.status, sentence, place);
}

// A name or sentence in a header of a response, if it has that header.
export function headerOf(response, name) {
  const text = response.headers.get(name);
  return text && decodeURIComponent(text);
}

export const read = async (path, options) => (await ask(path, options)).json();

// Runs a SELECT query; returns its solutions.
export async function select(query, { signal, seconds } = {}) {
  const path = seconds ? `sparql?timeout=${seconds}` : "sparql";
  const headers = { ...SPARQL_QUERY, Accept: "application/sparql-results+json" };
  return read(path, { method: "POST", headers, body: query, signal });
}
