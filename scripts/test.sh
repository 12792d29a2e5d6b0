#!/usr/bin/env bash
# Sets up, builds and runs the tests. The last lines are CTest's summary; the exit code is CTest's.
set -euo pipefail
program="test"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/common.sh

usage() {
  cat <<'USAGE'
Usage: scripts/test.sh [--no-interop] [--asan] [-j N] [CTest options]

  --no-interop  leaves out Python's PyTorch (4.7 GB); the tests that compare with it are shown as skipped
  --asan        runs the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer instead (build/asan)
  -j N          builds and tests with N cores (default: all)
  --help        this text

Everything else goes to CTest, e.g.: scripts/test.sh -L unit        scripts/test.sh -R shard
USAGE
}

preset=release jobs=$(nproc) interop=yes setup_options=() ctest_options=()
while (($# > 0)); do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --no-interop) interop=no ;;
    --asan) preset=asan setup_options=(--unit-tests) ;;
    -j) (($# > 1)) || { usage >&2 && exit 2; }; jobs=$2; shift ;;
    -j*) jobs=${1#-j} ;;
    *) ctest_options+=("$1") ;;
  esac
  shift
done

[[ $interop == no || $preset == asan ]] || setup_options+=(--interop)
scripts/setup.sh --preset "$preset" -j "$jobs" "${setup_options[@]}"
say "running the tests"
ctest --preset "$preset" -j "$jobs" "${ctest_options[@]}"
