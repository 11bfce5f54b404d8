// Live events from the server (/v1/events). The browser reconnects; after an error page we do.
export type Kind = "decisions" | "signals" | "ledger" | "progress";
export type Listener = (kind: Kind) => void;

const KINDS: Kind[] = ["decisions", "signals", "ledger", "progress"];
const AGAIN_MS = 2000;

class Live {
  connected = $state(false);
  #listeners = new Set<Listener>();
  #source: EventSource | undefined;
  #again: number | undefined;
  #before = false;

  /** Opens the stream; safe to call again, for example after signing in. */
  start(): void {
    this.#source?.close();
    clearTimeout(this.#again);
    const source = new EventSource("/v1/events");
    this.#source = source;
    source.addEventListener("hello", () => {
      this.connected = true;
      // Events may have been missed while disconnected: reload everything once.
      if (this.#before) for (const kind of KINDS) this.#tell(kind);
      this.#before = true;
    });
    for (const kind of KINDS) source.addEventListener(kind, () => this.#tell(kind));
    source.addEventListener("missed", () => KINDS.forEach((kind) => this.#tell(kind)));
    source.addEventListener("stopping", () => this.#lost());
    source.onerror = () => this.#lost();
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
    this.#source?.close();
    clearTimeout(this.#again);
    this.#again = window.setTimeout(() => this.start(), AGAIN_MS);
  }
}

export const live = new Live();
