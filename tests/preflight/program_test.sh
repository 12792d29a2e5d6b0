#!/usr/bin/env bash
# program_test.sh PREFLIGHT LAUNCHER… ("mpiexec … -n"): the program on two ranks of this machine, well and with faults.
set -euo pipefail
program=$1
shift
bare=("$@") launcher=(timeout 100 "$@")
failures=0
work=$(mktemp -d)
cd "$work"
mounts=()
clean_up() {
  cd /
  for mount in "${mounts[@]}"; do umount "$mount" || true; done
  rm -rf "$work"
}
trap clean_up EXIT

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect EXIT_CODE COMMAND…: its output is left in $output.
expect() {
  local code=$1 status=0
  shift
  output=$("$@" 2>&1) || status=$?
  [[ $status == "$code" ]] || fail "exit code $status, wanted $code: $*"$'\n'"$output"
}
says() { grep -qE -- "$1" <<<"$output" || fail "/$1/ is not in: $output"; }
on_two() { "${launcher[@]}" 2 "$program" "$@"; }
small=(--size 2 --device cpu)

# All is well: a line a check, JSON that says the same, and nothing is left behind.
expect 0 on_two "${small[@]}" --checkpoint-dir new/ck --run-dir new/run --checkpoint-gib 0.001 --json report.json
for check in environment limit.open-files clocks mpi.latency mpi.bandwidth fs.make fs.shared fs.exclusive fs.write \
  fs.read fs.rename fs.space run.make run.shared; do says "^$check +(ok|warn) "; done
says "^preflight of 2 ranks on 1 hosts in [0-9.]+ s: [0-9]+ checks, 0 failed"
! grep -q "exclude" <<<"$output" || fail "a host is blamed: $output"
[[ ! -e new ]] || fail "left behind: $(find new)"
grep -q '"exit_code": 0' report.json && grep -q '"check": "mpi.bandwidth"' report.json || fail "JSON: $(<report.json)"

expect 0 on_two --help
says "--checkpoint-dir DIR"
expect 2 on_two --size many
says "error: rank 0: shoal preflight: .*--size"
expect 2 on_two --timeout 0
says "error: rank 0: --timeout 0 is not between 1 and"
expect 5 on_two "${small[@]}" --json none/report.json
says "error: rank 0: --json none/report.json: cannot .*none"
expect 0 env SHOAL_CHECKPOINT_DIR=from-environment "${launcher[@]}" 2 "$program" "${small[@]}"
says "^fs.make +ok +from-environment"

# One name, two directories.
mkdir a b
expect 5 "${launcher[@]}" 1 env -C a "$program" "${small[@]}" --checkpoint-dir ck : \
  "${bare[@]: -1}" 1 env -C b "$program" "${small[@]}" --checkpoint-dir ck
says "^fs.shared +fail"
says "^    fail .* \(rank 1\): what rank 0 on .* wrote to ck is not seen within 10 s: the directory is not one for all"
[[ -z $(ls a b | grep ck) ]] || fail "left behind: $(find a b)"

# Too few files, and a variable that hurts.
expect 0 bash -c 'ulimit -n 1024; exec "$@"' - "${launcher[@]}" 2 env NCCL_P2P_DISABLE=1 "$program" "${small[@]}"
says "^limit.open-files +warn"
says "^    warn .* \(ranks 0-1\): ulimit -n is 1024: connections of MPI and NCCL take files: 'ulimit -n 65536'"
says "^    warn .* \(ranks 0-1\): NCCL_P2P_DISABLE=1: GPUs of one node"

# More than there is room for, and a directory in which nothing can be made.
expect 5 on_two "${small[@]}" --checkpoint-dir ck --checkpoint-gib 1e9
says "^    fail .* \(ranks 0-1\): .* GiB free.*: the checkpoints need 3e\+09 GiB"
expect 5 on_two "${small[@]}" --checkpoint-dir /proc/none/ck
says "^    fail .* \(rank 0\): cannot make .*/proc/none"
if mkdir full fixed && mount -t tmpfs -o size=1m none full 2>/dev/null; then
  mounts+=("$work/full")
  expect 5 on_two "${small[@]}" --checkpoint-dir full/ck
  says "^    fail .*: cannot write .*full/ck/.*No space left on device; free some space"
  [[ -z $(ls -A full) ]] || fail "left behind: $(find full)"
  mount -t tmpfs -o ro none fixed && mounts+=("$work/fixed")
  expect 5 on_two "${small[@]}" --checkpoint-dir fixed
  says "^    fail .* \(rank 0\): cannot make a folder in .*fixed: Read-only file system; choose a place"
else
  echo "no tmpfs can be mounted here: the full and the read-only file system were left out"
fi

# A rank that stands still is named, and its host; the others end in time, and nothing of theirs is left.
"${bare[@]}" 2 "$program" --size 512 --checkpoint-dir ck --timeout 8 --device cpu >log 2>&1 &
job=$!
until [[ -e $(echo ck/.shoal*/data-1) ]] || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
# Under launchers whose ranks are no children of their own there is nobody to hold.
rank=$(pgrep -P $job | tail -n 1 || true)
[[ -n $rank ]] && kill -STOP "$rank" 2>/dev/null || kill $job
status=0
wait $job || status=$?
if [[ -n $rank ]]; then
  output=$(<log)
  [[ $status == 6 ]] || fail "a rank stood still, and the job ended with $status: $output"
  says "^ranks +fail .*rank [01] on host .* did not come"
  says "^    fail .* \(rank [01]\): did not come in time"
fi
[[ ! -e ck ]] || rm -rf ck

# A signal in the middle of the writing ends all, and nothing is left. It goes to the ranks themselves, since mpirun sends
# SIGKILL a second later, which on a busy machine may be too soon.
"${bare[@]}" 2 "$program" --size 1024 --checkpoint-dir ck --device cpu >log 2>&1 &
job=$!
until [[ -e $(echo ck/.shoal*/data-1) ]] || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
ranks=$(pgrep -P $job || true)
kill -TERM ${ranks:-$job}
wait $job && fail "a signal, and the job ended with 0: $(<log)"
if [[ -n $ranks ]]; then
  output=$(<log)
  says "error: rank [01]: stopped by SIGTERM in the check fs.write of ck"
  [[ ! -e ck ]] || fail "left behind after a signal: $(find ck)"
fi
exit $((failures > 0))
