#!/usr/bin/env bash
# What `make install` puts down is complete, and systemd finds nothing wrong with the units.
#   tests/install_test.sh BUILD_FOLDER FOLDER_FOR_FILES
# Exit code 77, with a word why: a part could not be tried here.
set -euo pipefail
build=$1 root=$2

fail() { echo "error: $*" >&2; exit 1; }

rm -rf "$root"
# The executable alone: the other files are large, and CMake copies them well.
cmake -DCMAKE_INSTALL_PREFIX="$root/usr" -DKVASIR_EXECUTABLE="$build/kvasir" \
  -DKVASIR_PACKAGING="$(dirname "$0")/../packaging" -P "$(dirname "$0")/../packaging/install.cmake"
mkdir -p "$root/usr/bin"
ln -s "$build/kvasir" "$root/usr/bin/kvasir"

for file in share/man/man1/kvasir.1 share/man/man1/kvasir-worker.1 \
  share/bash-completion/completions/kvasir share/zsh/site-functions/_kvasir \
  share/fish/vendor_completions.d/kvasir.fish lib/systemd/system/kvasir-backbone.service \
  lib/systemd/system/kvasir-worker.service lib/systemd/user/kvasir-worker.service; do
  [ -s "$root/usr/$file" ] || fail "$file is missing or empty"
done
grep -q "^ExecStart=$root/usr/bin/kvasir worker$" "$root/usr/lib/systemd/system/kvasir-worker.service" ||
  fail "the unit does not start what was installed"

# Every variable that a unit sets must be one of its command's.
for unit in "$root"/usr/lib/systemd/*/*.service; do
  verb=$(sed -n 's/^ExecStart=[^ ]* //p' "$unit")
  if ! KVASIR_CONFIG=/dev/null "$build/kvasir" help "$verb" >/dev/null 2>&1; then
    echo "note: this build has no kvasir $verb"
    continue
  fi
  known=$(KVASIR_CONFIG=/dev/null "$build/kvasir" config show "$verb" --json)
  for name in $(sed -n 's/^Environment=\(KVASIR_[A-Z_]*\)=.*/\1/p' "$unit"); do
    grep -q "\"$name\"" <<<"$known" || fail "$(basename "$unit") sets $name, which is no setting"
  done
done

if ! command -v systemd-analyze >/dev/null; then
  echo "skipped: systemd-analyze is not installed"
  exit 77
fi
said=$(systemd-analyze verify --man=no "$root"/usr/lib/systemd/system/*.service 2>&1) ||
  fail "systemd-analyze verify: $said"
[ -z "$said" ] || fail "systemd-analyze verify: $said"
said=$(systemd-analyze verify --user --man=no "$root"/usr/lib/systemd/user/*.service 2>&1) || true
if grep -q kvasir <<<"$said"; then fail "systemd-analyze verify --user: $said"; fi
# 0 is no exposure, 10 all of it; most services of a fresh system have more than 9.
for unit in "$root"/usr/lib/systemd/system/*.service; do
  systemd-analyze security --offline=true --threshold=20 --no-pager "$unit" >"$root/security.txt" ||
    fail "$(basename "$unit"): $(tail -1 "$root/security.txt")"
  tail -1 "$root/security.txt"
done
