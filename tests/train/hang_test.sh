#!/usr/bin/env bash
# Ranks of a training job that are stopped and killed from outside: who is named, with what code the job ends and when,
# and what the next attempt makes of it.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"
small=("${train[@]}" --data "$mnist" --global-batch-size 60 --log-every 1 --checkpoint-dir ck --checkpoint-every 5)
records=ck/run
trap 'kill -CONT $(pgrep -P ${job:-0}) 2>/dev/null || true; kill -KILL ${job:-} $(pgrep -P ${job:-0}) 2>/dev/null || true; cd / && rm -rf "$work"' EXIT

# strike SIGNAL NUMBER LOG ARGUMENT… : three ranks train; once they have come some steps far, the first NUMBER of them
# get the signal. Leaves the job's exit code in $status and the seconds that it took to end in $took.
strike() {
  local signal=$1 number=$2 log=$3 since
  shift 3
  status=0
  timeout -k 5 120 "${launcher[@]}" 3 "${small[@]}" --max-steps 100000 "$@" >"$log" 2>&1 &
  job=$!
  local children=()
  until [[ $(grep -cE "step [0-9]+ " "$log") -ge 8 ]] || ! kill -0 $job 2>/dev/null; do sleep 0.1; done
  # The launcher is a child of timeout, and the ranks are the launcher's.
  mapfile -t children < <(pgrep -P "$(pgrep -P $job | head -n 1)" shoal-train || true)
  if [[ ${#children[@]} != 3 ]]; then
    echo "the ranks are no children of this launcher: nobody to strike"
    exit 77
  fi
  since=$(date +%s)
  kill "-$signal" "${children[@]:0:$number}"
  wait $job || status=$?
  took=$(($(date +%s) - since))
}

# A rank that stands still.
strike STOP 1 stopped.log --hang-timeout 4
[[ $status == 20 ]] || fail "a rank was stopped, and the exit code is $status: $(<stopped.log)"
((took <= 14)) || fail "a rank was stopped, and the job stood for $took s"
[[ $(grep -c HANG stopped.log) == 1 ]] || fail "the hang is to be told once: $(<stopped.log)"
grep -qE "HANG: no progress for .*rank [0-2] on host [^ ]+ is stopped .*; ranks? [0-2]([,-][0-2])? on host " stopped.log ||
  fail "the stopped rank is not named: $(grep HANG stopped.log)"
record=$records/first_failure.attempt-000001.json
rank=$(grep -oE "rank [0-2] on host [^ ]+ is stopped" stopped.log | cut -d' ' -f2)
grep -qs "\"rank\": $rank," $record && grep -qs '"exit_code": 20,' $record || fail "the record: $(cat $record 2>&1)"
expect 0 "failed" "$programs/shoal" status ck
grep -qE "exit code 20|HANG" <<<"$output" || fail "shoal status does not tell of the hang: $output"

# One that is killed, by the system for its use of memory, say.
strike KILL 1 killed.log
[[ $status == 137 ]] || fail "a rank was killed, and the exit code is $status: $(<killed.log)"
((took <= 10)) || fail "a rank was killed, and the job was there for $took s more"
grep -q "resumed from ck/step_" killed.log || fail "the second attempt began anew: $(<killed.log)"
record=$records/first_failure.attempt-000002.json
grep -qs "ended without a word" $record || fail "nobody told of the killed rank: $(cat $record 2>&1; cat killed.log)"

# All of them at once, as Slurm does: at the latest the next attempt says what they were at.
strike KILL 3 all.log
[[ $status == 137 ]] || fail "all ranks were killed, and the exit code is $status: $(<all.log)"
expect 0 "resumed from ck/step_" on_ranks 3 "${small[@]}" --max-steps 1
record=$records/first_failure.attempt-000003.json
grep -qsE "ended without a word|left no word of its end" $record || fail "nobody told of attempt 3: $(cat $record 2>&1)"
[[ ! -e $records/first_failure.attempt-000004.json ]] || fail "an attempt that ended well has a record of a failure"
exit $((failures > 0))
