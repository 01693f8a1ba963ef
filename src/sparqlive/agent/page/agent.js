// Sends requests to the agent that served this page, with the user's token. Errors carry the agent's message.

const KEY = "sparqlive-token";

export class Problem extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
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
  try {
    sentence = (await response.json()).detail ?? sentence;
  } catch {
    // The response has no message: show its status.
  }
  if (response.status === 401) document.dispatchEvent(new CustomEvent("token-needed", { detail: sentence }));
  throw new Problem(response.status, sentence);
}

export const read = async (path, options) => (await ask(path, options)).json();

// Reads an event stream (text/event-stream) with fetch, because EventSource cannot send a token.
// Calls `opened` with the headers of the response.
export async function* events(path, { signal, opened }) {
  const response = await ask(path, { headers: { Accept: "text/event-stream" }, signal });
  opened(response.headers);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = { name: "message", id: "", data: "" };
      for (const line of block.split("\n")) {
        const at = line.indexOf(":");
        const [field, content] = at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, "")];
        if (field === "event") event.name = content;
        else if (field === "id") event.id = content;
        else if (field === "data") event.data += (event.data && "\n") + content;
      }
      if (event.data || event.id) yield event;
    }
  }
}
