// The session and its rights. A token is exchanged for the server's cookie and its proof at once and never stored here.
import { get, post, Problem, type Session } from "./api";
import { live } from "./live.svelte";

class Who {
  session = $state.raw<Session>();
  problem = $state.raw<Problem>();

  get admin(): boolean {
    return this.session?.scopes.includes("admin") ?? false;
  }

  async load(): Promise<void> {
    try {
      this.session = await get<Session>("/v1/session");
      this.problem = undefined;
      live.start();
    } catch (error) {
      this.session = undefined;
      this.problem = error as Problem;
    }
  }

  /** Opens a one-time link, which sets the cookie and comes back to this very place. */
  async unlock(token: string): Promise<void> {
    const found = await post<{ path: string }>("/v1/links", {}, token.trim());
    sessionStorage.setItem("place", location.hash);
    location.assign(found.path);
  }
}

export const who = new Who();
