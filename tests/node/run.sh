#!/usr/bin/env bash
# Reads slices with a GGUF library of the npm registry, as other people's tools would, and renders chat
# templates with another engine.
#   tests/node/run.sh FOLDER KVASIR RENDER_CHAT_TEMPLATES
#                                        FOLDER: for the libraries, made if it is not there
# Exit code 77, and a word why, where Node.js, npm or the network is missing.
set -euo pipefail
cd "$(dirname "$0")"
folder=$1
export KVASIR_EXECUTABLE=$2
export KVASIR_TEMPLATE_RENDERER=$3
export KVASIR_TEMPLATE_DATA=$PWD/../data/chat_templates
node_min=20   # what the library asks for

skip() { echo "skipped: $1"; exit 77; }
command -v node >/dev/null || skip "there is no node"
command -v npm >/dev/null || skip "there is no npm"
node_major=$(node -p 'process.versions.node.split(".")[0]')
[ "$node_major" -ge "$node_min" ] || skip "node is version $node_major, $node_min is needed"

mkdir -p "$folder"
if ! cmp -s package-lock.json "$folder/installed-lock.json"; then
  cp package.json package-lock.json "$folder/"
  log=$folder/npm.log
  if ! (cd "$folder" && timeout 120 npm ci --ignore-scripts --no-audit --no-fund \
      --fetch-retries=1 --fetch-timeout=20000) >"$log" 2>&1; then
    grep -qE 'ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|network' "$log" &&
      skip "the npm registry cannot be reached"
    cat "$log"
    exit 1
  fi
  cp package-lock.json "$folder/installed-lock.json"
fi
cp ./*.test.mjs "$folder/"
exec node --test "$folder/slice.test.mjs" "$folder/chat_template.test.mjs"
