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

release() { build release build && run_tests build; }
asan() { build asan-ubsan build-asan-ubsan && run_tests build-asan-ubsan; }
tsan() {
  build tsan build-tsan base_test expert_test engine_test net_test swarm_test worker_test swarm_matrix_test &&
    run_tests build-tsan -R '^(base|expert|engine|net|swarm|worker|swarm_matrix)_test\.'
}
portable() { scripts/portable-check.sh; }
format() { git ls-files '*.cc' '*.h' | xargs -r clang-format-14 --dry-run -Werror; }
fuzz() { scripts/fuzz.sh "${FUZZ_SECONDS:-8}"; }

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
