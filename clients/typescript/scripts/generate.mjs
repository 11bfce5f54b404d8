// Writes src/api.ts from the server's OpenAPI document: a type per schema, and every route with its bodies and answers.
//
//   node scripts/generate.mjs                      from tests/golden/openapi.json of this repository
//   node scripts/generate.mjs http://127.0.0.1:8765/openapi.json
//   node scripts/generate.mjs --check              exit status 1 if src/api.ts is out of date
//
// Covers the JSON Schema keywords that Headway's document uses, and fails on others.
import { readFileSync, writeFileSync } from "node:fs";

const options = process.argv.slice(2);
const source = options.find((option) => !option.startsWith("--"));
const golden = new URL("../../../tests/golden/openapi.json", import.meta.url);
const target = new URL("../src/api.ts", import.meta.url);

// Keywords beyond the type: limits that the server checks.
const LIMITS = new Set(
  "title description default minimum maximum exclusiveMinimum exclusiveMaximum minLength maxLength pattern minItems maxItems minProperties maxProperties propertyNames required format".split(" "),
);
const SHAPES = new Set("$ref anyOf oneOf enum const type items prefixItems properties additionalProperties".split(" "));

function typeOf(schema, indent = "") {
  for (const key of Object.keys(schema)) {
    if (!LIMITS.has(key) && !SHAPES.has(key)) throw new Error(`the generator does not know ${JSON.stringify(key)}`);
  }
  if (schema.$ref) return schema.$ref.replace("#/components/schemas/", "");
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return union(options.map((option) => typeOf(option, indent)));
  if (schema.enum) return union(schema.enum.map((option) => JSON.stringify(option)));
  if ("const" in schema) return JSON.stringify(schema.const);
  if (Array.isArray(schema.type)) return union(schema.type.map((type) => typeOf({ ...schema, type }, indent)));
  switch (schema.type) {
    case "string":
    case "boolean":
    case "null":
      return schema.type;
    case "number":
    case "integer":
      return "number";
    case "array": {
      if (schema.prefixItems) return `[${schema.prefixItems.map((item) => typeOf(item, indent)).join(", ")}]`;
      const item = typeOf(schema.items ?? {}, indent);
      return item.includes("|") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      if (schema.properties && Object.keys(schema.properties).length) return fields(schema, indent);
      if (schema.additionalProperties === false || schema.properties) return "Record<string, never>";
      return `Record<string, ${typeOf(schema.additionalProperties ?? {}, indent)}>`;
    case undefined:
      return "unknown";
    default:
      throw new Error(`the generator does not know the type ${JSON.stringify(schema.type)}`);
  }
}

function union(types) {
  return [...new Set(types)].join(" | ");
}

function fields(schema, indent) {
  const inner = `${indent}  `;
  const required = new Set(schema.required ?? []);
  const lines = Object.entries(schema.properties).map(([name, property]) => {
    const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
    return `${comment(property.description, inner)}${inner}${key}${required.has(name) ? "" : "?"}: ${typeOf(property, inner)};\n`;
  });
  return `{\n${lines.join("")}${indent}}`;
}

function comment(text, indent) {
  return text ? `${indent}/** ${text.replaceAll("*/", "*\\/").replace(/\s+/g, " ")} */\n` : "";
}

function json(content) {
  return content?.["application/json"]?.schema;
}

function route(operation) {
  const parameters = operation.parameters ?? [];
  const table = (where) => {
    const matching = parameters.filter((parameter) => parameter.in === where);
    const lines = matching.map((parameter) => `${parameter.name}${parameter.required ? "" : "?"}: ${typeOf(parameter.schema)}`);
    return lines.length ? `{ ${lines.join("; ")} }` : "Empty";
  };
  const body = json(operation.requestBody?.content);
  const [status] = Object.keys(operation.responses).filter((code) => Number(code) < 400).sort().reverse();
  const answer = operation.responses[status];
  const gives = !answer.content ? "void" : json(answer.content) ? typeOf(json(answer.content)) : "string";
  const optional = body && !operation.requestBody.required ? "?" : "";
  return `{ path: ${table("path")}; query: ${table("query")}; body${optional}: ${body ? typeOf(body) : "undefined"}; answer: ${gives} }`;
}

function generate(document) {
  const parts = [
    "// Written by scripts/generate.mjs from the server's OpenAPI document; do not edit.\n",
    `export type Empty = Record<string, never>;\n`,
  ];
  for (const [name, schema] of Object.entries(document.components.schemas)) {
    const type = typeOf(schema);
    const head = comment(schema.description, "");
    parts.push(type.startsWith("{") ? `${head}export interface ${name} ${type}\n` : `${head}export type ${name} = ${type};\n`);
  }
  const lines = [];
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      lines.push(`${comment(operation.summary, "  ")}  "${method.toUpperCase()} ${path}": ${route(operation)};\n`);
    }
  }
  parts.push(`/** Every route: what is in its path, its query and its body, and what it answers. */\nexport interface Routes {\n${lines.join("")}}\n`);
  return parts.join("\n");
}

const text = source?.startsWith("http") ? await (await fetch(source)).text() : readFileSync(source ?? golden, "utf8");
const written = generate(JSON.parse(text));
if (!options.includes("--check")) {
  writeFileSync(target, written);
} else if (readFileSync(target, "utf8") !== written) {
  console.error("src/api.ts is not what the server's OpenAPI document says. Write it anew: npm run generate");
  process.exit(1);
}
