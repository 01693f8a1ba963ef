// Copies text to the clipboard, and saves answers as files.

import { ask } from "./agent.js";
import { element } from "./dom.js";

export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Browsers offer the clipboard only on this machine or over TLS.
  const area = element("textarea", { class: "unseen" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

// A button that copies what `text` returns, and says so.
export function copyButton(label, text) {
  const button = element("button", { type: "button", class: "quiet", on: { click: async () => {
    await copyText(text());
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 2000);
  } } }, label);
  return button;
}

const SOLUTIONS = {
  CSV: ["csv", "text/csv"], JSON: ["json", "application/sparql-results+json"], Parquet: ["parquet", "application/vnd.apache.parquet"],
};
const ANSWERS = { JSON: ["json", "application/sparql-results+json"], XML: ["xml", "application/sparql-results+xml"] };
const GRAPHS = { Turtle: ["ttl", "text/turtle"], "N-Triples": ["nt", "application/n-triples"], "JSON-LD": ["jsonld", "application/ld+json"] };
export const formatsOf = (form) => (form === "SELECT" ? SOLUTIONS : form === "ASK" ? ANSWERS : GRAPHS);

// A choice of formats; choosing one asks the agent for the whole answer and saves it. `failed` gets errors.
export function downloads({ form, name, path, request = {}, failed }) {
  const formats = formatsOf(form);
  return element("span", { class: "downloads", role: "group", "aria-label": "Download" },
    ...Object.entries(formats).map(([title, [extension, type]]) => element("button", {
      type: "button", class: "quiet", "aria-label": `Download as ${title}`,
      on: { click: async (event) => {
        const button = event.currentTarget;
        button.disabled = true;
        try {
          const response = await ask(path, { ...request, headers: { ...request.headers, Accept: type } });
          save(await response.blob(), `${name}.${extension}`);
        } catch (error) {
          failed(error);
        }
        button.disabled = false;
      } },
    }, `↓ ${title}`)));
}

function save(blob, name) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
