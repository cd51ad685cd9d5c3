#!/usr/bin/env bash
# Installs the Debian packages that building and testing Kvasir needs. Idempotent: does nothing, and
# needs no network and no rights, when all of them are there.
#   scripts/install-packages.sh [build|test|worker-arm64]     default: test, which includes build
# worker-arm64 is for a worker that runs on AArch64; it adds that architecture to dpkg's.
set -euo pipefail

build=(ca-certificates g++ make cmake ninja-build ccache pkg-config
  libexpected-dev libfmt-dev libpcre2-dev libutf8proc-dev libssl-dev libsodium-dev liburing-dev
  nlohmann-json3-dev libcli11-dev libboost1.81-dev libcurl4-openssl-dev
  libtomlplusplus-dev)
# Sanitizer runtimes come with g++; clang is for the fuzzers and the linter.
# python3-jinja2: what chat templates are compared with.
test=(python3-jinja2 libgtest-dev libgmock-dev libbenchmark-dev clang-14 libclang-rt-14-dev clang-format clang-tidy
  cppcheck git g++-aarch64-linux-gnu qemu-user-static emscripten)
# Completions are tried in the shells they are for.
test+=(zsh fish)
# For other people's GGUF tools. A Node.js from elsewhere brings an npm of its own and refuses Debian's.
command -v node >/dev/null || test+=(nodejs)
command -v npm >/dev/null || test+=(npm)
# Header-only libraries are those of this machine.
worker_arm64=(g++-aarch64-linux-gnu qemu-user-static libsodium-dev:arm64 libssl-dev:arm64)

case "${1:-test}" in
  build) wanted=("${build[@]}") ;;
  test) wanted=("${build[@]}" "${test[@]}" "${worker_arm64[@]}") ;;
  worker-arm64) wanted=("${build[@]}" "${worker_arm64[@]}") ;;
  *) echo "usage: $0 [build|test|worker-arm64]" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  # One line for each architecture that a package is there for.
  dpkg-query -W -f='${db:Status-Status} ${Architecture}\n' "$package" 2>/dev/null |
    grep -xE "installed ($(dpkg --print-architecture)|all|${package##*:})" >/dev/null || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "error: these packages are missing and neither root nor sudo is at hand: ${missing[*]}" >&2
    echo "hint:  as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
case "${missing[*]}" in
  *:arm64*) "${as_root[@]}" dpkg --add-architecture arm64 ;;
esac
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" >/dev/null
