// The predicates and classes of the store, for completion: asked once, and again after some minutes.

import { select } from "./agent.js";
import { may } from "./caller.js";

const MOST = 1000;
const SECONDS = 5; // of the agent's time; a larger store completes what is known without it
const FRESH = 300_000;
const QUERIES = {
  predicates: `SELECT DISTINCT ?term { ?subject ?term ?object } LIMIT ${MOST}`,
  classes: `SELECT DISTINCT ?term { ?subject a ?term } LIMIT ${MOST}`,
};
const NOTHING = { predicates: [], classes: [] };

let asked = null;
let at = -Infinity;

export function forgetVocabulary() {
  asked = null;
}

// Returns { predicates, classes }, lists of IRIs.
export function vocabulary() {
  if (asked && performance.now() - at < FRESH) return asked;
  at = performance.now();
  asked = Promise.all(Object.entries(QUERIES).map(async ([kind, query]) => [kind, await terms(query)]))
    .then((found) => Object.fromEntries(found))
    .catch(() => NOTHING);
  return asked;
}

async function terms(query) {
  if (!may("read")) return [];
  try {
    const answer = await select(query, { seconds: SECONDS });
    return answer.results.bindings.map(({ term }) => term).filter(({ type }) => type === "uri").map(({ value }) => value);
  } catch {
    return []; // the store is too large to ask, or the agent is busy
  }
}
