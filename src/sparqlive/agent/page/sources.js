// The sources and their state; adds, checks and removes them, and loads files.

import { ask, read } from "./agent.js";
import { may } from "./caller.js";
import { confirmed } from "./dialogs.js";
import { ago, card, clock, count, element, setText } from "./dom.js";
import { loading } from "./load.js";

const EVERY = 3000;
const KINDS = {
  web: "RDF document on the Web", solid: "Solid resource or container", endpoint: "SPARQL endpoint", ldes: "Linked Data Event Stream",
  agent: "view of another agent", stream: "stream of changes", mqtt: "MQTT topic", file: "file of the agent's machine",
};

export function showSources(main) {
  const problem = element("p", { class: "notice", role: "alert", hidden: true });
  const none = element("div", { class: "empty small", hidden: true },
    element("h2", {}, "No sources yet"),
    element("p", {}, "Changes come from SPARQL Update, from files that you load, or from sources that the agent watches: Web documents, Solid pods, LDES, endpoints, other agents."));
  const body = element("tbody");
  const heads = [["Name"], ["Kind"], ["Address"], ["Quads", "number"], ["Last check"], ["State"]];
  const changes = may("write") || may("admin");
  const table = element("div", { class: "scroll", hidden: true, tabindex: "0", role: "region", "aria-label": "Sources" }, element("table", { class: "sources cards", role: "table" },
    element("caption", { class: "unseen" }, "Sources"),
    element("thead", {}, element("tr", {}, ...heads.map(([title, kind]) => element("th", { scope: "col", class: kind }, title)),
      changes ? element("th", { scope: "col" }, element("span", { class: "unseen" }, "Actions")) : null)),
    body));
  const say = (sentence) => {
    problem.hidden = !sentence;
    setText(problem, sentence);
  };
  main.append(
    element("div", { class: "heading" }, element("h1", {}, "Sources")), problem, none, table,
    element("div", { class: "pair" }, may("write") ? loading() : "", may("admin") ? adding(() => again(), say) : ""));

  let timer = 0;
  let ended = false;
  let drawn = "";
  const again = async () => {
    clearTimeout(timer);
    try {
      const { sources } = await read("sources");
      if (ended) return;
      none.hidden = sources.length > 0;
      table.hidden = sources.length === 0;
      // Lines are redrawn only if something changed, so that focused buttons stay.
      const now = Date.now() / 1000;
      const lines = sources.map((source) => lineOf(source, now));
      const text = JSON.stringify(lines.map((line) => line.textContent));
      if (text !== drawn) body.replaceChildren(...lines);
      drawn = text;
    } catch (error) {
      say(error.message);
    }
    if (!ended) timer = setTimeout(again, EVERY);
  };

  const doing = (work) => async (event) => {
    event.currentTarget.disabled = true;
    try {
      await work();
      say("");
    } catch (error) {
      say(error.message);
    }
    drawn = "";
    again();
  };

  function lineOf(source, now) {
    const state = source.error
      ? element("span", { class: "bad" }, source.stale_since ? `since ${clock(source.stale_since)}: ` : "", source.error)
      : element("span", { class: "good" }, source.last_seen ? "watched" : "not checked yet");
    const seen = source.lag_seconds === null ? "never" : ago(now - source.lag_seconds, now);
    const path = `sources/${encodeURIComponent(source.name)}`;
    const check = doing(() => ask(`${path}/refresh`, { method: "POST" }));
    const remove = doing(async () => {
      const sentence = "The agent stops watching it, and removes the quads that no other source asserts.";
      if (await confirmed(`Remove the source ${source.name}?`, sentence, "Remove")) await ask(path, { method: "DELETE" });
    });
    return card(heads.map(([title]) => title), [
      element("th", { scope: "row" }, source.name),
      element("td", {}, source.kind),
      element("td", { class: "long" }, source.address),
      element("td", { class: "number" }, count(source.quads)),
      element("td", {}, seen),
      element("td", { class: "long" }, state),
      changes ? element("td", {}, element("span", { class: "actions" },
        may("write") ? element("button", { type: "button", class: "quiet", "aria-label": `Check now: ${source.name}`, on: { click: check } }, "Check now") : null,
        may("admin") ? element("button", { type: "button", class: "quiet danger", "aria-label": `Remove: ${source.name}`, on: { click: remove } }, "Remove") : null)) : null]);
  }

  again();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

// The form for a new source. `added` is called when it is there.
function adding(added, say) {
  const kind = element("select", { id: "source-kind" }, ...Object.entries(KINDS).map(([value, words]) => element("option", { value }, words)));
  const address = element("input", { type: "text", id: "source-address", required: true, placeholder: "https://…", spellcheck: "false", autocomplete: "off" });
  const name = element("input", { type: "text", id: "source-name", placeholder: "the address", spellcheck: "false", autocomplete: "off" });
  const options = element("textarea", { id: "source-options", rows: 2, placeholder: "poll_interval_seconds=30", spellcheck: "false" });
  const submit = element("button", { type: "submit", class: "main" }, "Add source");
  const add = async (event) => {
    event.preventDefault();
    submit.disabled = true;
    try {
      const body = { kind: kind.value, address: address.value.trim(), options: optionsOf(options.value) };
      if (name.value.trim()) body.name = name.value.trim();
      await ask("sources", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      say("");
      for (const field of [address, name, options]) field.value = "";
      added();
    } catch (error) {
      say(error.message);
    }
    submit.disabled = false;
  };
  const field = (label, node) => element("div", { class: "field" }, element("label", { for: node.id }, label), node);
  return element("section", { class: "adding", "aria-label": "Add a source" },
    element("h2", {}, "Add a source"),
    element("form", { on: { submit: add } },
      field("Kind", kind), field("Address", address), field("Name", name), field("Options, one per line", options),
      element("div", { class: "actions" }, submit)));
}

// Lines of name=value. Values are JSON where they can be, and text otherwise.
function optionsOf(text) {
  const found = {};
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`An option is written as name=value, not ${line.trim()}.`);
    const value = line.slice(at + 1).trim();
    try {
      found[line.slice(0, at).trim()] = JSON.parse(value);
    } catch {
      found[line.slice(0, at).trim()] = value;
    }
  }
  return found;
}
