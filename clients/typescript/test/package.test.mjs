import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("..", import.meta.url));

test("the package contains only types and ESM", () => {
  const listed = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: folder, encoding: "utf8" });
  const found = JSON.parse(listed);
  const [{ files }] = Array.isArray(found) ? found : Object.values(found);
  const names = files.map((each) => each.path);
  const code = names.filter((each) => !["LICENSE", "README.md", "package.json"].includes(each));
  assert.ok(code.every((name) => /^dist\/\w+(\.d\.ts|\.js)$/.test(name)), names.join(" "));
  for (const each of code.filter((name) => name.endsWith(".js"))) assert.ok(code.includes(each.replace(".js", ".d.ts")));
  assert.ok(code.includes("dist/index.js"));
});

test("there are no run-time dependencies, and the lock file names no host", () => {
  const about = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert.equal(about.dependencies, undefined);
  assert.ok(!/"resolved"|https?:\/\/(?!opencollective|github)/.test(readFileSync(new URL("../package-lock.json", import.meta.url), "utf8")));
});

test("a browser can load it: modules of Node are imported only when needed", () => {
  const index = new URL("../dist/index.js", import.meta.url);
  const seen = [index];
  for (let at = 0; at < seen.length; at++) {
    const text = readFileSync(seen[at], "utf8");
    for (const [, name] of text.matchAll(/^(?:import|export)[^;]*?from "([^"]+)"/gm)) {
      assert.match(name, /^\.\//);
      const next = new URL(name, seen[at]);
      if (!seen.some((each) => each.href === next.href)) seen.push(next);
    }
  }
  assert.ok(seen.length > 5);
});
