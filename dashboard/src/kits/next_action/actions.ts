// Actions of the form, and the request that they make.
import { Problem } from "../../lib/api";

export const SCOPES = ["", "small", "medium", "large"];
export const TYPES = ["fix", "refactor", "feature", "test", "config", "experiment"];

export interface Action {
  key: number;
  type: string;
  description: string;
  scope: string;
  files: number | null;
}

let made = 0;

export function emptyAction(): Action {
  return { key: made++, type: "", description: "", scope: "", files: null };
}

/** Candidates by their description; what is not given is left out. */
export function candidatesOf(actions: Action[]): { name: string; features: Record<string, string | number> }[] {
  return actions.map(({ type, description, scope, files }) => ({
    name: description.trim(),
    features: {
      description: description.trim(),
      ...(type.trim() ? { type: type.trim() } : {}),
      ...(scope ? { scope } : {}),
      ...(files === null ? {} : { files_affected: files }),
    },
  }));
}

/** The state in a text of JSON; {"a": {"b": 1}} is {"a.b": 1}. */
export function flat(text: string): Record<string, unknown> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new Problem(0, "bad_state", `The state is not JSON: ${(error as Error).message}`, 'For example {"composite_score": 0.61}.');
  }
  if (!isObject(parsed)) {
    throw new Problem(0, "bad_state", "The state is not a JSON object.", 'For example {"composite_score": 0.61}.');
  }
  return Object.fromEntries(fields(parsed, ""));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fields(values: Record<string, unknown>, before: string): [string, unknown][] {
  return Object.entries(values).flatMap(([name, value]) =>
    isObject(value) ? fields(value, `${before}${name}.`) : [[before + name, value] as [string, unknown]],
  );
}
