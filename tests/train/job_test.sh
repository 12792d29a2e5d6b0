#!/usr/bin/env bash
# What a job does besides training, end to end: notes and logs, done, STOP and SAVE, time limits, requeueing through a
# scontrol that only writes down what it is told, no progress, and two jobs on one checkpoint directory.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"
small=("${train[@]}" --data "$mnist" --global-batch-size 60 --log-every 1 --output none)
mkdir tools bare
# What they say else is in scontrol.says and squeue.says, as a script; squeue knows the job to run unless it is cancelled.
for tool in scontrol squeue; do
  printf '#!/bin/sh\necho "%s $*" >>"%s/asked"\n%s\n' $tool "$work" "if [ -e $work/$tool.says ]; then . $work/$tool.says; fi" \
    >tools/$tool
  chmod +x tools/$tool
done
echo 'case "$*" in *%T) cat state ;; esac' >>tools/squeue
echo RUNNING >state
# A machine without Slurm, whatever is installed here.
find ${PATH//:/ } -maxdepth 1 ! -type d ! -name squeue ! -name scontrol -exec ln -sf -t bare {} + 2>/dev/null || true
slurm=(env "PATH=$work/tools:$PATH" SLURM_JOB_ID=107 SLURM_ARRAY_JOB_ID=100 SLURM_ARRAY_TASK_ID=7)

# A field of a record: record 1 run/attempts/000001.json exit_code
field() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\).*/\1/p" "$1"; }
is() { [[ $1 == "$2" ]] || fail "'$1', wanted '$2': $3"; }

# start LOG COMMAND…: in the background; $job is it.
start() {
  : >"$1"  # at once: what an earlier job said there must not be taken for this one's
  "${@:2}" >"$1" 2>&1 &
  job=$!
}
# Until the log has the pattern, for a minute at most.
until_said() {
  local n
  for ((n = 0; n < 1200; ++n)); do
    grep -q -- "$2" "$1" && return
    kill -0 $job 2>/dev/null || break
    sleep 0.05
  done
  fail "no '$2' in $1: $(<"$1")"
}
# ended CODE LOG: the job ends by itself, within a minute.
ended() {
  local status=0 n
  for ((n = 0; n < 1200; ++n)); do kill -0 $job 2>/dev/null && sleep 0.05 || break; done
  kill -9 $job 2>/dev/null || true
  wait $job || status=$?
  [[ $status == "$1" ]] || fail "exit code $status, wanted $1: $(<"$2")"
}

# Notes of a whole run on two ranks. SAVE is followed while it runs.
start whole.log "${launcher[@]}" 2 "${small[@]}" --max-steps 40 --checkpoint-every 0 --checkpoint-dir whole
until_said whole.log "step 3 "
touch whole/run/SAVE || true
ended 0 whole.log
[[ ! -e whole/run/SAVE ]] || fail "SAVE is still there"
[[ $(ls -d whole/step_* | wc -l) == 2 ]] || fail "SAVE saved nothing: $(ls whole) $(<whole.log)"
is "$(field whole/run/attempts/000001.json state)" finished "record"
is "$(field whole/run/attempts/000001.json end_step)" 40 "record"
is "$(field whole/run/status.json total_steps)" 40 "status"
for rank in 0 1; do
  grep -q "info: step 40 " whole/run/logs/rank-000$rank.attempt-000001.log || fail "no log of rank $rank"
done
grep -q "rank 1:" whole.log && fail "rank 1 speaks on the console: $(<whole.log)"

# The same command has nothing to do, and leaves no trace; asked for more, it goes on as the next attempt.
expect 0 "nothing left to train: attempt 1 came to the end after step 40" "${small[@]}" --max-steps 40 --checkpoint-dir whole
[[ ! -e whole/attempts/000002 ]] || fail "an attempt was begun after the end"
expect 0 "resumed from whole/step_00000040" "${small[@]}" --max-steps 42 --checkpoint-dir whole
is "$(field whole/run/attempts/000002.json start_step)" 40 "record"
grep -q "step 40 " whole/run/logs/rank-0000.attempt-000001.log || fail "the first attempt's log is gone"
expect 2 "was trained with seed 1, not 2" "${small[@]}" --max-steps 42 --checkpoint-dir whole --seed 2

# STOP ends the run, and every later link of a chain at once.
start stop.log "${small[@]}" --checkpoint-dir stop
until_said stop.log "step 3 "
touch stop/run/STOP || true
ended 75 stop.log
grep -q "stopped by the file STOP" stop.log || fail "$(<stop.log)"
expect 75 "STOP is there: nothing is trained; remove it" "${small[@]}" --checkpoint-dir stop
[[ ! -e stop/run/attempts/000002.json ]] || fail "STOP was passed"
rm stop/run/STOP
expect 0 "resumed from stop/step_" "${small[@]}" --checkpoint-dir stop --epochs 1

# A signal that comes again and again until the end changes nothing about it, nor about the exit code.
start repeated.log "${launcher[@]}" 2 "${small[@]}" --checkpoint-dir repeated --epochs 1000
until_said repeated.log "step 3 "
mapfile -t ranks < <(pgrep -P $job shoal-train)
((${#ranks[@]} == 2)) || fail "no ranks of $job"
while kill -USR1 "${ranks[@]}" 2>/dev/null; do sleep 0.002; done
ended 75 repeated.log
grep -q "stopped by SIGUSR1" repeated.log || fail "$(<repeated.log)"

# A time limit of its own: saved and stopped before it strikes, by both ranks.
began=$SECONDS
start limit.log "${launcher[@]}" 2 "${small[@]}" --checkpoint-dir limit --epochs 1000 --time-limit 0:20 --time-margin 8
ended 75 limit.log
((SECONDS - began <= 20)) || fail "it took $((SECONDS - began)) s: $(<limit.log)"
grep -q "the time limit strikes in .* (by --time-limit)" limit.log || fail "$(<limit.log)"
grep -q "stopped by the time limit" limit.log || fail "$(<limit.log)"

# The limit that squeue tells of, and the job back in the queue by the name of its task.
echo 'case "$*" in *%L) echo 0:15 ;; esac' >squeue.says
start deadline.log "${slurm[@]}" "${small[@]}" --checkpoint-dir deadline --epochs 1000 --time-margin 8 --requeue on-deadline
ended 75 deadline.log
is "$(cat asked)" "squeue -h -j 100_7 -o %L"$'\n'"squeue -h -j 100_7 -o %T"$'\n'"scontrol requeue 100_7" "$(<deadline.log)"
is "$(field deadline/run/attempts/000001.json requeued)" true "record"
is "$(field deadline/run/attempts/000001.json chain)" 100 "record"
# SLURM_JOB_END_TIME needs no squeue.
rm asked
start end_time.log "${slurm[@]}" SLURM_JOB_END_TIME=$(($(date +%s) + 15)) "${small[@]}" --checkpoint-dir deadline \
  --epochs 1000 --time-margin 8 --requeue on-signal
ended 75 end_time.log
[[ ! -e asked ]] || fail "asked: $(<asked)"
grep -q "(by SLURM_JOB_END_TIME)" end_time.log || fail "$(<end_time.log)"

# By a signal; a scontrol that fails is an error with its words, and the run is saved all the same.
signalled() { # LOG ENVIRONMENT… -- OPTIONS…
  start "$1" "${@:2}"
  until_said "$1" "step [0-9]* "
  kill -USR1 $job
  ended 75 "$1"
}
rm squeue.says
echo 'echo "slurm_requeue error: Requested operation is presently disabled" >&2; exit 1' >scontrol.says
signalled refused.log "${slurm[@]}" "${small[@]}" --checkpoint-dir signal --requeue on-signal
grep -q "error: rank 0: scontrol requeue 100_7: exit code 1: slurm_requeue error: Requested operation" refused.log ||
  fail "$(<refused.log)"
is "$(field signal/run/attempts/000001.json requeued)" false "record"
rm scontrol.says
signalled absent.log env PATH="$work/bare" SLURM_JOB_ID=107 \
  "${small[@]}" --checkpoint-dir signal --requeue on-signal
grep -q "error: rank 0: squeue -h -j 107 -o %T: cannot be started: No such file" absent.log || fail "$(<absent.log)"
grep -q "no time limit is known from Slurm: squeue .*: cannot be started: No such file" absent.log || fail "$(<absent.log)"
rm -f asked
signalled again.log "${slurm[@]}" "${small[@]}" --checkpoint-dir signal --requeue on-signal,on-deadline --max-requeues 1
grep -q "scontrol requeue 100_7" asked || fail "not requeued: $(<again.log)"
rm asked
signalled capped.log "${slurm[@]}" "${small[@]}" --checkpoint-dir signal --requeue on-signal --max-requeues 1
grep -q "was requeued 1 times, and --max-requeues is 1" capped.log || fail "$(<capped.log)"
! grep -q scontrol asked || fail "requeued beyond the cap"
# scancel tells the ranks of it by the signal of preemption: such a job does not come back.
echo COMPLETING >state
signalled cancelled.log "${slurm[@]}" "${small[@]}" --checkpoint-dir signal --requeue on-signal
! grep -q scontrol asked || fail "a cancelled job was requeued"
grep -q "is being ended from outside (squeue: 'COMPLETING')" cancelled.log || fail "$(<cancelled.log)"
signalled never.log "${slurm[@]}" "${small[@]}" --checkpoint-dir signal
! grep -q scontrol asked || fail "requeued without being told"

# Killed before anything was saved, again and again, by whoever restarts the job: the third time is the last.
for attempt in 1 2; do
  start killed.log "${slurm[@]}" "${small[@]}" --checkpoint-dir killed --checkpoint-every 0
  until_said killed.log "step 1 "
  kill -9 $job
  ended 137 killed.log
done
expect 21 "the last 2 attempts of job 100 came no further than step 0" "${slurm[@]}" "${small[@]}" \
  --checkpoint-dir killed --max-no-progress 2 --requeue on-signal
is "$(field killed/run/attempts/000003.json state)" no_progress "record"
expect 0 "step 2 " env SLURM_JOB_ID=200 "${small[@]}" --checkpoint-dir killed --max-no-progress 2 --max-steps 2

# Two jobs with notes of their own, one checkpoint directory: the older one writes no more.
start old.log "${small[@]}" --checkpoint-dir shared --run-dir old --epochs 1000 --checkpoint-every 5
until_said old.log "saved shared/step_00000005"
old_job=$job
expect 0 "resumed from shared/step_" "${small[@]}" --checkpoint-dir shared --run-dir new --max-steps 60
before=$(cd shared && find . -type f -print0 | sort -z | xargs -0 sha256sum)
job=$old_job
ended 22 old.log
grep -q "error: attempt 1 is superseded: attempt 2 (host .*) has taken over shared" old.log || fail "$(<old.log)"
is "$(field old/attempts/000001.json state)" superseded "record"
is "$(field new/attempts/000002.json state)" finished "record"
is "$(cd shared && find . -type f -print0 | sort -z | xargs -0 sha256sum)" "$before" "the old job changed something"
expect 0 "" "$programs/shoal" ckpt verify shared
exit $((failures > 0))
