#!/usr/bin/env bash
# Generates over and over for a while and checks that memory stays flat: the peak of the last quarter of
# the runs must not exceed that of the first by more than 5 %.
#   scripts/soak.sh KVASIR SECONDS
set -euo pipefail
kvasir=$1
seconds=$2

log=$(mktemp)
fifo=$(mktemp -u)
mkfifo "$fifo"
trap 'rm -f "$log" "$fifo"; kill "${chat:-}" 2>/dev/null || true' EXIT
# One long-lived process: a chat that is asked, reset and asked again.
"$kvasir" chat -n 100 <"$fifo" >/dev/null &
chat=$!
exec 3>"$fifo"
end=$((SECONDS + seconds))
while [ $SECONDS -lt $end ]; do
  printf 'Tell me a tale about a fox and a king.\n/reset\n' >&3
  sleep 2
  kill -0 "$chat" || { echo "error: the process died" >&2; exit 1; }
  awk '/^VmRSS/ {print $2}' "/proc/$chat/status" >>"$log"
done
exec 3>&-
wait "$chat"
samples=$(wc -l <"$log")
quarter=$((samples / 4))
if [ "$quarter" -lt 1 ]; then echo "error: too short to judge: $samples samples" >&2; exit 1; fi
early=$(sed -n "$((quarter + 1)),$((2 * quarter))p" "$log" | sort -n | tail -n 1)
late=$(tail -n "$quarter" "$log" | sort -n | tail -n 1)
echo "soak: $samples samples in $seconds s, resident $early KiB in the second quarter, $late KiB in the last"
[ $((late * 100)) -le $((early * 105)) ]
