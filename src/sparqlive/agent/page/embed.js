// The page with only a chart: /chart#view=NAME&kind=bar&x=country&y=products, and &token= if the agent has tokens.

import { read, token, viewPath } from "./agent.js";
import { byId, element } from "./dom.js";
import { LiveChart } from "./livechart.js";

let live = null;

async function show() {
  live?.end();
  live = null;
  const options = new URLSearchParams(location.hash.slice(1));
  const main = byId("main");
  main.replaceChildren();
  const name = options.get("view") ?? "";
  document.title = `${name || "Chart"} – sparqlive`;
  if (options.get("token")) token.useOnce(options.get("token"));
  if (!name) return main.append(notice("The address names no view: add #view=NAME."));
  try {
    const view = await read(viewPath(name, "/statistics"));
    const choice = Object.fromEntries(["kind", "x", "y"].filter((key) => options.get(key)).map((key) => [key, options.get(key)]));
    if (options.get("title") !== "") main.append(element("h1", {}, options.get("title") ?? name));
    live = new LiveChart(main, view, choice);
  } catch (error) {
    main.append(notice(error.message));
  }
}

const notice = (sentence) => element("p", { class: "notice", role: "alert" }, sentence);

addEventListener("hashchange", show);
show();
