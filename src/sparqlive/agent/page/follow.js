// Follows a view of an agent: `for await (const event of follow("/views/cheap", { token, signal }))`. An event has
// a `type` (snapshot, delta, progress or reset), an `epoch`, and `data`: SPARQL Results JSON with `weights`. After
// a failure it reconnects and continues from the last epoch. Uses fetch, because EventSource cannot send a token.
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

export async function* follow(view, { token, signal, since, lineage } = {}) {
  for (let failures = 0; !signal?.aborted; await wait(Math.min(15000, 250 * 2 ** failures++))) {
    const url = new URL(view.replace(/\/?$/, "/changes"), globalThis.document?.baseURI);
    if (since !== undefined) url.searchParams.set("since", since);
    if (since !== undefined && lineage) url.searchParams.set("lineage", lineage);
    let reader;
    const headers = { Accept: "text/event-stream", ...(token && { Authorization: `Bearer ${token}` }) };
    try {
      const response = await fetch(url, { headers, signal, cache: "no-store" });
      if (response.status === 429 || response.status >= 500) continue;
      if (!response.ok) throw new Error((await response.json()).detail);
      lineage = response.headers.get("Sparqlive-Lineage") ?? lineage;
      let text = "";
      reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let piece; !(piece = await reader.read()).done; ) {
        const events = (text += piece.value).split("\n\n");
        text = events.pop();
        for (const event of events) {
          const field = (name) => event.match(new RegExp(`^${name}: ?([^\\n]*)`, "m"))?.[1];
          const [type, id, data] = [field("event"), field("id"), JSON.parse(field("data") ?? "null")];
          failures = 0;
          if (type === "end" && ["dropped", "failed"].includes(data.reason)) throw new Error(data.detail);
          since = id === "" ? undefined : (id ?? since);
          if (data && type !== "end") yield { type, epoch: data.epoch, data };
        }
      }
    } catch (error) {
      if (!(error instanceof TypeError) || signal?.aborted) throw error; // fetch throws a TypeError when there is no connection
    } finally {
      reader?.cancel().catch(() => {});
    }
  }
}
