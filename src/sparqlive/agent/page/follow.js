// Follows a view of an agent: `for await (const event of follow("/views/cheap", { token, signal }))`. An event has
// a `type`, an `epoch` and `data`:
//
//   snapshot  SPARQL Results JSON with `weights`. At the event that has `first`, everything read so far is void.
//   delta     what an epoch changed, in the same form
//   progress  nothing else changed up to this epoch
//   reset     everything read so far is void; a snapshot follows
//   replaced  the view has another query now; its snapshot follows
//
// A large snapshot or delta comes in parts to add up; `data.complete` is false in all but the last.
//
// After a failure it reconnects and continues from the last epoch; meanwhile `trouble` is called with the error, and
// with null once events come again. A view that is dropped or has failed is an error. Uses fetch, because
// EventSource cannot send a token.

const wait = (milliseconds, signal) =>
  new Promise((done) => {
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });

export async function* follow(view, { token, signal, since, lineage, snapshot = true, trouble = () => {} } = {}) {
  for (let failures = 0; !signal?.aborted; await wait(Math.min(15000, 250 * 2 ** failures++), signal)) {
    const url = new URL(view.replace(/\/?$/, "/changes"), globalThis.document?.baseURI);
    if (!snapshot) url.searchParams.set("snapshot", "false");
    if (since !== undefined) url.searchParams.set("since", since);
    if (since !== undefined && lineage) url.searchParams.set("lineage", lineage);
    const headers = { Accept: "text/event-stream", ...(token && { Authorization: `Bearer ${token}` }) };
    try {
      const response = await fetch(url, { headers, signal, cache: "no-store" });
      if (!response.ok) {
        const error = await refusal(response);
        if (response.status !== 429 && response.status < 500) throw error;
        trouble(error);
        continue;
      }
      lineage = response.headers.get("Sparqlive-Lineage") ?? lineage;
      let inSnapshot = false;
      for await (const { type, id, data } of eventsOf(response)) {
        failures = 0;
        trouble(null);
        if (type === "end" && ["dropped", "failed"].includes(data.reason)) throw new Error(data.detail);
        if (type === "reset" || id === "") since = undefined; // the position is void
        else since = id ?? since;
        if (type === "end") {
          if (data.reason === "replaced") yield { type: "replaced", epoch: undefined, data, lineage };
        } else if (data) {
          const first = type === "snapshot" && !inSnapshot;
          inSnapshot = type === "snapshot";
          yield { type, epoch: data.epoch, data, lineage, first };
        }
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (!(error instanceof TypeError)) throw error; // fetch throws a TypeError when there is no connection
      trouble(new Error("The agent does not respond."));
    }
  }
}

async function refusal(response) {
  const { detail } = await response.json().catch(() => ({}));
  return Object.assign(new Error(detail ?? `The agent answered ${response.status}.`), { status: response.status });
}

// The events of a response. An event may come in many pieces: they are joined once, at its end.
async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pieces = [];
  let last = "";
  try {
    for (let piece; !(piece = await reader.read()).done; ) {
      pieces.push(piece.value);
      const ends = (last + piece.value).includes("\n\n");
      last = piece.value.slice(-1) || last;
      if (!ends) continue;
      const events = pieces.join("").split("\n\n");
      pieces = [events.pop()];
      for (const event of events) yield parsed(event);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parsed(event) {
  const fields = { data: "" };
  for (const line of event.split("\n")) {
    const at = line.indexOf(":");
    const [name, value] = at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, "")];
    fields[name] = name === "data" && fields.data ? `${fields.data}\n${value}` : value;
  }
  return { type: fields.event, id: fields.id, data: JSON.parse(fields.data || "null") };
}
