// The current page, from the fragment of the URL: #/tasks/route, #/decisions/dec_…?task=route.
import { keepProof } from "./api";

class Route {
  parts = $state.raw<string[]>([]);
  query = $state.raw<URLSearchParams>(new URLSearchParams());

  constructor() {
    keepProof();
    this.#read();
    addEventListener("hashchange", () => this.#read());
  }

  get page(): string {
    return this.parts[0] ?? "overview";
  }

  #read(): void {
    const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
    try {
      this.parts = path.split("/").filter(Boolean).map(decodeURIComponent);
    } catch {
      this.parts = ["unreadable"];
    }
    this.query = new URLSearchParams(query);
  }
}

export const route = new Route();

export function link(...parts: string[]): string {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

export function withTask(href: string, task: string): string {
  return task ? `${href}?task=${encodeURIComponent(task)}` : href;
}
