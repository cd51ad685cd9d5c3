#!/usr/bin/env bash
# Formatting of all sources, clang-tidy on the files changed against the main branch (all of them with
# LINT_ALL=1), cppcheck on everything. Needs a configured build folder `build`.
set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files '*.cc' '*.h' | xargs -r clang-format-14 --dry-run -Werror

if [ -n "${LINT_ALL:-}" ]; then
  mapfile -t files < <(git ls-files 'src/*.cc')
else
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-list --max-parents=0 HEAD | tail -n 1)
  mapfile -t files < <(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc')
fi
# Precompiled headers of g++ mean nothing to clang-tidy.
if [ ${#files[@]} -gt 0 ]; then
  mkdir -p build/tidy
  sed -E 's/-Winvalid-pch|-include [^ ]*cmake_pch\.hxx|-fpch-preprocess//g' build/compile_commands.json \
    >build/tidy/compile_commands.json
  printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-14 -p build/tidy --quiet \
    --warnings-as-errors='*'
fi

cppcheck --quiet --error-exitcode=1 --std=c++20 --language=c++ --inline-suppr \
  --enable=warning,performance,portability --suppress=missingIncludeSystem \
  --suppress=uninitMemberVar:src/kernels/* -j "$(nproc)" -I src src
