#!/usr/bin/env bash
# Measures a model that is larger than the memory: a fresh memory cgroup, the page cache dropped before each
# run. Compares the expert store with plain mapped reading and with what the disk gives to direct reads.
#   scripts/bigger-than-memory.sh KVASIR
# BIGGER_MODEL and BIGGER_SKELETON name the models (default: written to a temporary folder, 7.2 GB);
# BIGGER_TOKENS tokens to generate (default 64), BIGGER_LIMIT bytes of the cgroup (default 4 GiB).
set -euo pipefail
kvasir=$1
tokens=${BIGGER_TOKENS:-64}
limit=${BIGGER_LIMIT:-$((4 << 30))}

# shellcheck source=scripts/memory-cgroup.sh
source "$(dirname "$0")/memory-cgroup.sh"
if ! find_cgroup; then
  echo "skipped: memory cgroups and the page cache can be set up only as root, on a system that allows it"
  exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"; leave_cgroup' EXIT

model=${BIGGER_MODEL:-$folder/4-layers.gguf}
skeleton=${BIGGER_SKELETON:-$folder/skeleton.gguf}
[ -e "$model" ] || "$kvasir" synth --like qwen3.5-122b-a10b --layers 4 -o "$model" >/dev/null
[ -e "$skeleton" ] || "$kvasir" synth --like qwen3.5-122b-a10b --skeleton -o "$skeleton" >/dev/null

# generate NAME COMMAND...: its report in $folder/NAME. Never ends early (296, 298: the end of a text or a turn).
generate() {
  local name=$1
  shift
  "$@" -p 'Once upon a time there was a king' -n "$tokens" --temperature 0 --logits-hash --logit-bias 296:-100 \
    --logit-bias 298:-100     --stats >"$folder/$name.out" 2>"$folder/$name" || { cat "$folder/$name" >&2; return 1; }
}
field() { sed -nE "s/$2/\\1/p" "$folder/$1" | tail -n 1; }  # field NAME PATTERN
speed() { field "$1" '^answer:.* ([0-9.]+) tokens\/s.*'; }
hash_of() { grep -oE '[0-9a-f]{64}' "$folder/$1.out"; }
direct_reads() {  # MB/s
  drop_page_cache
  LC_ALL=C dd if="$model" of=/dev/null iflag=direct bs=4M count=500 skip="$1" 2>&1 |
    awk '/copied/ {print int($1 / $(NF - 3) / 1e6)}'
}

before=$(direct_reads 100)
generate unlimited "$kvasir" generate -m "$model" --expert-ram mapped
generate mapped limited "$limit" "$kvasir" generate -m "$model" --expert-ram mapped
generate store limited "$limit" "$kvasir" generate -m "$model" --expert-ram auto
after=$(direct_reads 700)

echo "model of $(stat -L -c %s "$model") bytes, $limit bytes of memory, $tokens tokens:"
for run in unlimited mapped store; do
  echo "  $run: $(grep -E '^prompt' "$folder/$run"); $(grep -E '^answer' "$folder/$run")"
done
sed -n '/^experts/,/read by/s/^/  /p' "$folder/store"
rate=$(field store '.* \(([0-9]+) MB\/s\).*')
wall=$(awk -v bytes="$(field store '.* ([0-9.]+) GiB read by.*')" -v prompt="$(field store '^prompt:.* in ([0-9.]+) s.*')" \
  -v answer="$(field store '^answer:.* in ([0-9.]+) s.*')" 'BEGIN {print int(bytes * 1073.74 / (prompt + answer))}')
awk -v wall="$wall" -v store="$(speed store)" -v mapped="$(speed mapped)" -v rate="$rate" -v a="$before" -v b="$after" 'BEGIN {
  printf "  store : mapped reading = %.1f : 1\n", store / mapped
  printf "  direct reads of dd: %d and %d MB/s\n", a, b
  printf "  reads of the store: %d MB/s while there were any, %.0f %% of it\n", rate, 200 * rate / (a + b)
  printf "                      %d MB/s over the whole run, computing included, %.0f %% of it\n", wall, 200 * wall / (a + b)
}'
status=0
if [ "$(hash_of store)" = "$(hash_of unlimited)" ] && [ "$(hash_of mapped)" = "$(hash_of unlimited)" ]; then
  echo "  the logits have the same hash in all three"
else
  echo "error: the logits differ" >&2
  status=1
fi

limit=$((8 << 30))
tokens=8
generate skeleton limited "$limit" "$kvasir" generate -m "$skeleton" --expert-ram 2G
echo "skeleton of $(stat -L -c %s "$skeleton") bytes, $limit bytes of memory, --expert-ram 2G:"
grep -E '^(prompt|answer|memory|experts|  )' "$folder/skeleton" | sed 's/^/  /'
exit $status
