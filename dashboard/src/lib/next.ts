// What to do next, as the server computes it beside the gate. Here it only gets a link to the evidence that it rests on.
import type { Task } from "./api";
import { link } from "./route.svelte";

export interface Next {
  text: string;
  command: string;
  href?: string;
  action?: string;
}

export function nextStep(task: Task): Next {
  const { verb, command, why, evidence } = task.next;
  if (!evidence) return { text: why, command };
  return { text: why, command, href: link("evidence", evidence), action: verb === "promote" ? "Promote it" : "See why" };
}

export function decideCommand(task = "route"): string {
  return `headway decide ${task} "Summarise this page" --candidates small,large`;
}
