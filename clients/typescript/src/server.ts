import type { ChildProcess } from "node:child_process";

import { Headway } from "./client.js";
import { Unavailable } from "./errors.js";

export interface ServerOptions {
  /** The project's folder; the current one by default. Use a temporary folder for experiments. */
  folder?: string;
  /** 0, the default: any free port. */
  port?: number;
  /** How Headway is started; `["headway"]` by default. */
  command?: string[];
  /** Also start the loop that learns (`headway up`); otherwise only `headway serve`, which never trains. */
  learning?: boolean;
  /** How long to wait until the server answers. */
  timeoutMs?: number;
}

/** A server that this process started; Node only. */
export class ServerProcess {
  readonly url: string;
  /** The project token: may do everything. */
  readonly token: string;
  readonly #child: ChildProcess;
  readonly #kill: () => void;

  private constructor(url: string, token: string, child: ChildProcess, kill: () => void) {
    this.url = url;
    this.token = token;
    this.#child = child;
    this.#kill = kill;
  }

  /** Starts `headway serve` (or `up`, to learn); rejects with code `not_started` or `not_healthy`, and then leaves no process behind. */
  static async start(options: ServerOptions = {}): Promise<ServerProcess> {
    const { spawn } = await node<typeof import("node:child_process")>("node:child_process");
    const { readFile } = await node<typeof import("node:fs/promises")>("node:fs/promises");
    const { join } = await node<typeof import("node:path")>("node:path");
    const { folder = ".", port = 0, command = ["headway"], learning = false, timeoutMs = 20_000 } = options;
    const [program = "headway", ...first] = command;
    const verb = learning ? "up" : "serve";
    const child = spawn(program, [...first, "-C", folder, verb, "--port", `${port}`, "--json"], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const kill = () => child.kill("SIGKILL");
    process.once("exit", kill);
    try {
      const until = Date.now() + timeoutMs;
      const url = await within(timeoutMs, announced(child));
      const client = new Headway({ url });
      while (!(await client.healthy(Math.max(1, until - Date.now())))) {
        if (Date.now() > until) throw notHealthy(timeoutMs);
        await new Promise((done) => setTimeout(done, 50));
      }
      const token = (await readFile(join(folder, ".headway", "token"), "utf8")).trim();
      return new ServerProcess(url, token, child, kill);
    } catch (error) {
      kill();
      process.removeListener("exit", kill);
      throw error;
    }
  }

  /** Stops it gracefully: open requests are answered. After `timeoutMs` it is killed. */
  async stop(timeoutMs = 6000): Promise<void> {
    process.removeListener("exit", this.#kill);
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = new Promise<void>((done) => this.#child.once("exit", () => done()));
    this.#child.kill("SIGTERM");
    const timer = setTimeout(this.#kill, timeoutMs);
    await ended;
    clearTimeout(timer);
  }
}

/** The address that the server prints when it answers, or the reason why it does not. */
function announced(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let out = "";
    let errors = "";
    child.stdout?.on("data", (chunk: Uint8Array) => {
      out += new TextDecoder().decode(chunk);
      const match = /"url":\s*"([^"]+)"/.exec(out);
      if (match?.[1]) resolve(match[1]);
    });
    child.stderr?.on("data", (chunk: Uint8Array) => {
      errors = (errors + new TextDecoder().decode(chunk)).slice(-2000);
    });
    child.once("error", (cause) => {
      const hint = "Install it (pip install headway), or set `command`.";
      reject(new Unavailable("Headway cannot be started.", { code: "not_started", hint, cause }));
    });
    child.once("close", (code) => {
      const hint = (errors || out).trim();
      reject(new Unavailable(`The server ended at once (exit status ${code}).`, { code: "not_started", hint }));
    });
  });
}

async function within<T>(ms: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(notHealthy(ms)), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function notHealthy(ms: number): Unavailable {
  const hint = "Raise `timeoutMs`, or start `headway serve` by hand and read its output.";
  return new Unavailable(`The server did not answer within ${ms} ms.`, { code: "not_healthy", hint });
}

/** A module of Node, loaded when it is needed, so that browsers and bundlers do not see it. */
async function node<T>(name: string): Promise<T> {
  if (typeof process === "undefined" || !process.versions?.node) {
    const hint = "Start `headway serve` on a machine and connect with `url`.";
    throw new Unavailable("Only Node can start a server.", { code: "not_node", hint });
  }
  return (await import(/* @vite-ignore */ name)) as T;
}
