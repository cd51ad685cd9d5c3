#!/usr/bin/env bash
# Cross-builds the portable set for AArch64 and WebAssembly and runs the arithmetic there: the hash over
# every kernel's results must be the one this machine computes. The tests of the kernels run for AArch64,
# too, on a processor with and one without the dot-product extension; KVASIR_TEST_ROWS
# sets how many rows of weights per type (2,000).
set -euo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}

cmake --preset release >/dev/null
cmake --build build -j "$jobs" --target arithmetic_hash >/dev/null
native=$(build/tests/arithmetic_hash)
echo "native       $native"

export NODE_PATH=/usr/share/nodejs
status=0
for preset in aarch64 wasm; do
  cmake --preset "$preset" >"build-$preset.log" 2>&1 || { cat "build-$preset.log"; exit 1; }
  rm -f "build-$preset.log"
  targets=(kvasir_expert kvasir_wire arithmetic_hash)
  [ "$preset" = wasm ] || targets+=(kernels_test kvasir-worker)
  cmake --build "build-$preset" -j "$jobs" --target "${targets[@]}" >"build-$preset/build.log" 2>&1 ||
    { tail -n 60 "build-$preset/build.log"; exit 1; }
  case $preset in
    aarch64) result=$(qemu-aarch64-static build-aarch64/tests/arithmetic_hash) ;;
    # Node.js 18 and later have a fetch() of their own, which this emscripten's loader mistakes for a
    # browser's.
    wasm) result=$(node --no-experimental-fetch build-wasm/tests/arithmetic_hash.js) ;;
  esac
  printf '%-12s %s\n' "$preset" "$result"
  [ "$result" = "$native" ] || { echo "error: $preset computes other bits" >&2; status=1; }
done

for cpu in cortex-a76 cortex-a72; do  # with the extension, and without
  export QEMU_CPU=$cpu
  result=$(qemu-aarch64-static build-aarch64/tests/arithmetic_hash)
  printf '%-12s %s\n' "$cpu" "$result"
  [ "$result" = "$native" ] || { echo "error: $cpu computes other bits" >&2; status=1; }
  # What is no vector code is tested once.
  case $cpu in cortex-a76) filter='*' ;; *) filter='-CanonicalMath.*' ;; esac
  if ! qemu-aarch64-static build-aarch64/tests/kernels_test --gtest_filter="$filter" \
    >"build-aarch64/$cpu.log" 2>&1; then
    grep -E '^\[  FAILED|Failure|KVASIR_TEST_SEED' "build-aarch64/$cpu.log" | tail -n 60
    status=1
  fi
  tail -n 1 "build-aarch64/$cpu.log"
done

# The worker for AArch64: the known answers, then a live swarm beside workers of this machine.
worker=build-aarch64/kvasir-worker
qemu-aarch64-static "$worker" --self-test || status=1
cmake --build build -j "$jobs" --target swarm_matrix_test kvasir-worker >/dev/null
KVASIR_ARM64_WORKER=$worker build/tests/swarm_matrix_test --gtest_filter='*ProcessorsMix*' \
  >build-aarch64/swarm.log 2>&1 || { tail -n 40 build-aarch64/swarm.log; status=1; }
grep -E 'SKIPPED|PASSED' build-aarch64/swarm.log
exit $status
