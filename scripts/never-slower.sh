#!/usr/bin/env bash
# Measures whether workers on the same machine ever make a backbone slower, and how much faster they make one
# whose experts do not fit into its memory.
#   scripts/never-slower.sh KVASIR
# NEVER_MODEL names the model (default: written to a temporary folder, 7.2 GB, and slices as large);
# NEVER_TOKENS tokens of each run (default 384), NEVER_ROUNDS of all runs in turn (default 3), NEVER_LIMIT bytes of
# the cgroup of the second part (default 3 GiB), NEVER_PARTS "ab".
set -euo pipefail
kvasir=$(realpath "$1")
tokens=${NEVER_TOKENS:-384}
rounds=${NEVER_ROUNDS:-3}
limit=${NEVER_LIMIT:-$((3 << 30))}
parts=${NEVER_PARTS:-ab}

# shellcheck source=scripts/memory-cgroup.sh
source "$(dirname "$0")/memory-cgroup.sh"
folder=$(mktemp -d)
workers=()
stop_workers() {
  [ ${#workers[@]} -eq 0 ] || { kill -CONT "${workers[@]}"; kill "${workers[@]}"; } 2>/dev/null || true
  wait 2>/dev/null || true
  workers=()
}
trap 'stop_workers; rm -rf "$folder"; leave_cgroup; rmdir /sys/fs/cgroup/memory/kvasir-worker-$$ 2>/dev/null || true' EXIT

model=${NEVER_MODEL:-$folder/4-layers.gguf}
[ -e "$model" ] || "$kvasir" synth --like qwen3.5-122b-a10b --layers 4 -o "$model" >/dev/null
"$kvasir" manifest "$model" -o "$folder/manifest" 2>/dev/null
ranges=(0-87 88-175 176-255)
for range in "${ranges[@]}"; do
  "$kvasir" slice "$model" --experts "$range" -o "$folder/$range.gguf" >/dev/null
done

port=$((20000 + RANDOM % 20000))
start_workers() {
  for range in "${ranges[@]}"; do
    if [ -d /sys/fs/cgroup/memory ]; then
      mkdir -p "/sys/fs/cgroup/memory/kvasir-worker-$$"
      # shellcheck disable=SC2016
      sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "/sys/fs/cgroup/memory/kvasir-worker-$$" \
        "$kvasir" worker --connect "ws://127.0.0.1:$port" --slice "$folder/$range.gguf" --manifest "$folder/manifest" \
        --ephemeral --threads 1 2>>"$folder/workers.log" &
    else
      "$kvasir" worker --connect "ws://127.0.0.1:$port" --slice "$folder/$range.gguf" --manifest "$folder/manifest" \
        --ephemeral --threads 1 2>>"$folder/workers.log" &
    fi
    workers+=($!)
  done
}

# run NAME PREFIX... : one generation, "NAME tokens/s hash" appended to $folder/results
run() {
  local name=$1
  shift
  "$@" generate -m "$model" -p 'Once upon a time there was a king' -n "$tokens" --temperature 0 --logits-hash \
    --logit-bias 296:-100 --logit-bias 298:-100 --stats "${flags[@]}" >"$folder/$name.out" 2>"$folder/$name.err" ||
    { cat "$folder/$name.err" >&2; return 1; }
  echo "$name $(sed -nE 's/^answer:.* ([0-9.]+) tokens\/s.*/\1/p' "$folder/$name.err") \
$(grep -oE '[0-9a-f]{64}' "$folder/$name.out")" >>"$folder/results"
}
swarm_run() {  # swarm_run NAME PAUSE? PREFIX...
  local name=$1 pause=$2
  shift 2
  start_workers
  flags=("${store[@]}" --swarm-listen "$port" --wait-workers 3 --swarm-report "$folder/$name.json")
  if [ "$pause" = pause ]; then
    # Paused for good as soon as it has joined.
    (until grep -q 'workers joined' "$folder/$name.err" 2>/dev/null; do sleep 0.05; done
      kill -STOP "${workers[0]}") &
  fi
  run "$name" "$@"
  stop_workers
}
median() { grep "^$1 " "$folder/results" | awk '{print $2}' | sort -n | awk '{v[NR]=$1} END {print v[int((NR + 1) / 2)]}'; }
share() {
  grep -oE '"pairs":\{[^}]*\}' "$folder/$1.json" |
    awk -F'[:,}]' '{all = 0; for (i = 3; i < NF; i += 2) all += $i; printf "%.1f", 100 * ($3 + $5) / all}'
}
report() {  # report ALONE WITH LEAST
  awk -v a="$(median "$1")" -v w="$(median "$2")" -v name="$2" -v share="$(share "$2")" -v least="$3" \
    'BEGIN {printf "  %-14s %6.2f tokens/s, alone %6.2f: %.2f x (at least %s), %s %% of rows from workers\n", name, w, a, w / a, least, share}'
}

: >"$folder/results"
if [[ $parts == *a* ]]; then
  store=()
  for _ in $(seq "$rounds"); do
    flags=(); run alone "$kvasir"
    swarm_run beside run "$kvasir"
    swarm_run one-paused pause "$kvasir"
  done
  echo "everything in memory, three workers on the same machine, --dispatch auto:"
  report alone beside 0.95
  report alone one-paused 0.95
fi
if [[ $parts == *b* ]] && find_cgroup; then
  store=(--expert-ram 512M)
  for _ in $(seq "$rounds"); do
    flags=("${store[@]}"); run small-alone limited "$limit" "$kvasir"
    swarm_run small-with run limited "$limit" "$kvasir"
    swarm_run small-paused pause limited "$limit" "$kvasir"
  done
  echo "backbone in $limit bytes with --expert-ram 512M, three workers that hold all experts:"
  report small-alone small-with 2
  report small-alone small-paused 1
fi
if [ "$(awk '{print $3}' "$folder/results" | sort -u | wc -l)" -ne 1 ]; then
  echo "error: the logits differ" >&2
  cat "$folder/results" >&2
  exit 1
fi
echo "the logits have the same hash in all $(wc -l <"$folder/results") runs"
