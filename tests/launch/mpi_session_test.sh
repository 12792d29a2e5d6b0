#!/usr/bin/env bash
# mpi_session_test.sh PROBE LAUNCHER… : starts the probe alone and on several ranks, in each of its ways.
set -euo pipefail
probe=$1
shift
failures=0

# expect WHAT EXIT_CODE LINES COMMAND… : LINES is the sorted standard output.
expect() {
  local what=$1 code=$2 lines=$3 output status=0
  shift 3
  output=$(timeout 60 "$@" 2>stderr.txt | sort; exit "${PIPESTATUS[0]}") || status=$?
  if [[ $status != "$code" || $output != "$lines" ]]; then
    echo "FAILED: $what: exit code $status (wanted $code), output '$output' (wanted '$lines'), errors:"
    cat stderr.txt
    failures=$((failures + 1))
  fi
}

cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
three=$'0 3 0 3\n1 3 1 3\n2 3 2 3'
expect "one rank without a launcher" 0 "0 1 0 1" "$probe" placement
expect "three ranks" 0 "$three" "$@" 3 "$probe" placement
expect "an error while alone" 4 "0 1 0 1" "$probe" throw
expect "an error before MPI is started" 3 "" "$probe" abort
# Within the time limit: the other ranks wait in a barrier that the failed one never reaches.
expect "an error on the last of three ranks" 4 "$three" "$@" 3 "$probe" throw
grep -q '^error: planned$' stderr.txt || { echo "FAILED: the error's line is lost" && failures=$((failures + 1)); }
exit $((failures > 0))
