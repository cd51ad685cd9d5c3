// Many clients at once, for a while: each streams one answer after another, and now and then breaks one off.
// Every finished answer must be the one that the same request got when it was alone, byte for byte.
//   node load.mjs URL [--clients 64] [--seconds 30] [--seed N] [--key KEY] [--abort-percent 20] [--rss-growth-percent N]
// URL without /v1. Needs nothing but Node.js; KEY needs the scopes infer and observe (admin has both).
// Exit code 1 if an answer was lost, wrong or failed, a slot stayed taken, or the server's memory grew by more than N %
// between the middle and the end (not judged by default).
import {parseArgs} from "node:util";

const {values: flags, positionals} = parseArgs({
  allowPositionals: true,
  options: {
    clients: {type: "string", default: "64"},
    seconds: {type: "string", default: "30"},
    seed: {type: "string", default: String(Date.now() % 1_000_000)},
    key: {type: "string"},
    "abort-percent": {type: "string", default: "20"},
    "rss-growth-percent": {type: "string"},
  },
});
const number = (name) => {
  const value = Number(flags[name]);
  if (Number.isFinite(value) && value >= 0) return value;
  console.error(`error: --${name} takes a number, not '${flags[name]}'`);
  process.exit(2);
};
if (positionals.length !== 1) {
  console.error("usage: node load.mjs URL [--clients N] [--seconds N] [--seed N] [--key KEY] [--abort-percent N] [--rss-growth-percent N]");
  process.exit(2);
}
const url = positionals[0].replace(/\/+$/, "");
const clients = number("clients");
const seconds = number("seconds");
const abortShare = number("abort-percent") / 100;

// No answer takes so long, however many wait: after it, it is lost.
const answerMs = 120_000;
const idleMs = 20_000;
const retryMsMax = 2_000;
const examples = 5; // of what went wrong

const headers = {"Content-Type": "application/json", ...(flags.key && {Authorization: `Bearer ${flags.key}`})};

// xorshift: the same seed gives the same requests to the same clients.
function random(seed) {
  let state = (seed * 2654435761) >>> 0 || 1;
  for (let i = 0; i < 8; ++i) next();
  function next() {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  }
  return next;
}

async function getJson(path) {
  const response = await fetch(url + path, {headers, signal: AbortSignal.timeout(idleMs)});
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

async function metric(name) {
  const response = await fetch(`${url}/metrics`, {headers, signal: AbortSignal.timeout(idleMs)});
  const text = await response.text();
  if (!response.ok) throw new Error(`/metrics: ${response.status} ${text}`);
  let sum = 0;
  for (const line of text.split("\n"))
    if (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) sum += Number(line.slice(line.lastIndexOf(" ") + 1));
  return sum;
}
const residentMib = async () => Math.round((await metric("process_resident_memory_bytes")) / 2 ** 20);

// Short and long prompts, beginnings in common, every dialect, greedy and not.
function makeRequests(model) {
  const tale = "Once upon a time there lived a king who had three sons, and the youngest was called the simpleton. ";
  const prompts = [
    "Once upon a time", "There was a fox", "The queen said to the fisherman's wife that", tale, tale + "One day he went into the forest.",
    tale + "The eldest was proud. ".repeat(6), "«Wer nie sein Brot mit Tränen aß» ", "1 2 3 4 5",
  ];
  const requests = [];
  prompts.forEach((prompt, i) => {
    const sampling = {temperature: i % 2, top_p: 0.95};
    const seed = i - 4; // some are negative
    const messages = [{role: "user", content: prompt}];
    requests.push(
      {path: "/v1/completions", body: {model, prompt, max_tokens: 24 + 8 * i, seed, ...sampling}},
      {path: "/v1/chat/completions", body: {model, messages, max_tokens: 16 + 4 * i, seed, ...sampling, stop: ["\n\n"]}},
      {path: "/v1/messages", body: {model, messages, max_tokens: 20, temperature: 0, top_p: 0.95}},
    );
  });
  return requests;
}

// What counts of an event: [more text, why it ended].
function readEvent(path, data) {
  if (data === "[DONE]") return ["", null];
  const event = JSON.parse(data);
  if (event.error) throw new Error(JSON.stringify(event.error));
  if (path === "/v1/messages") return [event.delta?.text ?? "", event.delta?.stop_reason ?? null];
  const choice = event.choices[0];
  return [choice?.delta?.content ?? choice?.text ?? "", choice?.finish_reason ?? null];
}

// "text|reason" of the whole stream; null if the server has no room.
async function read({path, body}, abort, chunksMax) {
  const response = await fetch(url + path, {
    method: "POST", headers, body: JSON.stringify({...body, stream: true}), signal: abort.signal,
  });
  if (response.status === 429) {
    await response.text();
    return null;
  }
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const decoder = new TextDecoder("utf-8", {fatal: true});
  let unread = "", answer = "", reason = null, last = "", chunks = 0;
  for await (const bytes of response.body) {
    unread += decoder.decode(bytes, {stream: true});
    for (let end; (end = unread.indexOf("\n\n")) >= 0; unread = unread.slice(end + 2)) {
      for (const line of unread.slice(0, end).split("\n")) {
        if (!line.startsWith("data: ")) continue;
        last = line.slice(6);
        const [text, why] = readEvent(path, last);
        answer += text;
        reason = why ?? reason;
        if (++chunks === chunksMax) abort.abort(new Error("broken off"));
      }
    }
  }
  const isWhole = path === "/v1/messages" ? last === '{"type":"message_stop"}' : last === "[DONE]";
  if (!isWhole || unread !== "") throw new Error(`the stream ended early, after ${JSON.stringify(answer)}`);
  return `${answer}|${reason}`;
}

// As read(), but breaks off as `breakOff` says. Node's fetch does not always end a read when it is aborted.
async function stream(request, breakOff = {}) {
  const abort = new AbortController();
  const aborted = new Promise((_, reject) => (abort.signal.onabort = () => reject(abort.signal.reason)));
  const timers = [setTimeout(() => abort.abort(new Error("lost")), answerMs)];
  if (breakOff.afterMs !== undefined)
    timers.push(setTimeout(() => abort.abort(new Error("broken off")), breakOff.afterMs));
  try {
    return await Promise.race([read(request, abort, breakOff.afterChunks), aborted]);
  } finally {
    timers.forEach(clearTimeout);
  }
}

const counts = {finished: 0, broken_off: 0, no_room: 0, failed: 0, lost: 0, different: 0};
const wrong = [];
const complain = (text) => wrong.length < examples && wrong.push(text);

async function client(number, requests, alone, until) {
  const next = random(Number(flags.seed) * 1000 + number);
  while (Date.now() < until) {
    const which = Math.floor(next() * requests.length);
    const kind = next();
    const when = next();
    let breakOff = {};
    if (kind < abortShare / 2) breakOff = {afterMs: Math.floor(when * 200)};
    else if (kind < abortShare) breakOff = {afterChunks: 1 + Math.floor(when * 20)};
    try {
      const answer = await stream(requests[which], breakOff);
      if (answer === null) {
        ++counts.no_room;
        await new Promise((resolve) => setTimeout(resolve, next() * retryMsMax));
      } else {
        ++counts.finished;
        if (answer !== alone[which]) {
          ++counts.different;
          complain(`${JSON.stringify(requests[which])}\n  alone:    ${JSON.stringify(alone[which])}\n  together: ${JSON.stringify(answer)}`);
        }
      }
    } catch (error) {
      if (error.message === "broken off") ++counts.broken_off;
      else if (error.message === "lost") ++counts.lost;
      else {
        ++counts.failed;
        complain(`${error.message}${error.cause ? `: ${error.cause.message}` : ""}`);
        await new Promise((resolve) => setTimeout(resolve, retryMsMax)); // the server may be gone
      }
    }
  }
}

const model = (await getJson("/v1/models")).data[0].id;
const requests = makeRequests(model);
const alone = [];
for (const request of requests) alone.push(await stream(request));

const began = Date.now();
const until = began + seconds * 1000;
const mib = {start: await residentMib()};
const middle = new Promise((resolve) => setTimeout(resolve, (seconds * 1000) / 2)).then(residentMib);
const tokensBefore = await metric("kvasir_generated_tokens_total");
await Promise.all(Array.from({length: clients}, (_, i) => client(i, requests, alone, until)));
const took = (Date.now() - began) / 1000;
mib.middle = await middle.catch(() => NaN);

let underWay = NaN;
const patience = Date.now() + idleMs;
try {
  do underWay = await metric("kvasir_sequences");
  while (underWay !== 0 && Date.now() < patience);
  mib.end = await residentMib();
  counts.tokens_per_second = Math.round(((await metric("kvasir_generated_tokens_total")) - tokensBefore) / took);
} catch (error) {
  complain(error.message);
}

const growth = 100 * (mib.end / mib.middle - 1);
console.log(`load: ${clients} clients, ${took.toFixed(1)} s, seed ${flags.seed}`);
console.log(`load: ${Object.entries(counts).map(([name, count]) => `${name} ${count}`).join(", ")}, slots still taken ${underWay}`);
console.log(`load: resident ${mib.start} MiB at the start, ${mib.middle} in the middle, ${mib.end} at the end`);
wrong.forEach((text) => console.log(`load: ${text}`));
const grown = flags["rss-growth-percent"] !== undefined && !(growth <= number("rss-growth-percent"));
if (grown) console.log(`load: memory grew by ${growth.toFixed(1)} %`);
const ok = counts.finished > 0 && counts.failed + counts.lost + counts.different === 0 && underWay === 0 && !grown;
process.exit(ok ? 0 : 1);
