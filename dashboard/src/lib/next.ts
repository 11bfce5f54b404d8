// The next step, as the server computes it, with a link to the evidence behind it.
import type { Task } from "./api";
import { names } from "./names.svelte";
import { link } from "./route.svelte";

export interface Next {
  text: string;
  command: string;
  verdict: boolean; // whether the text holds the verdict's sentence
  ramp: boolean; // whether it holds the sentence of a promotion on its way
  href?: string;
  action?: string;
}

export function nextStep(task: Task): Next {
  const { verb, command, why, evidence } = task.next;
  const verdict = task.verdict !== null && why.includes(task.verdict.text);
  const ramp = task.ramp !== null && why.includes(task.ramp.text);
  const text = names.say(why);
  if (!evidence) return { text, command, verdict, ramp };
  return { text, command, verdict, ramp, href: link("evidence", evidence), action: verb === "promote" ? "Promote it" : "See why" };
}

export function decideCommand(task = "route"): string {
  return `headway decide ${task} "Summarise this page" --candidates small,large`;
}
