/** Headway from TypeScript: decide, signal, promote; and the prompt-mutation service. Node ≥ 18 and browsers. */
export * from "./api.js";
export * from "./client.js";
export * from "./errors.js";
export type { HeadwayEvent } from "./events.js";
export { decisionId } from "./ids.js";
export * from "./rl.js";
export { type ServerOptions, ServerProcess } from "./server.js";
