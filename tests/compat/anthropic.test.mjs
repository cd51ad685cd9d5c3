// Anthropic's own client, unmodified. As in openai.test.mjs, forms and numbers; thinking is tested beside the server.
import assert from "node:assert/strict";
import {test} from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import {zodOutputFormat} from "@anthropic-ai/sdk/helpers/zod";
import {z} from "zod";

import {baseUrl, collect, context, keyedUrl, keys, metrics, model, postJson, waitIdle} from "./server.mjs";

const client = new Anthropic({baseURL: baseUrl, apiKey: "none", maxRetries: 0});
const messages = [{role: "user", content: "Tell me of a fox and a king."}];
const request = {model, max_tokens: 40, temperature: 0, messages};
const textOf = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
// Without the bias that bans the ends of answers, which this dialect does not have: the length is at most max_tokens.
const stopReason = (message, limit) => (message.usage.output_tokens === limit ? "max_tokens" : "end_turn");

test("a message is answered", async () => {
  const {data: message, request_id} = await client.messages.create(request).withResponse();
  assert.ok(request_id);
  assert.match(message.id, /^msg_/);
  assert.equal(message.type, "message");
  assert.equal(message.role, "assistant");
  assert.equal(message.model, model);
  assert.ok(textOf(message).length > 0);
  assert.equal(message.stop_reason, stopReason(message, 40));
  assert.equal(message.stop_sequence, null);
  assert.ok(message.usage.input_tokens + message.usage.cache_read_input_tokens > 0);
});

test("a stream's events come in order and make the same message", async () => {
  const whole = await client.messages.create(request);
  const events = await collect(await client.messages.create({...request, stream: true}));
  const order = events.map((event) => event.type).filter((type, i, all) => type !== "ping" && type !== all[i - 1]);
  assert.deepEqual(order, [
    "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
  ]);
  assert.equal(events[0].message.stop_reason, null);
  assert.deepEqual(events[0].message.content, []);
  const stream = client.messages.stream(request);
  const seen = [];
  stream.on("text", (delta) => seen.push(delta));
  const final = await stream.finalMessage();
  assert.equal(textOf(final), textOf(whole));
  assert.equal(seen.join(""), textOf(whole));
  assert.equal(final.stop_reason, whole.stop_reason);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
});

test("the answer is that of the other dialect", async () => {
  const message = await client.messages.create({...request, system: "You tell tales."});
  const chat = await postJson("/v1/chat/completions", {
    model, max_tokens: 40, temperature: 0, messages: [{role: "system", content: "You tell tales."}, ...messages],
  });
  assert.equal(textOf(message), chat.choices[0].message.content);
});

test("tokens are counted as they are used", async () => {
  const system = [{type: "text", text: "You tell tales."}, {type: "text", text: " Short ones.", cache_control: {type: "ephemeral"}}];
  for (const extra of [{}, {system: "You tell tales."}, {system}]) {
    const counted = await client.messages.countTokens({model, messages, ...extra});
    const {usage} = await client.messages.create({...request, ...extra, max_tokens: 1});
    assert.equal(counted.input_tokens, usage.input_tokens + usage.cache_read_input_tokens);
  }
});

test("content comes in blocks, too, and system in a text", async () => {
  const plain = await client.messages.create({...request, system: "You tell tales."});
  const blocks = await client.messages.create({
    ...request, system: [{type: "text", text: "You tell "}, {type: "text", text: "tales."}],
    messages: [{role: "user", content: [{type: "text", text: "Tell me of a fox "}, {type: "text", text: "and a king."}]}],
  });
  assert.equal(textOf(blocks), textOf(plain));
});

test("a last assistant message is continued", async () => {
  const message = await client.messages.create({...request, messages: [...messages, {role: "assistant", content: "Once upon a"}]});
  assert.match(textOf(message), /^ time/);
});

test("an answer ends before a stop sequence and names it", async () => {
  const longer = {...request, max_tokens: 80};
  const text = textOf(await client.messages.create(longer));
  const stop = text.slice(50, 56);
  const message = await client.messages.create({...longer, stop_sequences: ["no tale has this", stop]});
  assert.equal(textOf(message), text.slice(0, text.indexOf(stop)));
  assert.equal(message.stop_reason, "stop_sequence");
  assert.equal(message.stop_sequence, stop);
  const final = await client.messages.stream({...longer, stop_sequences: [stop]}).finalMessage();
  assert.equal(textOf(final), textOf(message));
  assert.equal(final.stop_sequence, stop);
});

test("mistakes are errors of the client's classes", async () => {
  const cases = [
    [{max_tokens: undefined}, /max_tokens/], [{max_tokens: 0}, /max_tokens/], [{temperature: 1.5}, /temperature/],
    [{messages: []}, /messages/], [{stop_sequences: [""]}, /stop_sequences/],
    [{messages: [{role: "user", content: [{type: "image", source: {type: "url", url: "http://x/"}}]}]}, /image/],
    [{max_tokens: 5000}, new RegExp(`5000.*${context}`)],
  ];
  for (const [change, says] of cases) {
    await assert.rejects(client.messages.create({...request, ...change}), (error) => {
      assert.ok(error instanceof Anthropic.BadRequestError, `${JSON.stringify(change)}: ${error}`);
      assert.equal(error.error.type, "error");
      assert.equal(error.error.error.type, "invalid_request_error");
      assert.match(error.error.error.message, says);
      assert.equal(error.error.request_id, error.requestID);
      return true;
    });
  }
  await assert.rejects(client.messages.create({...request, model: "claude"}), (error) =>
    error instanceof Anthropic.NotFoundError && error.error.error.type === "not_found_error");
  // Also before a stream begins.
  await assert.rejects(client.messages.stream({...request, temperature: 2}).finalMessage(), Anthropic.BadRequestError);
});

test("keys are taken from either header", async () => {
  const short = {...request, max_tokens: 1};
  const keyed = (options) => new Anthropic({baseURL: keyedUrl, maxRetries: 0, ...options});
  assert.ok(await keyed({apiKey: keys.infer}).messages.create(short)); // x-api-key
  assert.ok(await keyed({apiKey: null, authToken: keys.infer}).messages.create(short)); // Authorization
  await assert.rejects(keyed({apiKey: "wrong"}).messages.create(short), (error) =>
    error instanceof Anthropic.AuthenticationError && error.error.error.type === "authentication_error");
  await assert.rejects(keyed({apiKey: keys.observe}).messages.create(short), Anthropic.PermissionDeniedError);
});

test("models are listed for this client, too", async () => {
  const page = await client.models.list();
  assert.deepEqual(page.data.map((entry) => entry.id), [model]);
});

test("breaking off in mid-stream frees the slot", async () => {
  await waitIdle();
  const cancelled = async () => (await metrics()).get('kvasir_sequences_finished_total{reason="cancelled"}');
  const before = await cancelled();
  // One of many answers is long enough to be met in the middle.
  const asked = Array.from({length: 8}, async (_, seed) => {
    const stream = client.messages.stream({...request, max_tokens: 440, temperature: 1, messages: [...messages, {role: "assistant", content: `${seed}. Once`}]});
    stream.on("text", () => stream.abort());
    await stream.finalMessage().catch((error) => assert.ok(error instanceof Anthropic.APIUserAbortError, String(error)));
  });
  await Promise.all(asked);
  await waitIdle();
  assert.ok((await cancelled()) > before);
});

const tools = [{
  name: "get_weather",
  description: "What the weather is like",
  input_schema: {
    type: "object",
    properties: {place: {type: "string", enum: ["forest", "castle"]}, days: {type: "integer"}},
    required: ["place", "days"],
  },
}];

test("a tool that has to be used is used, and its result taken", async () => {
  for (const tool_choice of [{type: "any"}, {type: "tool", name: "get_weather"}]) {
    const ask = {...request, max_tokens: 200, temperature: 1, tools, tool_choice};
    const stream = client.messages.stream(ask);
    let json = "";
    stream.on("inputJson", (delta) => (json += delta));
    for (const message of [await client.messages.create(ask), await stream.finalMessage()]) {
      assert.equal(message.stop_reason, "tool_use");
      const uses = message.content.filter((block) => block.type === "tool_use");
      assert.ok(uses.length >= 1);
      for (const use of uses) {
        assert.equal(use.name, "get_weather");
        assert.ok(["forest", "castle"].includes(use.input.place));
        assert.ok(Number.isInteger(use.input.days));
      }
      const results = uses.map((use) => ({type: "tool_result", tool_use_id: use.id, content: "rain"}));
      const next = await client.messages.create({
        ...ask, tool_choice: {type: "none"}, max_tokens: 5,
        messages: [...messages, {role: "assistant", content: message.content}, {role: "user", content: results}],
      });
      assert.ok(next.content.every((block) => block.type === "text"));
    }
    assert.ok(json.includes("place"));
  }
});

test("output_config.format is enforced", async () => {
  const Fox = z.object({clever: z.boolean(), place: z.enum(["forest", "castle"])});
  const message = await client.messages.parse({
    ...request, max_tokens: 200, temperature: 1, output_config: {format: zodOutputFormat(Fox)},
  });
  Fox.parse(message.parsed_output);
});

test("the beta routes of the client work, too", async () => {
  const plain = await client.messages.create(request);
  const beta = await client.beta.messages.create({...request, betas: ["context-management-2025-06-27"]});
  assert.equal(textOf(beta), textOf(plain));
});
