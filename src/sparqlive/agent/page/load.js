// Loads files into the store: dropped on the page or chosen, one epoch per file.

import { ask, read } from "./agent.js";
import { caller } from "./caller.js";
import { announce, bytes, counted, element, seconds, setText } from "./dom.js";
import { look } from "./pulse.js";
import { forgetVocabulary } from "./vocabulary.js";

const TYPES = {
  ttl: "text/turtle", nt: "application/n-triples", rdf: "application/rdf+xml", owl: "application/rdf+xml",
  xml: "application/rdf+xml", jsonld: "application/ld+json", json: "application/ld+json", nq: "application/n-quads", trig: "application/trig",
};

export function loading() {
  const files = element("input", { type: "file", id: "load-files", multiple: true, accept: Object.keys(TYPES).flatMap((end) => [`.${end}`, `.${end}.gz`]).join(), on: { change: () => {
    take([...files.files]);
    files.value = "";
  } } });
  const graph = element("input", { type: "text", id: "load-graph", size: 30, placeholder: "the unnamed graph", spellcheck: "false", autocomplete: "off" });
  const list = element("ul", { class: "loaded", "aria-live": "polite" });
  const node = element("section", { class: "drop", "aria-label": "Load files", on: {
    dragover: (event) => (event.preventDefault(), node.classList.add("over")),
    dragleave: () => node.classList.remove("over"),
    drop: (event) => {
      event.preventDefault();
      node.classList.remove("over");
      take([...event.dataTransfer.files]);
    },
  } },
    element("h2", {}, "Load files"),
    element("p", { class: "hint" }, "Drop RDF files here, or choose them: Turtle, N-Triples, RDF/XML, JSON-LD, N-Quads or TriG, plain or compressed with gzip."),
    element("div", { class: "field" }, element("label", { for: "load-files" }, "Files"), files),
    element("div", { class: "field" }, element("label", { for: "load-graph" }, "Into graph"), graph),
    list);

  async function take(chosen) {
    for (const file of chosen) await load(file);
  }

  async function load(file) {
    const line = element("li", {}, `${file.name}: sending …`);
    list.prepend(line);
    const begun = performance.now();
    try {
      const answer = await send(file, graph.value.trim(), (state) => setText(line, `${file.name}: loading for ${seconds(state.seconds)} …`));
      const words = `${file.name}: ${counted(answer.inserted, "new quad")} in ${seconds((performance.now() - begun) / 1000)}, epoch ${answer.epoch}`;
      line.replaceChildren(element("span", { class: "good" }, words));
      announce(words);
      forgetVocabulary();
      look();
    } catch (error) {
      line.replaceChildren(element("span", { class: "bad" }, `${file.name}: ${error.message}`));
    }
  }
  return node;
}

// Sends a file and waits until it is loaded; `told` gets its state from time to time.
async function send(file, graph, told) {
  const ending = file.name.replace(/\.gz$/, "").split(".").at(-1).toLowerCase();
  const type = TYPES[ending];
  if (!type) throw new Error(`Unknown ending. Known: ${Object.keys(TYPES).join(", ")}.`);
  const document = type === "application/ld+json"; // read as a whole, like documents from the Web
  const most = caller().limits?.[document ? "body_bytes" : "upload_bytes"];
  if (most && file.size > most) throw new Error(`The file has ${bytes(file.size)}, and the agent accepts ${bytes(most)}. Use sparqlive load.`);
  const headers = { "Content-Type": type, ...(file.name.endsWith(".gz") && { "Content-Encoding": "gzip" }) };
  const target = graph ? `?${new URLSearchParams({ graph })}` : document ? "?default" : "";
  const response = await ask(`${document ? "graphs" : "uploads"}${target}`, { method: "POST", headers, body: file });
  let state = await response.json();
  while (state.state === "loading") {
    told(state);
    await new Promise((done) => setTimeout(done, 500));
    state = await read(response.headers.get("location").replace(/^\//, ""));
  }
  if (state.state === "failed") throw new Error(state.detail);
  return state;
}
