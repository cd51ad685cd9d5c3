#!/usr/bin/env bash
# The demonstration behind `make demo`: one model on four processes. A backbone tells a tale, three workers
# compute the experts they hold, one of them is killed in mid-sentence, and the logits have the same hash as on
# one machine alone.
set -euo pipefail
kvasir=$1
model=$(dirname "$0")/../models/kvasir-tales-q4_k_m.gguf
tokens=180
pace=11        # tokens per second: to be read along
kill_after=70  # tokens

folder=$(mktemp -d)
declare -A pid=() key=()
backbone='' copier=''
clean_up() {
  local process
  for process in "${pid[@]}" $backbone $copier; do kill -9 "$process" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits until a command succeeds.
wait_until() {
  local tries
  for ((tries = 0; tries < 600; ++tries)); do
    if "$@"; then return; fi
    sleep 0.05
  done
  echo "error: gave up waiting: $*" >&2
  cat "$folder"/*.log >&2
  exit 1
}
generate() {
  "$kvasir" generate -m "$model" -e -p 'The Golden Bird\n\n' -n $tokens --seed 2 --logits-hash "$@"
}
hash_in() { sed -n 's/^logits-hash: //p' "$1"; }

# Numbers of the swarm's status, a JSON text in a file.
number_of_worker() {  # file, worker, field
  awk -v RS='"id":' -v key="\"key\":\"${key[$2]}" 'index($0, key)' "$1" | grep -oE "\"$3\":[0-9]+" | head -n 1 |
    grep -oE '[0-9]+$' || echo 0
}
number_of_pairs() {  # file, why
  grep -oE '"pairs":\{[^}]*' "$1" | grep -oE "\"$2\":[0-9]+" | grep -oE '[0-9]+$'
}

echo "One machine alone computes the tale first; its logits are to be the measure."
generate >"$folder/alone" 2>"$folder/alone.log"
alone=$(hash_in "$folder/alone")

mkfifo "$folder/text"
tee "$folder/swarm" <"$folder/text" &
copier=$!
generate --dispatch always --swarm-listen 0 --wait-workers 3 --pace $pace --swarm-report "$folder/report.json" \
  --trace "$folder/trace" >"$folder/text" 2>"$folder/backbone.log" &
backbone=$!
"$kvasir" manifest "$model" -o "$folder/manifest" 2>/dev/null
wait_until grep -q 'ws://' "$folder/backbone.log"
port=$(grep -oE 'ws://[0-9.]+:[0-9]+' "$folder/backbone.log" | grep -oE '[0-9]+$')

declare -A experts=([ask]=0-15 [embla]=8-23 [lif]=16-31)
names=(ask embla lif)
for name in "${names[@]}"; do
  "$kvasir" slice "$model" --experts "${experts[$name]}" -o "$folder/$name.gguf" >"$folder/$name.slice" 2>/dev/null
  "$kvasir" worker --connect "ws://127.0.0.1:$port" --slice "$folder/$name.gguf" --manifest "$folder/manifest" \
    --ephemeral --threads 1 2>"$folder/$name.log" &
  pid[$name]=$!
  disown
done
echo
echo "A swarm for the same tale: a backbone, and three workers that hold"
for name in "${names[@]}"; do
  wait_until grep -qE 'worker [0-9a-f]{16}:' "$folder/$name.log"
  key[$name]=$(grep -oE 'worker [0-9a-f]{16}' "$folder/$name.log" | head -n 1 | cut -d ' ' -f 2)
  printf '  %-6s %s\n' "$name" "$(sed -nE 's/.*: (experts .*)/\1/p' "$folder/$name.slice" | head -n 1)"
done
echo
echo "The Golden Bird"
echo

# The trace gets its name when it is complete.
told() { [ "$(wc -l <"$folder/trace.partial" 2>/dev/null || echo 0)" -gt $kill_after ] || ! kill -0 $backbone 2>/dev/null; }
wait_until told
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'GET /v1/swarm HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
cat <&3 >"$folder/before.json"
exec 3>&-
kill -9 "${pid[lif]}"
printf '\n\n        *** worker lif was killed: kill -9 %s ***\n\n' "${pid[lif]}"
unset 'pid[lif]'

if ! wait $backbone; then
  cat "$folder/backbone.log" >&2
  exit 1
fi
backbone=''
wait $copier
copier=''

echo
echo "Who computed how many expert rows:"
for name in "${names[@]}"; do
  if [ -v "pid[$name]" ]; then
    printf '  %-8s %7d\n' "$name" "$(number_of_worker "$folder/report.json" "$name" rows_used)"
  else
    printf '  %-8s %7d  until it was killed\n' "$name" "$(number_of_worker "$folder/before.json" "$name" rows_used)"
  fi
done
here=0
for why in planned hole deadline refused lost audit; do
  here=$((here + $(number_of_pairs "$folder/report.json" $why)))
done
printf '  %-8s %7d  that nobody held any more, or that were late\n' backbone $here

swarm=$(hash_in "$folder/swarm")
echo
echo "The same logits, bit for bit, whatever computes them:"
echo "  alone  $alone"
echo "  swarm  $swarm"
if [ -z "$alone" ] || [ "$alone" != "$swarm" ]; then
  echo "error: they differ" >&2
  exit 1
fi
