#!/usr/bin/env bash
# Builds the fuzz targets and runs each for the given seconds; any finding fails.
#   scripts/fuzz.sh SECONDS
# Findings are kept under build-fuzz/findings/<target>-*.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$1

cmake --preset fuzz >/dev/null
cmake --build build-fuzz -j "$(nproc)" --target fuzzers >build-fuzz/build.log 2>&1 ||
  { tail -n 60 build-fuzz/build.log; exit 1; }
mkdir -p build-fuzz/findings
failed=0
for target in build-fuzz/fuzz/*_fuzz; do
  name=$(basename "$target")
  seeds=fuzz/corpus/${name%_fuzz}
  grown=build-fuzz/corpus/$name   # what earlier runs found worth keeping
  mkdir -p "$grown"
  log=build-fuzz/$name.log
  if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
      -artifact_prefix="build-fuzz/findings/$name-" "$grown" "$seeds" >"$log" 2>&1; then
    echo "fuzz $name: no finding in $(grep -oP 'number_of_executed_units:\s*\K\d+' "$log") runs"
  else
    failed=1
    echo "fuzz $name: FAILED, log in $log"
    tail -n 40 "$log"
  fi
done
exit $failed
