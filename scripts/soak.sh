#!/usr/bin/env bash
# Generates for a while and checks that memory stays flat: the peak of the last quarter of the samples must not
# exceed that of the second by more than 5 %. Half of the time the bundled model; half of it a model larger than
# the memory it is given, from the expert store (skipped where memory cgroups cannot be set up).
#   scripts/soak.sh KVASIR SECONDS
# SOAK_MODEL names the large model (default: 7.2 GB, written to a temporary folder).
set -euo pipefail
kvasir=$1
half=$(($2 / 2))
limit=$((4 << 30))
# shellcheck source=scripts/memory-cgroup.sh
source "$(dirname "$0")/memory-cgroup.sh"

folder=$(mktemp -d)
process=
trap 'kill "$process" 2>/dev/null || true; rm -rf "$folder"; leave_cgroup' EXIT

sample() {  # sample LOG: appends what the process has resident
  kill -0 "$process" || { echo "error: the process died" >&2; exit 1; }
  awk '/^VmRSS/ {print $2}' "/proc/$process/status" >>"$1"
}

judge() {  # judge NAME LOG
  local samples quarter early late
  samples=$(wc -l <"$2")
  quarter=$((samples / 4))
  if [ "$quarter" -lt 1 ]; then echo "error: too short to judge: $samples samples" >&2; exit 1; fi
  early=$(sed -n "$((quarter + 1)),$((2 * quarter))p" "$2" | sort -n | tail -n 1)
  late=$(tail -n "$quarter" "$2" | sort -n | tail -n 1)
  echo "soak, $1: $samples samples in $half s, resident $early KiB in the second quarter, $late KiB in the last"
  [ $((late * 100)) -le $((early * 105)) ]
}

ask() {  # ask LOG REPORT: the chat behind descriptor 3, again and again, when it has answered
  local asked=0 end=$((SECONDS + half))
  while [ $SECONDS -lt $end ]; do
    if [ "$(grep -c '^answer:' "$2")" -ge $asked ]; then
      printf 'Tell me a tale about a fox and a king.\n/reset\n' >&3
      asked=$((asked + 1))
    fi
    sleep 2
    sample "$1"
  done
  exec 3>&-
  echo "soak: $asked answers of up to 100 tokens"
}

# One long-lived process: a chat that is asked, reset and asked again.
mkfifo "$folder/fifo"
"$kvasir" chat -n 100 --stats <"$folder/fifo" >/dev/null 2>"$folder/report" &
process=$!
exec 3>"$folder/fifo"
ask "$folder/chat" "$folder/report"
wait "$process"
judge "all in memory" "$folder/chat"

if ! find_cgroup; then
  echo "soak, larger than the memory: skipped, memory cgroups cannot be set up here"
  exit 0
fi
model=${SOAK_MODEL:-$folder/4-layers.gguf}
[ -e "$model" ] || "$kvasir" synth --like qwen3.5-122b-a10b --layers 4 -o "$model" >/dev/null
mkfifo "$folder/fifo2"
limited "$limit" "$kvasir" chat -m "$model" --expert-ram auto -n 100 --stats <"$folder/fifo2" >/dev/null \
  2>"$folder/report2" &
process=$!
exec 3>"$folder/fifo2"
# The shell that starts it becomes it.
process=$(while ! head -n 1 "$cgroup/cgroup.procs" 2>/dev/null | grep .; do sleep 0.2; done)
ask "$folder/store" "$folder/report2"
wait
grep -A 2 '^experts' "$folder/report2" | tail -n 3
judge "larger than the memory" "$folder/store"
