#!/usr/bin/env bash
# Formatting of all sources, clang-tidy on the files changed against the main branch (all of them with
# LINT_ALL=1), cppcheck on everything. Needs a configured build folder `build`. A file takes clang-tidy
# 5 to 10 seconds of one processor, cppcheck takes 5 for all.
set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files '*.cc' '*.h' | xargs -r clang-format-14 --dry-run -Werror

if [ -n "${LINT_ALL:-}" ]; then
  mapfile -t files < <(git ls-files 'src/*.cc' 'tests/*.cc')
else
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-list --max-parents=0 HEAD | tail -n 1)
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' 'tests/*.cc')
fi
# Precompiled headers of g++ mean nothing to clang-tidy: tests get the text of theirs, modules need none.
if [ ${#files[@]} -gt 0 ]; then
  mkdir -p build/tidy
  sed -E -e "s|-include [^ ]*_test\.dir/cmake_pch\.hxx|-include $PWD/cmake/precompiled_test.h|g" \
    -e 's/-Winvalid-pch|-include [^ ]*cmake_pch\.hxx|-fpch-preprocess//g' build/compile_commands.json \
    >build/tidy/compile_commands.json
  (
    ulimit -t 120  # seconds of processor for each file: no file needs them, and it ends
    printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p build/tidy --quiet \
      --warnings-as-errors='*' 2> >(grep -vE '^[0-9]+ warnings? generated\.$' >&2)
  )
fi

# Left out: what the compilers say better (the first two), style of test fixtures, the intended casts of
# kernels, code that this cppcheck cannot parse.
suppressed=(returnStdMoveLocal missingReturn missingIncludeSystem 'useInitializationList:*test*'
  'uninitMemberVar:src/kernels/*' 'invalidPointerCast:src/kernels/*' 'memsetClassFloat:src/kernels/*'
  'syntaxError:src/gguf/types.cc' 'syntaxError:src/model/synthesis_test.cc')
cppcheck --quiet --error-exitcode=1 --std=c++20 --language=c++ --inline-suppr \
  --library=posix,gnu,googletest --enable=warning,performance,portability \
  "${suppressed[@]/#/--suppress=}" -j "$(nproc)" -I src src
