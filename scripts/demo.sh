#!/usr/bin/env bash
# The demonstration behind `make demo`: the bundled model tells a tale, and the same tale again on
# another instruction set and thread count has the same hash.
set -euo pipefail
kvasir=$1

"$kvasir" inspect "$(dirname "$0")/../models/kvasir-tales-q4_k_m.gguf"
echo
"$kvasir" generate -e --echo -p 'The Golden Bird\n\n' -n 200 --seed 2 --stats
echo
echo "The same logits, bit for bit, whatever computes them:"
hash_of() { env "$@" generate -e -p 'The Golden Bird\n\n' -n 32 --seed 2 --logits-hash 2>/dev/null |
  grep -oE '[0-9a-f]{64}' | tail -n 1; }
echo "  scalar, 1 thread    $(hash_of KVASIR_ISA=scalar "$kvasir")"
echo "  best,   all threads $(hash_of "$kvasir")"
