#!/usr/bin/env bash
# driver_test.sh SHOAL VERSION: copies the driver beside a few stand-ins for verbs and calls them through it.
set -euo pipefail
driver=$1 version=$2
failures=0
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

# expect EXIT_CODE PATTERN ARGUMENT…: PATTERN (extended) must be found in what the driver prints.
expect() {
  local code=$1 pattern=$2 output status=0
  shift 2
  output=$(./bin/shoal "$@" 2>&1) || status=$?
  if [[ $status != "$code" ]] || ! grep -qE -- "$pattern" <<<"$output"; then
    echo "FAILED: shoal $*: exit code $status (wanted $code); wanted /$pattern/ in: $output"
    failures=$((failures + 1))
  fi
}

mkdir -p bin libexec/shoal
cp "$driver" bin/shoal
printf '#!/bin/sh\necho "train got $# arguments: $*"\nexit 75\n' >bin/shoal-train
printf '#!/bin/sh\necho "hidden got $*"\n' >libexec/shoal/shoal-hidden
printf 'no program\n' >bin/shoal-readme
chmod +x bin/shoal-train libexec/shoal/shoal-hidden

expect 0 "^shoal $version" --version
expect 0 "^  train +train a model" --help
expect 0 "^  hidden" --help
expect 75 "^train got 3 arguments: --lr 1 a b$" train --lr 1 "a b"
expect 0 "^hidden got x$" hidden x
expect 75 "^train got 1 arguments: --help$" help train
expect 2 "no verb 'trian'; did you mean 'train'\?" trian
expect 2 "no verb 'frobnicate'; 'shoal --help' lists the verbs" frobnicate
expect 2 "no verb 'readme'" readme
expect 2 "no verb '../bin/shoal-train'" ../bin/shoal-train
expect 2 "^Usage: shoal VERB"

ln -s "$PWD/bin/shoal" link && ./link --help | grep -q '^  train ' || { echo "FAILED: by a link" && failures=1; }
if readelf -d "$driver" | grep -E 'NEEDED.*(torch|mpi|hdf5)'; then
  echo "FAILED: the driver is linked to what verbs alone need"
  failures=$((failures + 1))
fi
exit $((failures > 0))
