// The terms of the glossary, which the terminal shares (headway explain --term NAME).
import text from "../../../src/headway/cli/glossary.md?raw";

export interface GlossaryTerm {
  name: string;
  short: string;
  text: string;
}

export const glossary: GlossaryTerm[] = text
  .split(/^## /m)
  .slice(1)
  .map((part) => {
    const [heading = "", ...rest] = part.split("\n");
    const [, name = heading, short = ""] = /^([^(]+?)(?: \(([^)]+)\))?$/.exec(heading) ?? [];
    return { name, short, text: rest.join("\n").trim() };
  });

export function explain(name: string): string {
  const wanted = name.toLowerCase();
  const found = glossary.find((each) => each.name.toLowerCase() === wanted || each.short.toLowerCase() === wanted);
  return plain(found?.text.split("\n\n")[0] ?? "");
}

/** Markdown's marks removed: `code` and [links](…) read as words. */
export function plain(text: string): string {
  return text.replace(/\[([^\]]+)\]\([^)]*\)/g, "$1").replaceAll("`", "").replaceAll("**", "");
}
