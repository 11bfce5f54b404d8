// Names of policies for people: in every sentence the name comes first and the reference second.
import type { Policy } from "./api";

const REF = /(?<![\w/:@-])[a-z][a-z0-9_]*@[0-9a-f]{4,64}\b/g;

class Names {
  known = $state.raw(new Map<string, Policy>());

  /** A sentence with the names of its policies. */
  say(text: string): string {
    return text.replace(/(?<![\w.)-])-(?=\d)/g, "−").replace(REF, (ref) => {
      const name = this.known.get(ref)?.name;
      return name ? `${name} (${ref})` : ref;
    });
  }

  /** What a policy is called, with what it does; its reference if it has no name. */
  title(ref: string): string {
    const found = this.known.get(ref);
    if (!found?.name) return ref;
    return found.does ? `${found.name}: ${found.does}` : found.name;
  }

  /** The reference of a policy that has a name; empty where the title is the reference. */
  second(ref: string): string {
    return this.known.get(ref)?.name ? ref : "";
  }
}

export const names = new Names();
