// The official OpenAI SDK, unchanged, against the server of argv[2]; prints what it saw as one JSON line.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "-", maxRetries: 0 });
const messages = [{ role: "user", content: "Good morning" }];
const seen = {};

const completion = await client.chat.completions.create({ model: "headway/route", messages });
seen.chat = { id: completion.id, text: completion.choices[0].message.content, upstream: completion.headway.upstream };

const chunks = [];
for await (const chunk of await client.chat.completions.create({ model: "headway/route", messages, stream: true })) {
  chunks.push(chunk);
}
seen.stream = {
  ids: [...new Set(chunks.map((each) => each.id))],
  text: chunks.map((each) => each.choices[0]?.delta?.content ?? "").join(""),
};

const runner = client.chat.completions.stream({ model: "headway/route", messages });
seen.runner = (await runner.finalChatCompletion()).choices[0].message.content;

const tool = { type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } };
const called = await client.chat.completions.create({ model: "headway/route", messages, tools: [tool] });
seen.tool = called.choices[0].message.tool_calls[0].function;

const response = await client.responses.create({ model: "headway/route", input: "Good morning" });
seen.response = { id: response.id, text: response.output_text };
const again = await client.responses.create({
  model: "headway/route", input: "Go on", previous_response_id: response.id,
});
seen.again = { id: again.id, previous: again.previous_response_id };

let text = "";
let last;
for await (const event of await client.responses.create({ model: "headway/route", input: "Hi", stream: true })) {
  if (event.type === "response.output_text.delta") text += event.delta;
  last = event;
}
seen.responseStream = { text, last: last.type, id: last.response.id };

seen.models = [];
for await (const model of client.models.list()) seen.models.push(model.id);

try {
  await client.chat.completions.create({ model: "headway/nothing", messages });
} catch (error) {
  seen.error = { kind: error.constructor.name, status: error.status, code: error.code, type: error.type };
}

try {
  for await (const _ of await client.chat.completions.create({ model: "headway/broken", messages, stream: true }));
} catch (error) {
  seen.broken = { kind: error.constructor.name, code: error.code };
}

const leaving = new AbortController();
const endless = await client.chat.completions.create(
  { model: "headway/endless", messages, stream: true },
  { signal: leaving.signal },
);
for await (const _ of endless) break;
leaving.abort();

console.log(JSON.stringify(seen));
