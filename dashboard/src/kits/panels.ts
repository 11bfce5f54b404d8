// What kits add to the page of a task, by the kind of the task. Loaded when such a task is opened.
import type { Component } from "svelte";
import type { Task } from "../lib/api";

type Panel = Component<{ task: Task }>;

const PANELS: Record<string, () => Promise<{ default: Panel }>> = {
  ranking: () => import("./next_action/Panel.svelte"),
};

/** The panel of a kind; undefined if no kit has one. */
export async function panelOf(kind: string): Promise<Panel | undefined> {
  return (await PANELS[kind]?.())?.default;
}
