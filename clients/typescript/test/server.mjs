// A real Headway server over a temporary folder. HEADWAY_COMMAND (a JSON array) is the command that starts Headway.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ServerProcess } from "../dist/index.js";

export const command = JSON.parse(process.env.HEADWAY_COMMAND ?? '["headway"]');

export async function project(toml = "") {
  const folder = await mkdtemp(join(tmpdir(), "headway-ts-"));
  if (toml) await writeFile(join(folder, "headway.toml"), toml);
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

export async function started(toml = "") {
  const { folder, remove } = await project(toml);
  const server = await ServerProcess.start({ command, folder, timeoutMs: 60_000 });
  return {
    url: server.url,
    token: server.token,
    folder,
    async stop() {
      await server.stop();
      await remove();
    },
  };
}

// A proxy between client and server. `fates` controls the next requests: "deliver", "lose" (the server does not get it),
// "lose answer" (the server gets it, the client gets no answer), or { status, headers, body } (the proxy answers).
export async function network(target) {
  const fates = [];
  const seen = [];
  const http = createServer(async (request, response) => {
    seen.push(`${request.method} ${request.url}`);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const fate = fates.shift() ?? "deliver";
    if (fate === "lose") return request.socket.destroy();
    if (typeof fate === "object") {
      response.writeHead(fate.status, fate.headers).end(fate.body);
      return;
    }
    const headers = { ...request.headers };
    for (const name of ["host", "connection", "content-length", "transfer-encoding"]) delete headers[name];
    const body = chunks.length ? { body: Buffer.concat(chunks) } : {};
    const answer = await fetch(target + request.url, { method: request.method, headers, ...body });
    const text = await answer.text();
    if (fate === "lose answer") return request.socket.destroy();
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" }).end(text);
  });
  await new Promise((done) => http.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${http.address().port}`,
    fates,
    seen,
    close: () => {
      http.closeAllConnections();
      return new Promise((done) => http.close(done));
    },
  };
}
