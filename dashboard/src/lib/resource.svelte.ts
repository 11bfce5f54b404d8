// A resource of the server, fetched again when an event reports that it may have changed.
import { get, Problem } from "./api";
import { live, type Kind } from "./live.svelte";

const SHORTEST_MS = 800;

export class Resource<T> {
  value = $state.raw<T>();
  problem = $state.raw<Problem>();
  #path: string | null = null;
  #run = 0;
  #cost = 0;
  #timer: number | undefined;
  #last = 0;

  /** Keeps what is shown until the answer to the newest question is there. */
  async load(path: string | null): Promise<void> {
    if (path !== this.#path) this.value = undefined;
    this.#path = path;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (path === null) return;
    const run = ++this.#run;
    const began = performance.now();
    try {
      const found = await get<T>(path);
      if (run !== this.#run) return;
      this.value = found;
      this.problem = undefined;
    } catch (error) {
      if (run !== this.#run) return;
      this.problem = error instanceof Problem ? error : new Problem(0, "page", String(error), "");
    }
    this.#last = performance.now();
    this.#cost = this.#last - began;
  }

  again(): Promise<void> {
    return this.load(this.#path);
  }

  /** Soon, but never more than a fifth of the time: a large store is not read without pause. */
  soon(): void {
    if (this.#timer !== undefined) return;
    const pause = Math.max(SHORTEST_MS, 4 * this.#cost);
    const wait = Math.max(60, this.#last + pause - performance.now());
    this.#timer = window.setTimeout(() => void this.again(), wait);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#run++;
  }
}

/** For components: read `path()` now, when it changes, and when one of these events comes. */
export function resource<T>(path: () => string | null, on: Kind[] = []): Resource<T> {
  const found = new Resource<T>();
  $effect(() => {
    void found.load(path());
    const off = live.on((kind) => {
      if (on.includes(kind)) found.soon();
    });
    return () => {
      off();
      found.stop();
    };
  });
  return found;
}
