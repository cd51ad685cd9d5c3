// A server that is stopped, as the clients see it.
import assert from "node:assert/strict";
import {test} from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

import {model, neverEnd, startServer, waitFor} from "./server.mjs";

const messages = [{role: "user", content: "Tell me of a fox."}];
const clients = ({url}) => [
  new OpenAI({baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0}),
  new Anthropic({baseURL: url, apiKey: "none", maxRetries: 0}),
];

// Its chunks; calls back at the first one.
async function follow(stream, begun) {
  const chunks = [];
  for await (const chunk of await stream) {
    if (chunks.push(chunk) === 1) begun();
  }
  return chunks;
}

test("an error in the middle of a stream is an APIError of each client", async () => {
  const server = await startServer("--drain-seconds", "0");
  let code;
  try {
    await server.waitReady();
    const [openai, anthropic] = clients(server);
    const logit_bias = await neverEnd();
    let begun = 0;
    const count = () => ++begun;
    const long = {model, max_tokens: 900, temperature: 1, logit_bias, n: 4, stream: true};
    const chat = assert.rejects(
      follow(openai.chat.completions.create({...long, messages}), count),
      (error) =>
        error instanceof OpenAI.APIError &&
        error.code === "draining" &&
        error.type === "unavailable_error",
    );
    const text = assert.rejects(
      follow(openai.completions.create({...long, prompt: "Once"}), count),
      (error) => error instanceof OpenAI.APIError && error.code === "draining",
    );
    // Begins when the stream does; its answer may have ended before the others' first words.
    const message = follow(
      anthropic.messages.create({model, messages, max_tokens: 900, temperature: 1, stream: true}),
      count,
    )
      .then((events) => assert.equal(events.at(-1).type, "message_stop"))
      .catch((error) => {
        assert.ok(error instanceof Anthropic.APIError, String(error));
        assert.equal(error.error.error.type, "overloaded_error");
      });
    await waitFor("three streams", () => begun === 3);
    code = server.stop();
    await Promise.all([chat, text, message]);
  } finally {
    assert.equal(await (code ?? server.stop()), 0);
  }
});

test("a server that is stopped finishes what it has begun, and takes nothing new", async () => {
  const server = await startServer("--drain-seconds", "120");
  let code;
  try {
    await server.waitReady();
    const [openai, anthropic] = clients(server);
    const logit_bias = await neverEnd();
    let begun = 0;
    const streams = [1, 2].map((seed) =>
      follow(
        openai.chat.completions.create({
          model,
          messages,
          max_tokens: 400,
          temperature: 1,
          seed,
          logit_bias,
          n: 4,
          stream: true,
        }),
        () => ++begun,
      ),
    );
    await waitFor("two streams", () => begun === 2);
    code = server.stop();
    await waitFor("draining", async () => (await server.ask("/readyz")).status === 503);
    await assert.rejects(
      openai.chat.completions.create({model, messages, max_tokens: 1}),
      (error) =>
        error instanceof OpenAI.InternalServerError &&
        error.status === 503 &&
        error.code === "draining" &&
        Number(error.headers.get("retry-after")) >= 1,
    );
    await assert.rejects(anthropic.messages.create({model, messages, max_tokens: 1}), {
      status: 503,
    });
    for (const stream of streams) {
      const ends = (await stream).filter((chunk) => chunk.choices[0].finish_reason === "length");
      assert.equal(ends.length, 4);
    }
  } finally {
    assert.equal(await (code ?? server.stop()), 0);
  }
});
