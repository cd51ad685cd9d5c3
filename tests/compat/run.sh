#!/usr/bin/env bash
# The clients that people have (openai, @anthropic-ai/sdk, Vercel's ai), unmodified, against `kvasir serve` with the
# bundled model: once open, once with keys, --strict-api and little room.
#   tests/compat/run.sh FOLDER KVASIR
#                                        FOLDER: for the clients, made if it is not there
# An older Node.js than the clients need fetches one of its own from the npm registry.
# Exit code 77, and a word why, where Node.js, npm or the network is missing.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p "$1"
folder=$(realpath "$1")
KVASIR_EXECUTABLE=$(realpath "$2")
KVASIR_COMPAT_MODEL=$(realpath ../../models/kvasir-tales-q4_k_m.gguf)
# Twice what the model was trained on: a prompt with tools, and room for their calls.
KVASIR_COMPAT_CONTEXT=1024
export KVASIR_EXECUTABLE KVASIR_COMPAT_MODEL KVASIR_COMPAT_CONTEXT
unset KVASIR_API_KEY KVASIR_MODEL
node_min=20
node_version=20.20.2  # fetched where Node.js is older
ready_seconds=60

skip() { echo "skipped: $1"; exit 77; }
command -v node >/dev/null || skip "there is no node"
command -v npm >/dev/null || skip "there is no npm"

fetch() {  # fetch FOLDER NPM-WORDS...: runs npm there
  local log=$folder/npm.log where=$1
  shift
  (cd "$where" && timeout 180 npm "$@" --no-audit --no-fund --fetch-retries=1 --fetch-timeout=20000) \
    >"$log" 2>&1 && return
  grep -qE 'ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|network' "$log" &&
    skip "the npm registry cannot be reached"
  cat "$log"
  exit 1
}

node=node
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt "$node_min" ]; then
  node=$folder/node/node_modules/node/bin/node
  if [ "$("$node" --version 2>/dev/null)" != "v$node_version" ]; then
    mkdir -p "$folder/node"
    # Its script fetches the package of this processor.
    fetch "$folder/node" install --no-save --prefix . "node@$node_version"
  fi
fi

if ! cmp -s package-lock.json "$folder/installed-lock.json"; then
  cp package.json package-lock.json "$folder/"
  fetch "$folder" ci --ignore-scripts
  cp package-lock.json "$folder/installed-lock.json"
fi
cp ./*.mjs "$folder/"

servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true' EXIT

# One thread each: on a busy machine several wait for one another.
start() {  # start NAME WORDS...: a server; sets url when it is ready
  local log=$folder/$1.log until=$((SECONDS + ready_seconds))
  shift
  : >"$log"  # of an earlier run
  "$KVASIR_EXECUTABLE" serve "$KVASIR_COMPAT_MODEL" --listen 127.0.0.1:0 --log-format json \
    --ctx $KVASIR_COMPAT_CONTEXT --threads 1 "$@" >/dev/null 2>"$log" &
  servers+=($!)
  while
    url=$(sed -n 's|.*"event":"ready","api":"\(http://[^"]*\)/v1".*|\1|p' "$log")
    [ -z "$url" ]
  do
    if ! kill -0 $! 2>/dev/null || [ $SECONDS -ge $until ]; then
      echo "error: the server did not become ready:"
      cat "$log"
      exit 1
    fi
    sleep 0.1
  done
}

export KVASIR_URL KVASIR_KEYED_URL
export KVASIR_KEY_INFER=infer-0123456789abcdef KVASIR_KEY_OBSERVE=observe-0123456789abcdef
export KVASIR_KEY_SLOW=slow-0123456789abcdef
umask 077
cat >"$folder/keys" <<EOF
# for these tests only
alice:$KVASIR_KEY_INFER
watcher:$KVASIR_KEY_OBSERVE:observe
slow:$KVASIR_KEY_SLOW:infer:60
EOF

start open
KVASIR_URL=$url
start keyed --no-swarm --api-key-file "$folder/keys" --strict-api --max-sequences 2 --queue 2
KVASIR_KEYED_URL=$url

is_ready() {  # is_ready URL KEY
  # shellcheck disable=SC2016
  "$node" -e 'fetch(process.argv[1] + "/readyz", {headers: {Authorization: `Bearer ${process.argv[2]}`}})
    .then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))' "$@" && return
  echo "error: $1 says that it is ready, and is not"
  exit 1
}
is_ready "$KVASIR_URL" ""
is_ready "$KVASIR_KEYED_URL" "$KVASIR_KEY_INFER"

# One file at a time: some look at what the server does besides.
failed=0
(cd "$folder" && "$node" --test --test-concurrency=1 --test-timeout=240000 \
  openai.test.mjs anthropic.test.mjs ai_sdk.test.mjs wishes.test.mjs) || failed=1
# A short turn of the load script, so that it works when it is needed.
"$node" "$folder/load.mjs" "$KVASIR_URL" --clients 16 --seconds 3 --seed 1 || failed=1

# Nobody asks any more: both end at once, and without a complaint.
for server in "${servers[@]}"; do
  kill "$server"
  wait "$server" || { echo "error: a server ended with exit code $?"; failed=1; }
done
servers=()
if [ $failed -ne 0 ]; then echo "the servers' logs: $folder/open.log, $folder/keyed.log"; fi
exit $failed
