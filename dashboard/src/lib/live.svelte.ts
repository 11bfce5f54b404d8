// Live events from the server (/v1/events), by fetch: an EventSource sends no header that proves whose page this is.
import { events } from "./api";

export type Kind = "decisions" | "signals" | "ledger" | "progress";
export type Listener = (kind: Kind) => void;

const KINDS: Kind[] = ["decisions", "signals", "ledger", "progress"];
const AGAIN_MS = 2000;

class Live {
  connected = $state(false);
  #listeners = new Set<Listener>();
  #stop: AbortController | undefined;
  #again: number | undefined;
  #before = false;

  /** Opens the stream; safe to call again, for example after signing in. */
  start(): void {
    this.#stop?.abort();
    clearTimeout(this.#again);
    const stop = (this.#stop = new AbortController());
    const lost = (): void => (stop.signal.aborted ? undefined : this.#lost());
    events("/v1/events", { signal: stop.signal }, (name) => this.#event(name)).then(lost, lost);
  }

  #event(name: string): void {
    if (name === "stopping") this.#lost();
    // Events may have been missed while disconnected: reload everything once.
    else if (name === "missed" || (name === "hello" && this.#before)) for (const kind of KINDS) this.#tell(kind);
    else if (KINDS.includes(name as Kind)) this.#tell(name as Kind);
    if (name !== "hello") return;
    this.connected = true;
    this.#before = true;
  }

  on(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(kind: Kind): void {
    for (const each of this.#listeners) each(kind);
  }

  #lost(): void {
    this.connected = false;
    this.#stop?.abort();
    clearTimeout(this.#again);
    this.#again = window.setTimeout(() => this.start(), AGAIN_MS);
  }
}

export const live = new Live();
