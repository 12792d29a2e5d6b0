#!/usr/bin/env bash
# job_watch_test.sh PROBE LAUNCHER… : a rank fails in each of the ways that ranks have; the job is gone in time, with the
# right code, and the record names the rank.
set -euo pipefail
probe=$1
shift
launcher=("$@")
failures=0
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect HOW SECONDS CODE PATTERN : of three ranks the last fails. The code is that of the job, PATTERN (extended) is in
# what it says; what the record is to hold comes after that.
expect() {
  local how=$1 limit=$2 code=$3 pattern=$4 status=0 start=$SECONDS fact
  shift 4
  local timeout=0
  [[ $how == stops || $how == loops ]] && timeout=3
  timeout -k 5 60 "${launcher[@]}" 3 "$probe" "$how" "$how" "$timeout" >"$how.log" 2>&1 || status=$?
  local took=$((SECONDS - start))
  [[ $status == "$code" ]] || fail "$how: exit code $status, wanted $code: $(<"$how.log")"
  ((took <= limit)) || fail "$how: gone after $took s, wanted $limit"
  [[ -z $pattern ]] || grep -qE -- "$pattern" "$how.log" || fail "$how: /$pattern/ is not in: $(<"$how.log")"
  local record=$how/first_failure.attempt-000001.json
  for fact in "$@"; do
    grep -qsE -- "$fact" "$record" || fail "$how: /$fact/ is not in the record: $(cat "$record" 2>&1)"
  done
  if ((code != 0 && ${#} == 0)); then fail "$how: nothing is asked of the record"; fi
}

# The limits are ten seconds, after the hang timeout where there is one, and the start of the job.
expect ends 10 0 ""
[[ ! -e ends/first_failure.attempt-000001.json ]] || fail "a job that ended well left a record of a failure"
expect throws 12 3 "error: rank 2: the file of samples is cut" '"rank": 2,' '"exit_code": 3,' 'samples is cut' \
  '"operation": "backward", "unit": 1, "unit_name": "h.6", "step": 20'
expect crashes 12 139 "" '"rank": 2,' '"exit_code": 139,' 'SIGSEGV' '"step": 20'
expect is_killed 12 137 "error: rank [01]: rank 2 .process [0-9]+ on host .*backward of unit 1.* ended without a word" '"rank": 2,' 'ended without a word' '"unit_name": "h.6", "step": 20'
expect exits 12 9 "rank 2 .* ended without a word" '"rank": 2,' 'ended without a word'
# Three seconds without a change, and ten to tell.
expect stops 17 20 "HANG: .*rank 2 on host [^ ]+ is stopped .* in checkpoint save of step 20; ranks 0-1 on host .* in backward of unit 1 'h.6', step 20" \
  '"rank": 2,' '"exit_code": 20,' '"operation": "checkpoint save"' 'HANG'
[[ $(grep -c HANG stops.log) == 1 ]] || fail "the hang is told more than once: $(<stops.log)"
expect loops 17 20 "HANG: .*rank 2 on host [^ ]+ is in reading data of step 20; ranks 0-1 on host .* are in backward" \
  '"rank": 2,' '"exit_code": 20,'
grep -q '"struck": true' loops/where/node-of-rank-0000.attempt-000001.json || fail "no report of where the ranks were"
left=$(pgrep -f "^$probe " || true)
[[ -z $left ]] || fail "processes were left: $left"
[[ -z $(ls /dev/shm | grep '^shoal-' || true) ]] || fail "memory was left: $(ls /dev/shm)"
exit $((failures > 0))
