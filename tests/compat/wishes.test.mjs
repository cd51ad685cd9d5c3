// What people asked of servers like this one, one test each, C1 to C16, where it can be seen from outside. The parts
// that need an engine whose words are chosen are tested beside the server: thinking, calls that a model decides on,
// broken calls, and errors that happen in the middle of a stream (C4, C7, C12).
import assert from "node:assert/strict";
import {spawn} from "node:child_process";
import {once} from "node:events";
import http from "node:http";
import net from "node:net";
import {test} from "node:test";

import {
  baseUrl, collect, context, deadlineMs, get, metrics, model, neverEnd, post, postJson, readEvents, tokenize, underWay,
  waitFor, waitIdle,
} from "./server.mjs";

const chatPath = "/v1/chat/completions";
const messages = [{role: "user", content: "Tell me of a fox."}];
const chat = {model, messages, temperature: 0, max_tokens: 24};
const streamed = {...chat, stream: true};
const eventsOf = async (body, path = chatPath) => {
  const response = await post(path, body);
  assert.equal(response.status, 200, response.status === 200 ? "" : await response.text());
  return (await collect(readEvents(response))).filter((event) => event.data !== undefined);
};
const chunksOf = (events) => events.filter((event) => event.data !== "[DONE]").map((event) => JSON.parse(event.data));

async function refused(body, status, code, param, path = chatPath) {
  const response = await post(path, body);
  const text = await response.text();
  assert.equal(response.status, status, text);
  assert.match(response.headers.get("content-type"), /^application\/json/, text);
  const {error} = JSON.parse(text);
  assert.equal(error.code, code, text);
  assert.equal(error.status, status, text);
  if (param !== undefined) assert.equal(error.param, param, text);
  return error;
}

test("C1: usage comes in streams, in a last chunk without choices", async () => {
  const chunks = chunksOf(await eventsOf({...streamed, stream_options: {include_usage: true}}));
  const last = chunks.pop();
  assert.deepEqual(last.choices, []);
  assert.equal(last.usage.total_tokens, last.usage.prompt_tokens + last.usage.completion_tokens);
  for (const chunk of chunks) {
    assert.equal(chunk.usage, null);
    assert.equal(chunk.choices.length, 1);
  }
  for (const chunk of chunksOf(await eventsOf(streamed))) assert.ok(!("usage" in chunk));
});

test("C2: streams have their content type, and the model is listed", async () => {
  for (const [path, body] of [
    [chatPath, streamed], ["/v1/completions", {model, prompt: "Once", max_tokens: 2, stream: true}],
    ["/v1/responses", {model, input: "Once", max_output_tokens: 2, stream: true}],
    ["/v1/messages", {model, messages, max_tokens: 2, stream: true}],
  ]) {
    const response = await post(path, body);
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
    assert.match(response.headers.get("cache-control"), /no-cache/);
    assert.equal(response.headers.get("x-accel-buffering"), "no");
    assert.ok(response.headers.get("x-request-id"));
    await collect(readEvents(response));
  }
  assert.equal((await (await get("/v1/models")).json()).data[0].id, model);
});

test("C3: [DONE] ends a stream, deltas are deltas, and no end-of-text shows", async () => {
  const events = await eventsOf(streamed);
  assert.equal(events.at(-1).data, "[DONE]");
  assert.equal(events.filter((event) => event.data === "[DONE]").length, 1);
  const texts = chunksOf(events).map((chunk) => chunk.choices[0].delta.content ?? "");
  assert.equal(texts.join(""), (await postJson(chatPath, chat)).choices[0].message.content);
  for (const end of ["<|im_end|>", "<|endoftext|>"]) {
    const [token] = await tokenize(end);
    const answer = await postJson(chatPath, {...chat, logit_bias: {[token]: 100}});
    assert.equal(answer.choices[0].message.content, "", end);
    assert.equal(answer.choices[0].finish_reason, "stop", end);
    const ended = chunksOf(await eventsOf({...streamed, logit_bias: {[token]: 100}}));
    assert.ok(!JSON.stringify(ended).includes(end));
  }
});

const tool = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: {type: "object", properties: {place: {enum: ["forest", "castle"]}}, required: ["place"], additionalProperties: false},
  },
};

test("C4: the first chunk of a call has empty arguments, the others nothing but fragments", async () => {
  const chunks = chunksOf(await eventsOf({...streamed, temperature: 1, max_tokens: 200, tools: [tool], tool_choice: "required"}));
  const deltas = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
  const first = deltas[0];
  assert.equal(first.index, 0);
  assert.equal(first.type, "function");
  assert.ok(first.id);
  assert.deepEqual(first.function, {name: "get_weather", arguments: ""});
  const rest = deltas.slice(1).filter((delta) => delta.index === 0);
  for (const delta of rest) assert.deepEqual(Object.keys(delta).concat(Object.keys(delta.function)).sort(), ["arguments", "function", "index"]);
  assert.ok(["forest", "castle"].includes(JSON.parse(rest.map((delta) => delta.function.arguments).join("")).place));
  assert.equal(chunks.at(-1).choices[0].finish_reason, "tool_calls");
});

test("C5: a schema is enforced, or refused with the keyword", async () => {
  const format = (schema) => ({type: "json_schema", json_schema: {name: "x", schema}});
  const schema = {
    type: "object",
    properties: {a: {type: "array", items: {type: "boolean"}, minItems: 2, maxItems: 4}, b: {$ref: "#/$defs/size"}},
    required: ["a", "b"], additionalProperties: false,
    $defs: {size: {enum: ["small", "large", null]}},
  };
  const answer = await postJson(chatPath, {...chat, temperature: 1, max_tokens: 200, response_format: format(schema)});
  const value = JSON.parse(answer.choices[0].message.content);
  assert.deepEqual(Object.keys(value), ["a", "b"]);
  assert.ok(value.a.length >= 2 && value.a.length <= 4 && value.a.every((item) => typeof item === "boolean"));
  assert.ok(["small", "large", null].includes(value.b));
  for (const [keyword, text] of [["pattern", "^a$"], ["format", "date"], ["minLength", 3]]) {
    const strange = {type: "object", properties: {s: {type: "string", [keyword]: text}}, required: ["s"]};
    const error = await refused({...chat, response_format: format(strange)}, 400, "unsupported_schema");
    assert.ok(error.message.includes(keyword), error.message);
  }
  await refused({...chat, response_format: {type: "json_schema", json_schema: {name: "x"}}}, 400, "missing_field");
  await refused({...chat, response_format: {type: "grammar"}}, 400, "unsupported_value");
});

test("C6: a client's mistake is a 400 that names the message, and can be repaired", async () => {
  const conversation = [
    ...messages, {role: "assistant", content: "It slept."}, {role: "tool", tool_call_id: "call_1", content: "rain"},
  ];
  const error = await refused({...chat, messages: conversation}, 400, "invalid_messages");
  assert.ok(`${error.param} ${error.message}`.includes("messages[2]"), JSON.stringify(error));
  const call = {id: "call_1", type: "function", function: {name: "get_weather", arguments: "{}"}};
  conversation[1] = {role: "assistant", content: null, tool_calls: [call]};
  await postJson(chatPath, {...chat, messages: conversation});
  conversation[1].tool_calls[0].function.arguments = "{broken";
  await refused({...chat, messages: conversation}, 400, "invalid_messages");
  await refused({...chat, messages: [{role: "robot", content: "x"}]}, 400, "invalid_messages", "messages[0].role");
  await refused({...chat, messages: [{role: "user"}]}, 400, "missing_field", "messages[0].content");
  for (const body of ["{", "[]x", '{"a":1,"a":2}', '"\\ud800"', "\u0000", "[".repeat(100_000), ""])
    await refused(body, 400, "invalid_json");
});

test("C7: what is wrong is said before a stream begins", async () => {
  await refused({...streamed, temperature: 3}, 400, "invalid_value", "temperature");
  await refused({...streamed, model: "other"}, 404, "model_not_found", "model");
  await refused({...streamed, max_tokens: 10_000}, 400, "context_length_exceeded");
  await refused({model, prompt: "x", stream: true, suffix: "y"}, 400, "unsupported_value", "suffix", "/v1/completions");
  await refused({model, input: "x", stream: true, background: true}, 400, "unsupported_value", "background", "/v1/responses");
  const response = await post("/v1/messages", {model, messages, max_tokens: 0, stream: true});
  assert.equal(response.status, 400);
  assert.equal((await response.json()).type, "error");
});

test("C8: a full context has its code, and both numbers in the text", async () => {
  const long = {role: "user", content: "king ".repeat(1200)};
  for (const error of [
    await refused({...chat, messages: [long]}, 400, "context_length_exceeded", "messages"),
    await refused({...chat, messages: [long], stream: true}, 400, "context_length_exceeded", "messages"),
    await refused({model, prompt: long.content}, 400, "context_length_exceeded", "prompt", "/v1/completions"),
    await refused({model, input: long.content}, 400, "context_length_exceeded", "input", "/v1/responses"),
  ]) {
    assert.match(error.message, /\b12\d\d\b/); // what the prompt needs
    assert.ok(error.message.includes(String(context)), error.message);
  }
  const {message} = await refused({...chat, max_tokens: context}, 400, "context_length_exceeded");
  assert.equal(message.match(new RegExp(`\\b${context}\\b`, "g")).length, 2, message);
  for (const limit of [-1, 0, 1.5, "7"]) await refused({...chat, max_tokens: limit}, 400, "invalid_value", "max_tokens");
  // To the token: what fits is answered.
  const {usage} = await postJson(chatPath, {...chat, max_tokens: 1});
  const logit_bias = await neverEnd();
  const full = await postJson(chatPath, {...chat, logit_bias, max_tokens: context - usage.prompt_tokens});
  assert.equal(full.usage.total_tokens, context);
  await refused({...chat, max_tokens: context - usage.prompt_tokens + 1}, 400, "context_length_exceeded");
});

test("C9: nothing is generated for who has gone, running or waiting", async () => {
  await waitIdle();
  const before = await metrics();
  const logit_bias = await neverEnd();
  const abort = new AbortController();
  // 48 answers where 16 run at a time.
  const gone = Array.from({length: 6}, async () => {
    const body = {...streamed, temperature: 1, logit_bias, n: 8, max_tokens: 480};
    const response = await post(chatPath, body, {signal: abort.signal});
    await collect(readEvents(response));
  }).map((asked) => assert.rejects(asked, {name: "AbortError"}));
  await waitFor("requests that wait", async () => (await metrics()).get('kvasir_sequences{state="waiting"}') > 0);
  abort.abort();
  await Promise.all(gone);
  await waitIdle();
  const after = await metrics();
  const rise = (name) => after.get(name) - before.get(name);
  assert.ok(rise('kvasir_sequences_finished_total{reason="cancelled"}') > 0);
  assert.ok(rise("kvasir_generated_tokens_total") < 48 * 480);
  assert.ok(rise('kvasir_requests_total{route="/v1/chat/completions",code="499"}') > 0 ||
    !before.has('kvasir_requests_total{route="/v1/chat/completions",code="499"}'));
});

test("C10: no known field is dropped: it is honoured or refused", async () => {
  const answer = await postJson(chatPath, {...chat, logprobs: true, top_logprobs: 3});
  assert.ok(answer.choices[0].logprobs.content.every((token) => token.top_logprobs.length === 3));
  const text = await postJson("/v1/completions", {model, prompt: "Once", temperature: 0, max_tokens: 5, logprobs: 3});
  assert.equal(text.choices[0].logprobs.tokens.length, text.choices[0].logprobs.token_logprobs.length);
  const response = await postJson("/v1/responses", {
    model, input: "Once", temperature: 0, max_output_tokens: 5, top_logprobs: 2, include: ["message.output_text.logprobs"],
  });
  assert.ok(response.output[0].content[0].logprobs.every((token) => token.top_logprobs.length === 2));
  for (const [field, value] of [
    ["functions", []], ["function_call", "auto"], ["audio", {}], ["web_search_options", {}], ["modalities", ["audio"]],
  ]) await refused({...chat, [field]: value}, 400, "unsupported_value", field);
  for (const [field, value] of [["previous_response_id", "resp_1"], ["conversation", "c"], ["prompt", {id: "p"}], ["truncation", "auto"]])
    await refused({model, input: "x", [field]: value}, 400, "unsupported_value", field, "/v1/responses");
});

test("C11: Anthropic's dialect is spoken, and strange blocks are refused by name", async () => {
  const answer = await postJson("/v1/messages", {model, messages, max_tokens: 3, temperature: 0});
  assert.equal(answer.content[0].text, (await postJson(chatPath, {...chat, max_tokens: 3})).choices[0].message.content);
  for (const type of ["image", "document", "search_result", "server_tool_use", "never_heard_of"]) {
    const response = await post("/v1/messages", {model, max_tokens: 3, messages: [{role: "user", content: [{type}]}]});
    assert.equal(response.status, 400);
    const body = await response.json();
    assert.equal(body.type, "error");
    assert.equal(body.error.type, "invalid_request_error");
    assert.match(body.error.message, new RegExp(type));
    assert.equal(body.request_id, response.headers.get("request-id"));
  }
});

test("C12: tools are a capability, and a conversation with them goes around", async () => {
  const {capabilities, total_slots, default_generation_settings, fingerprint} = await (await get("/props")).json();
  for (const name of ["chat", "completions", "tools", "json_schema", "logprobs"]) assert.ok(capabilities.includes(name), name);
  assert.equal(default_generation_settings.n_ctx, context);
  assert.ok(total_slots >= 1);
  const request = {...chat, temperature: 1, max_tokens: 100, tools: [tool]};
  const asked = await postJson(chatPath, {...request, tool_choice: "required"});
  assert.ok(asked.system_fingerprint === fingerprint);
  const {message} = asked.choices[0];
  const results = message.tool_calls.map(({id}) => ({role: "tool", tool_call_id: id, content: "rain"}));
  const answer = await postJson(chatPath, {...request, tool_choice: "none", messages: [...messages, message, ...results]});
  assert.equal(answer.choices[0].message.tool_calls, undefined);
});

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const {port} = server.address();
  server.close();
  await once(server, "close");
  return port;
}

test("C13: alive, loaded and ready are three questions, answered while it is busy, too", async () => {
  const port = await freePort();
  const server = spawn(process.env.KVASIR_EXECUTABLE,
    ["serve", process.env.KVASIR_COMPAT_MODEL, "--listen", `127.0.0.1:${port}`, "--no-swarm", "--log-format", "none"], {stdio: "ignore"});
  const ended = once(server, "exit");
  try {
    const ask = async (path) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}`).catch(() => null);
      return response && {status: response.status, body: await response.json()};
    };
    const seen = new Set();
    await waitFor("the server", async () => {
      assert.equal(server.exitCode, null);
      const [alive, ready, loaded] = [await ask("/livez"), await ask("/readyz"), await ask("/health")];
      if (!alive || !ready || !loaded) return false;
      assert.equal(alive.status, 200);
      for (const state of [ready, loaded]) {
        seen.add(state.status);
        if (state.status === 200) assert.deepEqual(state.body, {status: "ok"});
        else {
          assert.equal(state.status, 503);
          assert.equal(state.body.error.code, 503);
          assert.equal(state.body.error.type, "unavailable_error");
        }
      }
      if (ready.status === 200) assert.equal(loaded.status, 200); // asked later
      return ready.status === 200;
    });
  } finally {
    server.kill("SIGTERM");
    assert.deepEqual(await ended, [0, null]);
  }

  await waitIdle();
  const logit_bias = await neverEnd();
  const abort = new AbortController();
  const busy = Array.from({length: 3}, () => post(chatPath, {...streamed, temperature: 1, logit_bias, n: 8, max_tokens: 480}, {signal: abort.signal})
    .then((response) => collect(readEvents(response))));
  const broken = busy.map((asked) => assert.rejects(asked, {name: "AbortError"}));
  await waitFor("a busy server", async () => (await underWay()) >= 16);
  for (const path of ["/livez", "/readyz", "/health", "/v1/models", "/props", "/metrics", "/v1/swarm"])
    assert.equal((await get(path)).status, 200, path);
  assert.ok((await underWay()) > 0); // none of them waited for the answers
  abort.abort();
  await Promise.all(broken);
  await waitIdle();
});

test("C14: one connection carries many requests", async () => {
  const agent = new http.Agent({keepAlive: true, maxSockets: 1});
  const {port, hostname} = new URL(baseUrl);
  const ports = new Set();
  const ask = (path, body) => new Promise((resolve, reject) => {
    const method = body === undefined ? "GET" : "POST";
    const request = http.request({agent, hostname, port, path, method, headers: {"Content-Type": "application/json"}}, (response) => {
      ports.add(request.socket.localPort);
      response.resume().on("end", () => resolve(response.statusCode)).on("error", reject);
    });
    request.on("error", reject).end(body);
  });
  for (let i = 0; i < 300; ++i) assert.equal(await ask("/v1/models"), 200);
  assert.equal(await ask(chatPath, JSON.stringify({...chat, max_tokens: 2})), 200);
  assert.equal(await ask(chatPath, JSON.stringify({...streamed, max_tokens: 2})), 200);
  assert.equal(await ask(chatPath, "{"), 400);
  assert.equal(await ask("/nothing"), 404);
  assert.equal(await ask("/v1/models"), 200);
  assert.equal(ports.size, 1);
  agent.destroy();
});

test("C15: many streams block nobody, and each is its own", async () => {
  await waitIdle();
  const clients = 64;
  const requests = Array.from({length: 8}, (_, seed) => ({...chat, temperature: 1, seed}));
  const alone = [];
  for (const request of requests) alone.push((await postJson(chatPath, request)).choices[0].message.content);
  const streams = Array.from({length: clients}, async (_, i) => {
    const chunks = chunksOf(await eventsOf({...requests[i % 8], stream: true}));
    return chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join("");
  });
  assert.equal((await get("/v1/models")).status, 200);
  assert.equal((await tokenize("a king")).length, 2);
  const texts = await Promise.all(streams);
  texts.forEach((text, i) => assert.equal(text, alone[i % 8], `stream ${i}`));
});

test("C16: /metrics is Prometheus text, and counts", async () => {
  const before = await metrics();
  const {usage} = await postJson(chatPath, chat);
  const response = await get("/metrics");
  assert.match(response.headers.get("content-type"), /^text\/plain; version=0\.0\.4/);
  const types = new Map();
  const helped = new Set();
  for (const line of (await response.text()).trimEnd().split("\n")) {
    const [, kind, family, rest] = /^# (HELP|TYPE) ([a-z_]+) (.+)$/.exec(line) ?? [];
    if (kind === "HELP") helped.add(family);
    else if (kind === "TYPE") {
      assert.ok(helped.has(family) && !types.has(family), line);
      types.set(family, rest);
    } else {
      const [, name, value] = /^([a-z_]+)(?:\{(?:[a-z_]+="(?:[^"\\]|\\.)*",?)*\})? (\S+)$/.exec(line) ?? assert.fail(line);
      const of = types.has(name) ? name : name.replace(/_(bucket|sum|count)$/, "");
      assert.ok(types.has(of), line);
      assert.ok(Number.isFinite(Number(value)), line);
      if (types.get(of) === "counter") assert.match(name, /_total$/);
    }
  }
  for (const family of ["kvasir_requests_total", "kvasir_sequences", "kvasir_generated_tokens_total", "kvasir_time_to_first_token_seconds"])
    assert.ok(types.has(family), family);
  const after = await metrics();
  const rise = (name) => after.get(name) - (before.get(name) ?? 0);
  assert.equal(rise("kvasir_generated_tokens_total"), usage.completion_tokens);
  assert.equal(rise("kvasir_prompt_tokens_total"), usage.prompt_tokens);
  assert.equal(rise('kvasir_requests_total{route="/v1/chat/completions",code="200"}'), 1);
  for (const [name, value] of before)
    if (types.get(name.replace(/\{.*/, "")) === "counter") assert.ok(after.get(name) >= value, name);
});
