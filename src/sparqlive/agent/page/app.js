// Shows one section of the page at a time, chosen by the part of the URL after #.

import { token } from "./agent.js";
import { caller, learnRights } from "./caller.js";
import { byId, count, setText } from "./dom.js";
import { follow, look } from "./pulse.js";
import { showDescription } from "./describe.js";
import { showEpochs } from "./epochs.js";
import { showQuery } from "./query.js";
import { showSources } from "./sources.js";
import { showStatus } from "./status.js";
import { showView } from "./view.js";
import { showViews } from "./views.js";

const PLACES = {
  views: showViews, query: showQuery, sources: showSources, epochs: showEpochs, status: showStatus, describe: showDescription,
};
const main = byId("main");
let end = () => {};
let shown = null;
let started = false;
let starting = 0;

// Each `show` function fills an element and returns a function that stops what it started.
function go() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [place = "", ...rest] = path.split("/").map(decoded);
  const options = new URLSearchParams(query);
  const known = Object.hasOwn(PLACES, place) ? place : "views";
  const inside = known === "views" && rest[0] ? rest[0] : "";
  end();
  main.replaceChildren();
  end = inside ? showView(main, inside, rest[1] ?? "rows", options) : PLACES[known](main, options);
  document.title = `${inside || known[0].toUpperCase() + known.slice(1)} – sparqlive`;
  for (const link of byId("places").children) {
    if (link.getAttribute("href") === `#/${known}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  // A new section gets the focus; between tabs of a view the focus stays.
  if (shown !== null && shown !== `${known}/${inside}`) main.focus({ preventScroll: true });
  shown = `${known}/${inside}`;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function beginTokens() {
  const dialog = byId("token-dialog");
  const field = byId("token-field");
  const open = (why) => {
    if (dialog.open) return;
    setText(byId("token-why"), why);
    field.value = token.get();
    dialog.showModal();
  };
  const why = byId("token-why").textContent;
  let dismissed = false;
  document.addEventListener("token-needed", (event) => dismissed || open(event.detail));
  byId("token-button").addEventListener("click", () => open(why));
  const close = () => {
    dismissed = true;
    dialog.close();
  };
  byId("token-cancel").addEventListener("click", close);
  dialog.addEventListener("cancel", close);
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set(field.value.trim());
    dismissed = false;
    dialog.close();
    start();
  });
}

byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => started && go());
beginTokens();
follow((state) => {
  const connection = byId("connection");
  connection.classList.toggle("good", !state.problem && state.now > 0);
  connection.classList.toggle("bad", Boolean(state.problem));
  const trouble = { 0: "no response", 401: "token required", 403: "token lacks rights" }[state.status] ?? "error";
  setText(byId("now"), state.problem ? trouble : state.now ? `epoch ${count(state.epoch)}` : "connecting …");
  // The agent was not there when the page was opened.
  if (!state.problem && state.now && !caller().name && !starting) start();
});

// Shows the place once the rights are known. The button for tokens stays away where no token is needed.
async function start() {
  starting += 1;
  try {
    await learnRights();
  } finally {
    starting -= 1;
  }
  if (starting) return; // it was started again meanwhile: showing the place twice would lose what is typed
  byId("token-button").hidden = Boolean(caller().name) && !caller().token;
  started = true;
  go();
  look();
}
start();
