#!/usr/bin/env bash
# stall_test.sh PROBE LAUNCHER… : a rank stops in each phase of a save or restore. The others end within the time limit,
# with the exit code for communication and a line that names it and the phase.
set -euo pipefail
probe=$1
shift
failures=0
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT

# expect POINT RANK PHASE FOUND LAUNCHER… : FOUND is the newest complete checkpoint afterwards.
expect() {
  local point=$1 rank=$2 phase=$3 found=$4 status=0
  shift 4
  rm -rf ckpt
  timeout 30 "$@" 3 "$probe" ckpt "$point" "$rank" >/dev/null 2>errors.txt || status=$?
  local newest
  newest=$(basename "$(ls -d ckpt/step_???????? | tail -n 1)")
  if [[ $status != 6 || $newest != "$found" ]] || {
    ! grep -Eq "waited 0.7 s in the $phase; rank $rank on host .* did not come" errors.txt &&
    ! grep -Eq "rank $rank on host .* has got no further for 0.7 s in the $phase:" errors.txt
  }; then
    echo "FAILED: point $point, rank $rank: exit code $status (wanted 6), found $newest (wanted $found), errors:"
    cat errors.txt
    failures=$((failures + 1))
  fi
}

expect 0 0 "saving of checkpoint step 20: rank 0 makes its directory" step_00000010 "$@"           # begin_allowed
expect 3 2 "saving of checkpoint step 20: every rank writes its file" step_00000010 "$@"           # shard_half_written
expect 7 0 "saving of checkpoint step 20: rank 0 commits it and tidies up" step_00000010 "$@"      # committed
expect 11 0 "saving of checkpoint step 20: rank 0 commits it and tidies up" step_00000020 "$@"     # latest_staged
expect read 2 "restoring of 'auto': every rank reads its part" step_00000020 "$@"
expect restore 1 "restoring of 'auto'" step_00000020 "$@"

# All ranks write one file at once, where MPI-IO has no time limit: the watch ends the job.
if [[ $SHOAL_WITH_MPIO == ON ]]; then
  rm -rf ckpt
  status=0
  timeout 30 "$@" 3 "$probe" ckpt export 2 >/dev/null 2>errors.txt || status=$?
  if [[ $status != 20 || -e ckpt/by_all.h5 ]] || ! grep -q "HANG: no progress for" errors.txt; then
    echo "FAILED: a rank stopped while all write one file: exit code $status (wanted 20), errors:"
    cat errors.txt
    failures=$((failures + 1))
  fi
fi
exit $((failures > 0))
