#!/usr/bin/env bash
# Everything `make test` runs. Ends with one line that counts the stages.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
passed=0
failed=0

stage() {  # stage NAME COMMAND...
  local name=$1 begin=$SECONDS
  shift
  echo "=== $name"
  if "$@"; then
    passed=$((passed + 1))
    echo "=== $name: passed in $((SECONDS - begin)) s"
  else
    failed=$((failed + 1))
    echo "=== $name: FAILED after $((SECONDS - begin)) s"
  fi
}

build() {  # build PRESET FOLDER [targets...]
  local preset=$1 folder=$2
  shift 2
  cmake --preset "$preset" >"$folder.configure.log" 2>&1 || { cat "$folder.configure.log"; return 1; }
  rm -f "$folder.configure.log"
  cmake --build "$folder" -j "$jobs" -- ${1:+"$@"} >"$folder/build.log" 2>&1 ||
    { tail -n 60 "$folder/build.log"; return 1; }
}

run_tests() {  # run_tests FOLDER [ctest arguments...]
  local folder=$1
  shift
  ctest --test-dir "$folder" --output-on-failure -j "$jobs" "$@" >"$folder/ctest.log" 2>&1 ||
    { tail -n 80 "$folder/ctest.log"; return 1; }
  grep -E 'Skipped|tests passed|Total Test time' "$folder/ctest.log"
}

# Unit tests of modules in which nothing depends on the optimiser run once, under the sanitizers; those in
# which bits or races are at stake run here, too, with all that start processes. (`make unit-test` runs every
# test in the release build.)
release_targets=(kvasir kvasir-worker render_chat_templates arithmetic_hash
  kernels_test expert_test engine_test swarm_test cli_test measure_test
  include_direction_test golden_test logits_hash_test swarm_virtual_time_test swarm_matrix_test worker_process_test
  end_to_end_test chaos_run_test serve_process_test pull_process_test worker_core_hostile_test
  dispatcher_hostile_test)
release() {
  build release build "${release_targets[@]}" &&
    run_tests build -R "^($(IFS='|'; echo "${release_targets[*]}"))\\.|_compat_test|_template_test|_hostile_test|node_gguf|install_test"
}
# Under the sanitizers: everything but the command line, whose flag library is slow to compile (`make asan-test`
# has it, too).
asan_targets=(base gguf kernels expert wire crypto net swarm worker model pull text config api engine serve chaos)
asan_targets=("${asan_targets[@]/%/_test}" wire_expert_test slice_test worker_units_test worker_process_test
  swarm_virtual_time_test kvasir-worker)
asan() {
  build asan-ubsan build-asan-ubsan "${asan_targets[@]}" &&
    run_tests build-asan-ubsan -R "^($(IFS='|'; echo "${asan_targets[*]}"))\\."
}
tsan() {
  build tsan build-tsan base_test expert_test engine_test net_test swarm_test worker_test swarm_matrix_test &&
    run_tests build-tsan -R '^(base|expert|engine|net|swarm|worker|swarm_matrix)_test\.'
}
portable() { scripts/portable-check.sh; }
format() { git ls-files '*.cc' '*.h' | xargs -r clang-format-14 --dry-run -Werror; }
fuzz() { scripts/fuzz.sh "${FUZZ_SECONDS:-5}"; }

# g++ 12's fake stack, which finds uses after return, does not align frames for 64-byte vectors.
export ASAN_OPTIONS=detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1
stage "formatting" format
stage "release build and tests" release
stage "address and undefined-behaviour sanitizers" asan
stage "thread sanitizer" tsan
stage "AArch64 and WebAssembly" portable
stage "fuzzing" fuzz

echo
echo "stages: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
