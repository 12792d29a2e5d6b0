#!/usr/bin/env bash
# Shoal's main job, from nothing: sets up, trains on 2 ranks, is stopped in the middle by a signal, goes on with 3 ranks,
# and turns the sharded checkpoint into single files.
set -euo pipefail
program=demo
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/common.sh

usage() {
  cat <<'USAGE'
Usage: scripts/demo.sh [--data DIR] [--epochs N] [FOLDER]

  --data DIR   MNIST as idx files, plain or .gz (default: the 5,000 + 1,000 digits in tests/data/mnist)
  --epochs N   default 6
  FOLDER       for checkpoints, logs and results; must not exist yet (default: build/demo, made anew each time)
USAGE
}

data=tests/data/mnist epochs=6 folder=
while (($# > 0)); do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --data) (($# > 1)) || { usage >&2 && exit 2; }; data=$2; shift ;;
    --epochs) (($# > 1)) || { usage >&2 && exit 2; }; epochs=$2; shift ;;
    -*) echo "demo: error: unknown option '$1'" >&2 && usage >&2 && exit 2 ;;
    *) folder=$1 ;;
  esac
  shift
done
if [[ -z $folder ]]; then
  folder=build/demo
  rm -rf "$folder"
elif [[ -e $folder ]]; then
  die "'$folder' exists: give a folder that does not, so that nothing in it is lost" 2
fi

scripts/setup.sh --programs
prepare_mpi
export OMP_NUM_THREADS=1
shoal=build/release/bin/shoal
mkdir -p "$folder"
launch=(mpirun)
if mpirun --version 2>/dev/null | grep -qiE 'open[ -]?(mpi|rte)'; then
  launch+=(--oversubscribe --bind-to none)
fi
train=("$shoal" train --model mnist-net --data "$data" --epochs "$epochs" --batch-size 64
  --checkpoint-dir "$folder/checkpoints" --checkpoint-every 20 --resume auto)

# Ranks are processes of this machine; the signal goes to the launcher, which passes it on to each of them.
train_until_stopped() {
  local ranks=$1 step=$2 log=$folder/train-$1-ranks.log status=0
  say "training on $ranks ranks, to be stopped after step $step; the log is $log"
  echo "+ ${launch[*]} -n $ranks ${train[*]}"
  "${launch[@]}" -n "$ranks" "${train[@]}" >"$log" 2>&1 &
  local job=$!
  until grep -qE "step +$step\b" "$log"; do
    kill -0 "$job" 2>/dev/null || break
    sleep 0.1
  done
  kill -USR1 "$job" 2>/dev/null || true
  wait "$job" || status=$?
  ((status == 75)) || failed "the job ended with exit code $status, not with 75 (stopped after saving)" "$log"
  show "$log"
  say "the job saved a checkpoint and ended with exit code 75"
}

train_to_the_end() {
  local ranks=$1 log=$folder/train-$1-ranks.log
  say "going on with $ranks ranks; the log is $log"
  echo "+ ${launch[*]} -n $ranks ${train[*]}"
  "${launch[@]}" -n "$ranks" "${train[@]}" >"$log" 2>&1 || failed "training ended with exit code $?" "$log"
  show "$log"
}

# The results of a log, without what the launcher says about exit codes that are not 0.
show() { grep -E '^(epoch|test accuracy|stopped|wrote|run time)' "$1" | sed 's/^/    /'; }

failed() {
  tail -n 20 "$2" | sed 's/^/    /' >&2
  die "$1; the log is $2"
}

consolidate() {
  echo "+ $shoal ckpt consolidate $folder/checkpoints --output $1"
  "$shoal" ckpt consolidate "$folder/checkpoints" --output "$1"
}

start=$SECONDS
train_until_stopped 2 60
train_to_the_end 3
echo "+ $shoal ckpt list $folder/checkpoints"
"$shoal" ckpt list "$folder/checkpoints"
consolidate "$folder/model.h5"
consolidate "$folder/model.pt"
if [[ -n $(command -v h5ls) ]]; then
  echo "+ h5ls -r $folder/model.h5"
  h5ls -r "$folder/model.h5"
fi
say "done in $((SECONDS - start)) s; results are in $folder"
grep '^test accuracy' "$folder/train-3-ranks.log" | tail -n 1
