// OpenAI's own client, unmodified, against the server. The bundled model writes tales, whatever it is asked, so
// the tests are about forms and numbers. Thinking and calls that a model decides on need a scripted engine: these are
// tested beside the server.
import assert from "node:assert/strict";
import {test} from "node:test";

import OpenAI from "openai";
import {zodResponseFormat} from "openai/helpers/zod";
import {z} from "zod";

import {
  baseUrl,
  collect,
  context,
  keyedUrl,
  keys,
  metrics,
  model,
  neverEnd,
  tokenize,
  waitFor,
  waitIdle,
} from "./server.mjs";

const client = new OpenAI({baseURL: `${baseUrl}/v1`, apiKey: "none", maxRetries: 0});
const keyed = (apiKey, maxRetries = 0) =>
  new OpenAI({baseURL: `${keyedUrl}/v1`, apiKey, maxRetries});
const question = [
  {role: "system", content: "You tell tales."},
  {role: "user", content: "Tell me of a fox and a king."},
];
const chat = {model, messages: question, temperature: 0, max_completion_tokens: 40};
const story = {model, prompt: "Once upon a time", temperature: 0, max_tokens: 40};
const joined = (chunks, choice = 0) =>
  chunks
    .flatMap((c) => c.choices)
    .filter((c) => c.index === choice)
    .map((c) => c.delta?.content ?? c.text ?? "")
    .join("");

test("a chat is answered", async () => {
  const {
    data: answer,
    response,
    request_id,
  } = await client.chat.completions.create(chat).withResponse();
  assert.match(response.headers.get("content-type"), /^application\/json/);
  assert.ok(request_id);
  assert.match(answer.id, /^chatcmpl-/);
  assert.equal(answer.object, "chat.completion");
  assert.equal(answer.model, model);
  assert.ok(answer.system_fingerprint);
  assert.ok(Math.abs(answer.created - Date.now() / 1000) < 600);
  const [choice] = answer.choices;
  assert.equal(choice.message.role, "assistant");
  assert.equal(choice.message.refusal, null);
  assert.equal(choice.message.tool_calls, undefined);
  assert.ok(choice.message.content.length > 0);
  assert.equal(choice.logprobs, null);
  const {prompt_tokens, completion_tokens, total_tokens} = answer.usage;
  assert.equal(total_tokens, prompt_tokens + completion_tokens);
  assert.ok(completion_tokens <= 40);
  assert.equal(choice.finish_reason, completion_tokens === 40 ? "length" : "stop");
  assert.equal(typeof answer.usage.prompt_tokens_details.cached_tokens, "number");
  assert.equal(answer.usage.completion_tokens_details.reasoning_tokens, 0);
});

test("joined deltas are the whole text", async () => {
  const whole = await client.chat.completions.create(chat);
  const chunks = await collect(
    await client.chat.completions.create({
      ...chat,
      stream: true,
      stream_options: {include_usage: true},
    }),
  );
  assert.equal(joined(chunks), whole.choices[0].message.content);
  assert.deepEqual(chunks[0].choices[0].delta, {role: "assistant", content: ""});
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
  assert.equal(chunks.at(-1).usage.prompt_tokens, whole.usage.prompt_tokens);
  assert.deepEqual(chunks.at(-2).choices[0].delta, {});
  assert.equal(chunks.at(-2).choices[0].finish_reason, whole.choices[0].finish_reason);
  for (const chunk of chunks.slice(0, -1)) assert.equal(chunk.usage, null);
  for (const chunk of chunks) {
    assert.equal(chunk.id, chunks[0].id);
    assert.equal(chunk.object, "chat.completion.chunk");
    assert.equal(chunk.system_fingerprint, whole.system_fingerprint);
  }
});

test("the client's stream helper puts together the same answer", async () => {
  const whole = await client.chat.completions.create(chat);
  const stream = client.chat.completions.stream({...chat, stream_options: {include_usage: true}});
  const seen = [];
  stream.on("content.delta", ({delta}) => seen.push(delta));
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
  assert.equal(seen.join(""), whole.choices[0].message.content);
  assert.deepEqual((await stream.totalUsage()).completion_tokens, whole.usage.completion_tokens);
});

test("what was read before is not read again, and the answer is the same", async () => {
  const content = "There was a king who had a fox. ".repeat(20); // which no other test asks
  const request = {...chat, messages: [{role: "user", content}]};
  const first = await client.chat.completions.create(request);
  const again = await client.chat.completions.create(request);
  assert.equal(first.usage.prompt_tokens_details.cached_tokens, 0);
  assert.ok(again.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens / 2);
  assert.equal(again.choices[0].message.content, first.choices[0].message.content);
  const longer = [
    ...request.messages,
    first.choices[0].message,
    {role: "user", content: "And then?"},
  ];
  const next = await client.chat.completions.create({...request, messages: longer});
  assert.ok(next.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens / 2);
});

test("content may come in parts, and developer is system", async () => {
  const parts = [
    {
      role: "developer",
      content: [
        {type: "text", text: "You tell "},
        {type: "text", text: "tales."},
      ],
    },
    {
      role: "user",
      content: [
        {type: "text", text: "Tell me of a fox "},
        {type: "text", text: "and a king."},
      ],
    },
  ];
  const whole = await client.chat.completions.create(chat);
  const same = await client.chat.completions.create({...chat, messages: parts});
  assert.equal(same.choices[0].message.content, whole.choices[0].message.content);
  assert.equal(same.usage.prompt_tokens, whole.usage.prompt_tokens);
});

test("the same seed gives the same bytes", async () => {
  const ask = async (seed) => {
    const request = {...chat, temperature: 1, top_p: 0.95, seed};
    return (await client.chat.completions.create(request)).choices[0].message.content;
  };
  const first = await ask(7);
  assert.equal(await ask(7), first);
  const others = await Promise.all([7, 8, 9, 10].map(ask)); // served together
  assert.equal(others[0], first);
  assert.equal(new Set(others).size, 4);
});

test("max_completion_tokens is kept to the token", async () => {
  const logit_bias = await neverEnd();
  for (const limit of [1, 2, 33]) {
    const answer = await client.chat.completions.create({
      ...chat,
      logit_bias,
      max_completion_tokens: limit,
    });
    assert.equal(answer.usage.completion_tokens, limit);
    assert.equal(answer.choices[0].finish_reason, "length");
    const old = await client.chat.completions.create({
      ...chat,
      logit_bias,
      max_completion_tokens: undefined,
      max_tokens: limit,
    });
    assert.equal(old.choices[0].message.content, answer.choices[0].message.content);
  }
});

test("an answer ends before a stop string", async () => {
  const logit_bias = await neverEnd();
  const request = {...chat, logit_bias, max_completion_tokens: 80};
  const text = (await client.chat.completions.create(request)).choices[0].message.content;
  const stop = text.slice(60, 67);
  const until = text.slice(0, text.indexOf(stop));
  for (const stops of [stop, ["no tale has this", stop]]) {
    const stopped = await client.chat.completions.create({...request, stop: stops});
    assert.equal(stopped.choices[0].message.content, until);
    assert.equal(stopped.choices[0].finish_reason, "stop");
    const chunks = await collect(
      await client.chat.completions.create({...request, stop: stops, stream: true}),
    );
    assert.equal(joined(chunks), until);
  }
});

test("logit_bias forces a token and bans one", async () => {
  const [forced] = await tokenize(" king");
  const only = await client.completions.create({
    ...story,
    max_tokens: 3,
    logit_bias: {[forced]: 100},
  });
  assert.equal(only.choices[0].text, " king king king");
  const free = await client.completions.create({...story, max_tokens: 1, logprobs: 1});
  const [first] = await tokenize(free.choices[0].text);
  const without = await client.completions.create({
    ...story,
    max_tokens: 1,
    logit_bias: {[first]: -100},
  });
  assert.notEqual(without.choices[0].text, free.choices[0].text);
});

test("logprobs are those of the text, the likeliest first", async () => {
  const request = {...chat, logprobs: true, top_logprobs: 5};
  const answer = await client.chat.completions.create(request);
  const {content} = answer.choices[0].logprobs;
  const bytes = Buffer.from(content.flatMap((token) => token.bytes));
  assert.equal(bytes.toString(), answer.choices[0].message.content);
  assert.ok(content.length <= answer.usage.completion_tokens);
  for (const token of content) {
    assert.equal(token.top_logprobs.length, 5);
    assert.ok(token.logprob <= 0);
    const sorted = token.top_logprobs.map((top) => top.logprob);
    assert.deepEqual(
      sorted,
      [...sorted].sort((a, b) => b - a),
    );
    assert.ok(sorted.reduce((sum, logprob) => sum + Math.exp(logprob), 0) < 1 + 1e-6);
    const same = token.top_logprobs.find((top) => top.token === token.token);
    if (same) assert.equal(same.logprob, token.logprob);
  }
  const chunks = await collect(await client.chat.completions.create({...request, stream: true}));
  assert.deepEqual(
    chunks.flatMap((c) => c.choices[0]?.logprobs?.content ?? []),
    content,
  );
  const none = await client.chat.completions.create({...chat, logprobs: true});
  assert.deepEqual(
    none.choices[0].logprobs.content.map((token) => token.logprob),
    content.map((token) => token.logprob),
  );
  assert.deepEqual(none.choices[0].logprobs.content[0].top_logprobs, []);
});

// Far from the likeliest tokens, many are pieces of characters.
test("joined deltas are the whole text, whatever it is", async () => {
  const pieces = [...new Set(await tokenize("\u00e9\u{1f600}\u00df\u65e5\u201c"))]; // bytes of them
  const logit_bias = Object.fromEntries(pieces.map((token) => [token, 12]));
  for (let seed = 0; seed < 10; ++seed) {
    const request = {...story, temperature: 2, seed, logprobs: 0, ...(seed % 2 && {logit_bias})};
    const [whole] = (await client.completions.create(request)).choices;
    const chunks = await collect(await client.completions.create({...request, stream: true}));
    assert.equal(joined(chunks), whole.text, `seed ${seed}`);
    const tokens = chunks.flatMap((chunk) => chunk.choices[0].logprobs?.tokens ?? []);
    assert.deepEqual(tokens, whole.logprobs.tokens, `seed ${seed}`);
  }
});

test("several choices are answers of their own", async () => {
  const request = {...chat, temperature: 1, seed: 3, n: 3};
  const answer = await client.chat.completions.create(request);
  assert.deepEqual(
    answer.choices.map((choice) => choice.index),
    [0, 1, 2],
  );
  const texts = answer.choices.map((choice) => choice.message.content);
  assert.equal(new Set(texts).size, 3);
  const one = await client.chat.completions.create({...request, n: 1});
  assert.equal(one.choices[0].message.content, texts[0]);
  assert.equal(answer.usage.prompt_tokens, one.usage.prompt_tokens);
  const chunks = await collect(await client.chat.completions.create({...request, stream: true}));
  for (const i of [0, 1, 2]) {
    assert.equal(joined(chunks, i), texts[i]);
    const ends = chunks
      .flatMap((c) => c.choices)
      .filter((c) => c.index === i && c.finish_reason !== null);
    assert.deepEqual(
      ends.map((c) => c.finish_reason),
      [answer.choices[i].finish_reason],
    );
  }
});

test("a text is continued, streamed or whole", async () => {
  const whole = await client.completions.create(story);
  assert.match(whole.id, /^cmpl-/);
  assert.equal(whole.object, "text_completion");
  assert.ok(whole.choices[0].text.length > 0);
  const chunks = await collect(
    await client.completions.create({
      ...story,
      stream: true,
      stream_options: {include_usage: true},
    }),
  );
  assert.equal(joined(chunks), whole.choices[0].text);
  assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
});

test("prompts may be tokens, and several", async () => {
  const ids = await tokenize(story.prompt);
  const whole = await client.completions.create(story);
  const fromIds = await client.completions.create({...story, prompt: ids});
  assert.equal(fromIds.choices[0].text, whole.choices[0].text);
  assert.equal(fromIds.usage.prompt_tokens, ids.length);
  const other = await client.completions.create({...story, prompt: "There was a king"});
  const texts = await client.completions.create({
    ...story,
    prompt: [story.prompt, "There was a king"],
  });
  assert.deepEqual(
    texts.choices.map((c) => [c.index, c.text]),
    [
      [0, whole.choices[0].text],
      [1, other.choices[0].text],
    ],
  );
  const arrays = await client.completions.create({
    ...story,
    prompt: [ids, await tokenize("There was a king")],
  });
  assert.deepEqual(
    arrays.choices.map((c) => c.text),
    texts.choices.map((c) => c.text),
  );
});

test("echo begins with the prompt, and scores it", async () => {
  const whole = await client.completions.create(story);
  const echo = await client.completions.create({...story, echo: true, logprobs: 2});
  assert.equal(echo.choices[0].text, story.prompt + whole.choices[0].text);
  const {tokens, token_logprobs, top_logprobs, text_offset} = echo.choices[0].logprobs;
  assert.equal(tokens.join(""), echo.choices[0].text);
  assert.equal(token_logprobs[0], null);
  assert.ok(token_logprobs.slice(1).every((logprob) => logprob <= 0));
  assert.equal(top_logprobs.length, tokens.length);
  assert.equal(top_logprobs[0], null);
  assert.ok(top_logprobs.slice(1).every((tops) => Object.keys(tops).length >= 2));
  let offset = 0;
  for (let i = 0; i < tokens.length; offset += [...tokens[i++]].length)
    assert.equal(text_offset[i], offset);
  const chunks = await collect(
    await client.completions.create({...story, echo: true, stream: true}),
  );
  assert.equal(joined(chunks), echo.choices[0].text);
  const ids = await client.completions.create({
    ...story,
    prompt: await tokenize(story.prompt),
    echo: true,
  });
  assert.equal(ids.choices[0].text, echo.choices[0].text);
});

test("mistakes are BadRequestErrors that name the field", async () => {
  const cases = [
    [{temperature: 3}, "temperature", "invalid_value"],
    [{top_p: -0.1}, "top_p", "invalid_value"],
    [{n: 0}, "n", "invalid_value"],
    [{logprobs: true, top_logprobs: 21}, "top_logprobs", "invalid_value"],
    [{stop: Array(17).fill("x")}, "stop", "invalid_value"],
    [{logit_bias: {1: 101}}, "logit_bias", "invalid_value"],
    [{stream_options: {include_usage: true}}, "stream_options", "invalid_value"],
    [{messages: []}, "messages", null],
    [{messages: undefined}, "messages", "missing_field"],
    [
      {
        messages: [
          ...question,
          {role: "user", content: [{type: "image_url", image_url: {url: "http://x/"}}]},
        ],
      },
      "messages[2].content[0].type",
      "unsupported_value",
    ],
    [{modalities: ["text", "audio"]}, "modalities", "unsupported_value"],
  ];
  for (const [change, param, code] of cases) {
    await assert.rejects(client.chat.completions.create({...chat, ...change}), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, `${JSON.stringify(change)}: ${error}`);
      assert.ok(
        error.param?.startsWith(param),
        `${JSON.stringify(change)}: param ${error.param}, ${error.message}`,
      );
      if (code !== null) assert.equal(error.code, code, JSON.stringify(change));
      assert.equal(error.type, "invalid_request_error");
      assert.ok(error.requestID);
      return true;
    });
  }
  await assert.rejects(client.completions.create({...story, suffix: "the end"}), {
    status: 400,
    param: "suffix",
  });
  await assert.rejects(client.completions.create({...story, best_of: 2}), {
    status: 400,
    param: "best_of",
  });
});

test("a body that is too large is refused with the limit", async () => {
  const huge = [{role: "user", content: "king ".repeat(2 << 20)}];
  await assert.rejects(client.chat.completions.create({...chat, messages: huge}), (error) => {
    assert.equal(error.status, 413);
    assert.equal(error.code, "request_too_large");
    assert.match(error.message, /8 ?MiB|8388608/);
    return true;
  });
});

test("what is not there is a NotFoundError", async () => {
  await assert.rejects(client.chat.completions.create({...chat, model: "gpt-5"}), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.equal(error.code, "model_not_found");
    assert.ok(error.message.includes(model)); // says what there is
    return true;
  });
  await assert.rejects(client.models.retrieve("gpt-5"), OpenAI.NotFoundError);
  await assert.rejects(
    client.get("/nothing"),
    (error) => error instanceof OpenAI.NotFoundError && error.code === "unknown_url",
  );
  await assert.rejects(client.embeddings.create({model, input: "x"}), {
    status: 501,
    code: "embeddings_not_supported",
  });
});

test("models are listed and retrieved", async () => {
  const models = await collect(client.models.list());
  assert.deepEqual(
    models.map((entry) => entry.id),
    [model],
  );
  assert.equal(models[0].object, "model");
  assert.equal(models[0].context_length, context);
  assert.deepEqual(await client.models.retrieve(model), models[0]);
});

test("keys: none or a wrong one is an AuthenticationError, scopes are kept", async () => {
  assert.ok(
    (await keyed(keys.infer).chat.completions.create({...chat, max_completion_tokens: 2})).choices
      .length,
  );
  for (const key of ["none", keys.infer + "x"]) {
    await assert.rejects(keyed(key).models.list(), (error) => {
      assert.ok(error instanceof OpenAI.AuthenticationError);
      assert.equal(error.code, "invalid_api_key");
      assert.equal(error.headers.get("www-authenticate"), "Bearer");
      assert.ok(!error.message.includes(key));
      return true;
    });
  }
  await assert.rejects(
    keyed(keys.observe).chat.completions.create(chat),
    (error) => error instanceof OpenAI.PermissionDeniedError && error.code === "key_scope",
  );
  assert.equal((await keyed(keys.observe).models.list()).data.length, 1);
});

test("strict servers know every field that the client sends", async () => {
  const strict = keyed(keys.infer);
  const chunks = await collect(
    await strict.chat.completions.create({
      ...chat,
      stream: true,
      stream_options: {include_usage: true},
      user: "u",
      metadata: {a: "b"},
      store: false,
      service_tier: "auto",
      parallel_tool_calls: true,
      reasoning_effort: "low",
      prompt_cache_key: "k",
    }),
  );
  assert.equal(chunks.at(-1).choices.length, 0);
  assert.equal(
    (await strict.responses.create({model, input: "Hello", max_output_tokens: 2})).object,
    "response",
  );
  await assert.rejects(strict.chat.completions.create({...chat, nonsense: 1}), {
    status: 400,
    code: "unknown_field",
    param: "nonsense",
  });
  await client.chat.completions.create({...chat, max_completion_tokens: 1, nonsense: 1});
});

test("a key's rate is a RateLimitError, and the client's retry gets through", async () => {
  const slow = keyed(keys.slow);
  // A minute's requests go through at once; refused ones count, and are cheap.
  const request = {...chat, temperature: 3};
  let limited;
  for (let i = 0; i < 200 && !limited; ++i)
    await slow.chat.completions.create(request).catch((error) => {
      if (error instanceof OpenAI.RateLimitError) limited = error;
      else assert.ok(error instanceof OpenAI.BadRequestError, String(error));
    });
  assert.equal(limited?.code, "key_rate_limit");
  const wait_s = Number(limited.headers.get("retry-after"));
  assert.ok(wait_s >= 1 && wait_s <= 2, `Retry-After: ${wait_s}`);
  const patient = await keyed(keys.slow, 3).chat.completions.create({
    ...chat,
    max_completion_tokens: 1,
  });
  assert.equal(patient.usage.completion_tokens, 1);
});

test("a full queue is a RateLimitError", async () => {
  // This server runs two at a time, and two wait.
  const logit_bias = await neverEnd();
  const busy = keyed(keys.infer);
  const long = {...chat, logit_bias, max_completion_tokens: 80};
  const first = Array.from({length: 8}, () =>
    busy.chat.completions.create(long).catch((error) => error),
  );
  const refused = (await Promise.all(first)).filter((answer) => answer instanceof Error);
  assert.ok(refused.length >= 1 && refused.length <= 4, `${refused.length} of 8 were refused`);
  for (const error of refused) {
    assert.ok(error instanceof OpenAI.RateLimitError, String(error));
    assert.equal(error.code, "queue_full");
    assert.ok(Number(error.headers.get("retry-after")) >= 1);
  }
});

test("several choices find room together, or are refused before a stream begins", async () => {
  // More than this server runs and lets wait: four.
  const request = {...chat, temperature: 1, n: 8, stream: true};
  let stream;
  try {
    stream = await keyed(keys.infer).chat.completions.create(request);
  } catch (error) {
    assert.ok(error instanceof OpenAI.APIError, String(error));
    return;
  }
  const chunks = await collect(stream); // an error in it would be thrown
  const ends = chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.finish_reason);
  assert.equal(ends.length, 8);
});

test("breaking off in mid-stream frees the slot", async () => {
  await waitIdle();
  const reason = 'kvasir_sequences_finished_total{reason="cancelled"}';
  const before = await metrics();
  const logit_bias = await neverEnd();
  const request = {
    ...chat,
    temperature: 1,
    logit_bias,
    max_completion_tokens: 440,
    n: 8,
    stream: true,
  };
  let chunks = 0;
  for await (const chunk of await client.chat.completions.create(request))
    if (chunk.choices[0].delta.content && ++chunks === 3) break; // the client closes the connection
  const stream = await client.chat.completions.create(request);
  await assert.rejects(async () => {
    let count = 0;
    for await (const _ of stream) if (++count === 12) stream.controller.abort();
    throw new Error("ended by itself"); // what the client does after an abort
  });
  await waitIdle();
  const after = await metrics();
  assert.ok(after.get(reason) - before.get(reason) >= 2);
  const generated =
    after.get("kvasir_generated_tokens_total") - before.get("kvasir_generated_tokens_total");
  assert.ok(generated < 2 * 8 * 440, `${generated} tokens were generated for nobody`);
});

test("breaking off an answer that is not streamed frees the slot", async () => {
  await waitIdle();
  const reason = 'kvasir_sequences_finished_total{reason="cancelled"}';
  const before = (await metrics()).get(reason);
  const abort = new AbortController();
  const logit_bias = await neverEnd();
  const asked = client.chat.completions.create(
    {...chat, logit_bias, max_completion_tokens: 440, n: 8},
    {signal: abort.signal},
  );
  const rejected = assert.rejects(asked, OpenAI.APIUserAbortError);
  await waitFor(
    "a running request",
    async () => (await metrics()).get('kvasir_sequences{state="decode"}') > 0,
  );
  abort.abort();
  await rejected;
  await waitIdle();
  assert.ok((await metrics()).get(reason) > before);
});

test("an answer has the shape that its schema says", async () => {
  const Tale = z.object({
    hero: z.enum(["fox", "king", "youngest son"]),
    ends_well: z.boolean(),
    length: z.number(),
    places: z
      .array(z.enum(["forest", "castle", "sea"]))
      .min(1)
      .max(3),
    twin: z.union([z.object({kind: z.literal("one"), of: z.boolean()}), z.null()]),
  });
  for (const seed of [1, 2, 3]) {
    const answer = await client.chat.completions.parse({
      ...chat,
      temperature: 1,
      seed,
      max_completion_tokens: 300,
      response_format: zodResponseFormat(Tale, "tale"),
    });
    assert.equal(answer.choices[0].finish_reason, "stop", answer.choices[0].message.content);
    Tale.parse(answer.choices[0].message.parsed);
  }
});

test("json_object is an object", async () => {
  const answer = await client.chat.completions.create({
    ...chat,
    temperature: 1,
    seed: 5,
    max_completion_tokens: 300,
    response_format: {type: "json_object"},
  });
  const {content} = answer.choices[0].message;
  assert.equal(content[0], "{");
  if (answer.choices[0].finish_reason === "stop")
    assert.equal(typeof JSON.parse(content), "object");
});

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "What the weather is like",
    parameters: {
      type: "object",
      properties: {
        place: {type: "string", enum: ["forest", "castle"]},
        days: {type: "integer"},
        celsius: {type: "boolean"},
      },
      required: ["place", "days", "celsius"],
      additionalProperties: false,
    },
  },
};
const clock = {
  type: "function",
  function: {name: "get_time", parameters: {type: "object", properties: {}}},
};

function checkCall(call) {
  assert.ok(call.id);
  assert.equal(call.type, "function");
  const input = JSON.parse(call.function.arguments);
  if (call.function.name === "get_time") return assert.deepEqual(input, {});
  assert.equal(call.function.name, "get_weather");
  assert.ok(["forest", "castle"].includes(input.place));
  assert.ok(Number.isInteger(input.days));
  assert.equal(typeof input.celsius, "boolean");
}

test("a tool that has to be called is called", async () => {
  for (const tool_choice of ["required", {type: "function", function: {name: "get_weather"}}]) {
    const request = {
      ...chat,
      temperature: 1,
      seed: 2,
      max_completion_tokens: 300,
      tools: [weather, clock],
      tool_choice,
    };
    const answer = await client.chat.completions.create(request);
    const [choice] = answer.choices;
    assert.equal(choice.finish_reason, "tool_calls");
    assert.equal(choice.message.content, null);
    assert.ok(choice.message.tool_calls.length >= 1);
    choice.message.tool_calls.forEach(checkCall);
    if (tool_choice !== "required")
      for (const call of choice.message.tool_calls) assert.equal(call.function.name, "get_weather");

    const final = await client.chat.completions.stream(request).finalChatCompletion();
    const plain = (calls) =>
      calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);
    assert.deepEqual(plain(final.choices[0].message.tool_calls), plain(choice.message.tool_calls));
    assert.equal(final.choices[0].finish_reason, "tool_calls");
  }
});

test("the client's own loop of tools runs once around", async () => {
  const calls = [];
  const runner = client.chat.completions.runTools({
    ...chat,
    temperature: 1,
    seed: 2,
    max_completion_tokens: 200,
    tools: [
      {
        type: "function",
        function: {
          ...weather.function,
          parse: JSON.parse,
          function: (input) => {
            calls.push(input);
            return "rain";
          },
        },
      },
    ],
    tool_choice: {type: "function", function: {name: "get_weather"}},
  });
  await runner.done();
  assert.equal(calls.length, 1);
  assert.equal(await runner.finalFunctionToolCallResult(), "rain");
});

test("responses: an answer is whole, and says its settings again", async () => {
  const answer = await client.responses.create({
    model,
    input: "Tell me of a fox.",
    instructions: "You tell tales.",
    temperature: 0,
    max_output_tokens: 30,
    metadata: {a: "b"},
  });
  assert.match(answer.id, /^resp_/);
  assert.equal(answer.object, "response");
  assert.ok(answer.output_text.length > 0);
  assert.equal(answer.output[0].type, "message");
  assert.equal(answer.output[0].role, "assistant");
  assert.equal(answer.instructions, "You tell tales.");
  assert.deepEqual(answer.metadata, {a: "b"});
  assert.equal(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens);
  assert.equal(answer.status, answer.usage.output_tokens === 30 ? "incomplete" : "completed");
  const items = await client.responses.create({
    model,
    temperature: 0,
    max_output_tokens: 30,
    input: [
      {role: "system", content: "You tell tales."},
      {role: "user", content: [{type: "input_text", text: "Tell me of a fox."}]},
    ],
  });
  assert.equal(items.output_text, answer.output_text);
  await assert.rejects(
    client.responses.create({model, input: "x", previous_response_id: "resp_1"}),
    {status: 400, param: "previous_response_id"},
  );
});

test("responses: events come in order and are numbered", async () => {
  const request = {model, input: "Tell me of a fox.", temperature: 0, max_output_tokens: 30};
  const whole = await client.responses.create(request);
  const events = await collect(await client.responses.create({...request, stream: true}));
  assert.deepEqual(
    events.map((event) => event.sequence_number),
    events.map((_, i) => i),
  );
  const order = events
    .map((event) => event.type.replace(/^response\./, ""))
    .filter((type, i, all) => type !== all[i - 1]);
  assert.deepEqual(order, [
    "created",
    "in_progress",
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
    whole.status,
  ]);
  const deltas = events
    .filter((event) => event.type === "response.output_text.delta")
    .map((event) => event.delta);
  assert.equal(deltas.join(""), whole.output_text);
  const last = events.at(-1).response;
  assert.deepEqual(last.output[0].content, whole.output[0].content);
  assert.deepEqual(last.usage.output_tokens, whole.usage.output_tokens);
  const final = await client.responses.stream(request).finalResponse();
  assert.equal(final.output_text, whole.output_text);
});

test("responses: a named function is called, and its output answered", async () => {
  const {name, description, parameters} = weather.function;
  const request = {
    model,
    temperature: 1,
    max_output_tokens: 200,
    input: [{role: "user", content: "Will it rain?"}],
    tools: [{type: "function", name, description, parameters, strict: true}],
    tool_choice: {type: "function", name},
  };
  const events = await collect(await client.responses.create({...request, stream: true}));
  const done = events.find((event) => event.type === "response.function_call_arguments.done");
  const deltas = events.filter(
    (event) =>
      event.type === "response.function_call_arguments.delta" &&
      event.output_index === done.output_index,
  );
  assert.equal(deltas.map((event) => event.delta).join(""), done.arguments);
  const {response} = events.at(-1);
  assert.equal(response.status, "completed");
  const call = response.output.find((item) => item.type === "function_call");
  checkCall({id: call.call_id, type: "function", function: call});
  const answer = await client.responses.create({
    ...request,
    tool_choice: "none",
    max_output_tokens: 5,
    input: [
      ...request.input,
      ...response.output.filter((item) => item.call_id === call.call_id),
      {type: "function_call_output", call_id: call.call_id, output: "rain"},
    ],
  });
  assert.equal(answer.output[0].type, "message");
});

test("responses: text.format is enforced", async () => {
  const answer = await client.responses.create({
    model,
    input: "A fox.",
    temperature: 1,
    max_output_tokens: 200,
    text: {
      format: {
        type: "json_schema",
        name: "fox",
        strict: true,
        schema: {
          type: "object",
          properties: {clever: {type: "boolean"}, tails: {enum: [1, 2, 9]}},
          required: ["clever", "tails"],
          additionalProperties: false,
        },
      },
    },
  });
  const fox = JSON.parse(answer.output_text);
  assert.deepEqual(Object.keys(fox), ["clever", "tails"]);
  assert.equal(typeof fox.clever, "boolean");
  assert.ok([1, 2, 9].includes(fox.tails));
});
