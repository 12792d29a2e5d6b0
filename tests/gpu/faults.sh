#!/usr/bin/env bash
# What goes wrong on GPUs, and whether it is told and ended well: faults.sh BIN [GPUS]
# A rank killed in the middle of a step, a rank that never comes to the start, more ranks than GPUs, models that differ,
# a model that does not fit. Prints one line a check; exit code 1 where one fails, 77 where there are not two GPUs.
set -uo pipefail
gpus=${2:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')}
if [[ $gpus -lt 2 ]]; then
  echo "two GPUs are wanted here: nothing of this was run"
  exit 77
fi
bin=$(realpath "$1")
export NCCL_NVLS_ENABLE=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
head -c 4000000 /dev/urandom | od -An -v -tu1 | tr -s ' \n' ' ' | head -c 3000000 >"$work/text"
gpt=(train --model gpt2-tiny --tokenizer bytes --data "$work/text" --sequence-length 256 --batch-size 4
     --checkpoint-dir none --device cuda)

verdict() {  # verdict NAME CONDITION: the last command's log is shown where the condition does not hold
  if eval "$2"; then echo "ok      $1"; else echo "FAILED  $1"; tail -n 20 "$work/log"; failed=1; fi
}

# strike SIGNAL OPTIONS…: starts a job without end, sends one of its ranks the signal in the middle of its steps, and waits
# for the job; sets victim, the exit code rc and the time from the signal to the end, ms.
strike() {
  setsid mpirun --bind-to none -n "$gpus" "$bin/shoal" "${gpt[@]}" --max-steps 1000000 --log-every 1 "${@:2}" \
    >"$work/log" 2>&1 &
  local job=$! start
  for _ in $(seq 600); do grep -q 'step 20 ' "$work/log" && break; kill -0 $job 2>/dev/null || break; sleep 0.1; done
  victim=$(pgrep -x shoal-train | tail -n 1)
  start=$(date +%s%N)
  kill -"$1" "$victim"
  wait $job; rc=$?
  ms=$((($(date +%s%N) - start) / 1000000))
}

# Killed in the middle: everybody is gone within ten seconds.
strike KILL
for _ in $(seq 70); do left=$(pgrep -xc shoal-train); [[ $left -eq 0 ]] && break; sleep 0.1; ((ms += 100)); done
verdict "a rank killed in a step ends the others ($ms ms, exit code $rc)" "[[ $rc -ne 0 && $left -eq 0 && $ms -lt 10000 ]]"

# A rank that stops (SIGSTOP stands for a node that hangs) is named by the others when their patience ends.
strike STOP --collective-timeout 5
kill -KILL "$victim" 2>/dev/null
verdict "a rank that hangs ends the job within its time limit ($ms ms, exit code $rc)" \
  "[[ $rc -ne 0 && $ms -lt 25000 ]] && grep -qi 'collective-timeout' '$work/log'"
grep -m1 -i 'collective-timeout' "$work/log" | cut -c1-300

run() { timeout 120 mpirun --bind-to none -n "$1" "$bin/shoal" "${@:2}" >"$work/log" 2>&1; rc=$?; }
one_error() { [[ $(grep -c 'error:' "$work/log") -eq 1 ]]; }

run $((gpus + 1)) "${gpt[@]}" --max-steps 2
verdict "more ranks than GPUs (exit code $rc)" "[[ $rc -eq 7 ]] && one_error"
grep -m1 'error:' "$work/log" | cut -c1-300

CUDA_VISIBLE_DEVICES=0 run "$gpus" "${gpt[@]}" --max-steps 2
verdict "all ranks on one GPU (exit code $rc)" "[[ $rc -eq 7 ]] && one_error"
grep -m1 'error:' "$work/log" | cut -c1-400

run "$gpus" train --model gpt2-1.5b --data "$work/text" --tokenizer bytes --batch-size 2048 --param-dtype bf16 --max-steps 2 \
  --checkpoint-dir none --device cuda
verdict "a batch that does not fit (exit code $rc)" "[[ $rc -eq 7 ]] && grep -q 'batch-size' '$work/log'"
grep -m3 -A8 'error:' "$work/log" | cut -c1-400
exit $failed
