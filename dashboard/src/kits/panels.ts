// What kits add to the page of a task, by its kind or its actions. Loaded when such a task is opened.
import type { Component } from "svelte";
import type { Task } from "../lib/api";

type Panel = Component<{ task: Task }>;

const PANELS: Record<string, () => Promise<{ default: Panel }>> = {
  factored: () => import("./grow/Panel.svelte"),
  ranking: () => import("./next_action/Panel.svelte"),
  reply: () => import("./reply/Panel.svelte"),
};

type Page = Component<{ roles: Task[]; name: string }>;

/** Pages of the kit that answers, loaded when they are opened. */
export const REPLY_PAGES: Record<string, () => Promise<{ default: Page }>> = {
  chat: () => import("./reply/ChatPage.svelte"),
  compare: () => import("./reply/ComparePage.svelte"),
};

const SIM = ["verify", "retry", "decompose", "stop"]; // of the actions "sim"

/** The panel of a task; undefined if no kit has one. */
export async function panelOf(kind: string, actions: string[]): Promise<Panel | undefined> {
  if (SIM.every((action) => actions.includes(action))) return (await import("./simulator/Panel.svelte")).default;
  return (await PANELS[kind]?.())?.default;
}
