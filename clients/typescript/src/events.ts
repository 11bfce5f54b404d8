/** An event of the project: decisions, signals, ledger, progress; and hello, missed, stopping. */
export interface HeadwayEvent {
  name: string;
  data: Record<string, unknown>;
  id: string;
}

/** Reads server-sent events from an answer's body until it ends. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<HeadwayEvent, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let name = "message";
  let data = "";
  let id = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        const at = line.indexOf(":");
        const field = at < 0 ? line : line.slice(0, at);
        const text = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
        if (field === "event") name = text;
        else if (field === "data") data += text;
        else if (field === "id") id = text;
        else if (line === "") {
          if (data) yield { name, data: JSON.parse(data) as Record<string, unknown>, id };
          name = "message";
          data = "";
        }
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined); // the stream may already be closed
  }
}
