// The server under test as plain HTTP shows it: what the clients of other files cannot tell.
// Addresses come from run.sh.
import assert from "node:assert/strict";

export const baseUrl = process.env.KVASIR_URL; // without /v1; open to everybody
export const keyedUrl = process.env.KVASIR_KEYED_URL; // the same with keys, and strict
export const keys = {
  infer: process.env.KVASIR_KEY_INFER,
  observe: process.env.KVASIR_KEY_OBSERVE,
  slow: process.env.KVASIR_KEY_SLOW, // 60 requests a minute
};
export const model = "kvasir-tales-q4_k_m";
export const context = Number(process.env.KVASIR_COMPAT_CONTEXT);
export const deadlineMs = 20_000; // of any wait

export const get = (path, options = {}) => fetch(baseUrl + path, options);
export const post = (path, body, options = {}) =>
  fetch(baseUrl + path, {
    ...options,
    method: "POST",
    headers: {"Content-Type": "application/json", ...options.headers},
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

export async function postJson(path, body) {
  const response = await post(path, body);
  const answer = await response.json();
  assert.equal(response.status, 200, JSON.stringify(answer));
  return answer;
}

// Events of a stream: {event, data} as text, comment lines as {comment}.
export async function* readEvents(response) {
  const decoder = new TextDecoder("utf-8", {fatal: true});
  let text = "";
  for await (const bytes of response.body) {
    text += decoder.decode(bytes, {stream: true});
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const event = {};
      for (const line of text.slice(0, end).split("\n")) {
        const [, name, value] = /^([a-z]*): ?(.*)$/.exec(line) ?? assert.fail(`not a line of an event: ${line}`);
        event[name || "comment"] = value;
      }
      yield event;
    }
  }
  assert.equal(text, "", "the stream ended in the middle of an event");
}

export async function collect(iterable) {
  const all = [];
  for await (const one of iterable) all.push(one);
  return all;
}

export async function tokenize(content) {
  return (await postJson("/tokenize", {content, parse_special: true})).tokens;
}

// Banning the ends of answers makes their length known.
let endBias;
export async function neverEnd() {
  endBias ??= (async () => {
    const bias = {};
    for (const end of ["<|im_end|>", "<|endoftext|>"])
      for (const token of await tokenize(end)) bias[token] = -100;
    return bias;
  })();
  return endBias;
}

// name{labels} -> value
export async function metrics() {
  const response = await get("/metrics");
  assert.equal(response.status, 200);
  const values = new Map();
  for (const line of (await response.text()).split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const at = line.lastIndexOf(" ");
    values.set(line.slice(0, at), Number(line.slice(at + 1)));
  }
  return values;
}

export async function waitFor(what, condition) {
  const until = Date.now() + deadlineMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < until, `waited too long for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

export async function underWay() {
  const all = await metrics();
  return ["waiting", "prefill", "decode"].reduce((sum, state) => sum + all.get(`kvasir_sequences{state="${state}"}`), 0);
}

export const waitIdle = () => waitFor("free slots", async () => (await underWay()) === 0);
