// Vercel's AI SDK with its provider for compatible servers, unmodified.
import assert from "node:assert/strict";
import {test} from "node:test";

import {createOpenAICompatible} from "@ai-sdk/openai-compatible";
import {APICallError, generateObject, generateText, streamObject, streamText, tool} from "ai";
import {z} from "zod";

import {baseUrl, collect, keyedUrl, keys, metrics, model, waitIdle} from "./server.mjs";

const provider = (options = {}) => createOpenAICompatible({
  name: "kvasir", baseURL: `${baseUrl}/v1`, includeUsage: true, supportsStructuredOutputs: true, ...options,
});
const chatModel = provider()(model);
const request = {
  model: chatModel, system: "You tell tales.", prompt: "Tell me of a fox and a king.", temperature: 0,
  maxOutputTokens: 40, maxRetries: 0,
};

test("generateText gives text, usage and a reason", async () => {
  const answer = await generateText(request);
  assert.ok(answer.text.length > 0);
  assert.equal(answer.response.modelId, model);
  assert.equal(answer.usage.totalTokens, answer.usage.inputTokens + answer.usage.outputTokens);
  assert.equal(answer.finishReason, answer.usage.outputTokens === 40 ? "length" : "stop");
  assert.equal((await generateText({...request, temperature: 1, seed: 4})).text, (await generateText({...request, temperature: 1, seed: 4})).text);
});

test("streamText gives the same text", async () => {
  const whole = await generateText(request);
  const stream = streamText(request);
  assert.equal((await collect(stream.textStream)).join(""), whole.text);
  assert.equal(await stream.finishReason, whole.finishReason);
  assert.equal((await stream.usage).outputTokens, whole.usage.outputTokens);
});

test("the provider's completion model continues a text", async () => {
  const completion = provider().completionModel(model);
  const answer = await generateText({model: completion, prompt: "Once upon a time", temperature: 0, maxOutputTokens: 20, maxRetries: 0});
  assert.ok(answer.text.length > 0);
});

test("stopSequences end an answer", async () => {
  const {text} = await generateText({...request, maxOutputTokens: 80});
  const stop = text.slice(50, 56);
  const stopped = await generateText({...request, maxOutputTokens: 80, stopSequences: [stop]});
  assert.equal(stopped.text, text.slice(0, text.indexOf(stop)));
  assert.equal(stopped.finishReason, "stop");
});

const Fox = z.object({clever: z.boolean(), place: z.enum(["forest", "castle"]), tails: z.array(z.enum(["long", "short"])).max(2)});

test("generateObject gives an object of the schema", async () => {
  const answer = await generateObject({...request, temperature: 1, maxOutputTokens: 300, schema: Fox});
  Fox.parse(answer.object);
  const stream = streamObject({...request, temperature: 1, maxOutputTokens: 300, schema: Fox});
  const partial = await collect(stream.partialObjectStream);
  Fox.parse(await stream.object);
  assert.ok(partial.length >= 1);
});

test("generateText calls a tool that has to be called", async () => {
  const tools = {fox: tool({description: "Asks a fox", inputSchema: Fox, execute: ({place}) => `It is in the ${place}.`})};
  for (const toolChoice of ["required", {type: "tool", toolName: "fox"}]) {
    const answer = await generateText({...request, temperature: 1, maxOutputTokens: 300, tools, toolChoice});
    assert.equal(answer.finishReason, "tool-calls");
    assert.ok(answer.toolCalls.length >= 1);
    answer.toolCalls.forEach((call) => Fox.parse(call.input));
    assert.equal(answer.toolResults.length, answer.toolCalls.length);
    assert.match(answer.toolResults[0].output, /^It is in the/);
    const stream = streamText({...request, temperature: 1, maxOutputTokens: 300, tools, toolChoice});
    const calls = (await collect(stream.fullStream)).filter((part) => part.type === "tool-call");
    assert.ok(calls.length >= 1);
    calls.forEach((call) => Fox.parse(call.input));
  }
});

test("errors keep their text, status and whether to try again", async () => {
  await assert.rejects(generateText({...request, temperature: 3}), (error) => {
    assert.ok(APICallError.isInstance(error));
    assert.equal(error.statusCode, 400);
    assert.equal(error.isRetryable, false);
    assert.match(error.message, /temperature/);
    assert.equal(error.data.error.param, "temperature");
    return true;
  });
  const keyed = (apiKey) => provider({baseURL: `${keyedUrl}/v1`, apiKey})(model);
  await assert.rejects(generateText({...request, model: keyed("wrong")}), {statusCode: 401});
  assert.ok(await generateText({...request, maxOutputTokens: 1, model: keyed(keys.infer)}));
});

test("abortSignal frees the slot", async () => {
  await waitIdle();
  const cancelled = async () => (await metrics()).get('kvasir_sequences_finished_total{reason="cancelled"}');
  const before = await cancelled();
  const asked = Array.from({length: 8}, async (_, i) => {
    const abort = new AbortController();
    const stream = streamText({
      ...request, prompt: `Tell me of ${i + 2} kings.`, temperature: 1, maxOutputTokens: 440, abortSignal: abort.signal, onError() {},
    });
    let aborted = false;
    for await (const part of stream.fullStream) {
      if (part.type === "text-delta") abort.abort();
      if (part.type === "abort") aborted = true;
    }
    return aborted;
  });
  assert.ok((await Promise.all(asked)).some((aborted) => aborted));
  await waitIdle();
  assert.ok((await cancelled()) > before);
});
