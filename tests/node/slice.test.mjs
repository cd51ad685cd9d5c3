// A slice as another GGUF reader sees it: its keys, its tensors, and that its bytes are the model's.
import assert from "node:assert/strict";
import {execFileSync} from "node:child_process";
import {mkdtempSync, readFileSync, rmSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {after, test} from "node:test";

import {GGMLQuantizationType, gguf} from "@huggingface/gguf";

const folder = mkdtempSync(join(tmpdir(), "kvasir-node-"));
after(() => rmSync(folder, {recursive: true}));

function kvasir(...words) {
  return execFileSync(process.env.KVASIR_EXECUTABLE, words, {
    encoding: "utf8",
    env: {...process.env, XDG_CACHE_HOME: folder},
    stdio: ["ignore", "pipe", "ignore"],
  });
}

const read = (path) => gguf(path, {allowLocalFile: true});

// The bytes of a tensor, or of some of its experts.
function bytesOf(path, file, tensor, bytes, first = 0) {
  const begin = Number(file.tensorDataOffset + tensor.offset) + first;
  return readFileSync(path).subarray(begin, begin + bytes);
}

for (const fused of [[], ["--fused-gate-up"]]) {
  test(`reads a slice of a model (${fused.length ? "fused" : "separate"} gate and up)`, async () => {
    const model = join(folder, "model.gguf");
    const part = join(folder, "part.gguf");
    kvasir("synth", "--type", "q8_0", "--experts", "20", ...fused, "-o", model);
    kvasir("slice", model, "--layers", "1-2", "--experts", "8-19", "-o", part);
    const whole = await read(model);
    const slice = await read(part);

    assert.equal(slice.metadata["kvasir.slice.version"], 1);
    assert.match(slice.metadata["kvasir.slice.source"], /^[0-9a-f]{64}$/);
    assert.deepEqual(slice.metadata["kvasir.slice.layer"], [1, 2]);
    assert.deepEqual(slice.metadata["kvasir.slice.first"], [8, 8]);
    assert.deepEqual(slice.metadata["kvasir.slice.count"], [12, 12]);
    for (const [key, value] of Object.entries(whole.metadata))
      if (key.startsWith("qwen35moe.") || key === "general.architecture")
        assert.deepEqual(slice.metadata[key], value, key);

    const roles = fused.length ? ["gate_up", "down"] : ["gate", "up", "down"];
    const names = [1, 2].flatMap((layer) => roles.map((r) => `blk.${layer}.ffn_${r}_exps.weight`));
    assert.deepEqual(slice.tensorInfos.map((tensor) => tensor.name).sort(), names.sort());
    for (const tensor of slice.tensorInfos) {
      const source = whole.tensorInfos.find((other) => other.name === tensor.name);
      assert.equal(tensor.dtype, GGMLQuantizationType.Q8_0);
      assert.deepEqual(tensor.shape.map(Number), [...source.shape.slice(0, 2).map(Number), 12]);
      const expertBytes = (Number(tensor.shape[0] * tensor.shape[1]) / 32) * 34;
      assert.ok(
        bytesOf(part, slice, tensor, 12 * expertBytes).equals(
          bytesOf(model, whole, source, 12 * expertBytes, 8 * expertBytes)), tensor.name);
    }
  });
}
