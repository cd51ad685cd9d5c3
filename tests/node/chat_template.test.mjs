// Chat templates beside @huggingface/jinja, on the conversations that Python's engine is asked, too. Where
// the two engines disagree, Python's is right (tests/python), so those are left out here.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {readFileSync, readdirSync} from 'node:fs';
import {join} from 'node:path';
import test from 'node:test';
import {Template} from '@huggingface/jinja';

const data = process.env.KVASIR_TEMPLATE_DATA;
const renderer = process.env.KVASIR_TEMPLATE_RENDERER;
const conversations = JSON.parse(readFileSync(join(data, 'conversations.json'), 'utf8'));

function render(requests) {
  const lines = requests.map((request) => JSON.stringify(request)).join('\n') + '\n';
  const {stdout} = spawnSync(renderer, {input: lines, encoding: 'utf8', maxBuffer: 1 << 26});
  return stdout.trimEnd().split('\n').map((line) => JSON.parse(line));
}

function reference({template, context}) {
  try {
    return new Template(template).render(context);
  } catch {
    return null;
  }
}

// It has generation blocks and sorting by attributes, which this engine lacks.
const skipped = new Set(['roles-by-table.jinja']);

for (const name of readdirSync(data).filter((file) => file.endsWith('.jinja') && !skipped.has(file))) {
  test(`${name} renders as with @huggingface/jinja`, () => {
    const template = readFileSync(join(data, name), 'utf8');
    const requests = [];
    for (const context of Object.values(conversations)) {
      for (const more of [{}, {add_generation_prompt: true}]) {
        requests.push({template, context: {
          bos_token: '<s>', eos_token: '</s>', date_string: '1 Jan 2026', ...context, ...more}});
      }
    }
    let equal = 0;
    render(requests).forEach((answer, i) => {
      const expected = reference(requests[i]);
      if (expected === null || answer.text === undefined) return;
      assert.equal(answer.text, expected);
      ++equal;
    });
    assert.ok(equal >= 8, `only ${equal} conversations were compared`);
  });
}
