#!/usr/bin/env bash
# What --dry-run prints is a file for --config that means the same, and shows placement, groups and units.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"
text=$mnist/../text

# same RANKS OPTION…: the dry run's output, taken as --config, gives the same output.
same() {
  local ranks=$1
  shift
  on_ranks "$ranks" "$programs/shoal" train "$@" --dry-run >job.cfg 2>log || fail "dry run of $*"$'\n'"$(cat log)"
  on_ranks "$ranks" "$programs/shoal" train --config job.cfg --dry-run >again.cfg 2>log ||
    fail "--config of what $* printed"$'\n'"$(cat log)"
  cmp job.cfg again.cfg || fail "$*"$'\n'"$(diff job.cfg again.cfg)"
}

# has PATTERN: in the last dry run.
has() { grep -qE -- "$1" job.cfg || fail "no /$1/ in $(cat job.cfg)"; }

same 3 --model mnist-net --data "$mnist" --batch-size 5 --accumulate 3 --checkpoint-dir ck
has '^# placement: 3 ranks on 1 node$'
has '^#   1 x 3 ranks \(replicate x shard\)'
has '^wrap = size:20000$'
has '^global-batch-size = 45$'
has '^# .*conv1'
has '^# memory of a rank: [0-9.]+ MiB, [0-9.]+ of them activations'
has '^# dry run: everything is in order; nothing was trained or written$'
same 1 --model gpt2-tiny --data "$text" --tokenizer bytes --vocab-size 256 --layers 2 --sequence-length 64 --max-steps 9 \
  --global-batch-size 9 --accumulate 4 --param-group '**.bias:lr-scale=0.5' --param-group '**.wte.*:weight-decay=0' \
  --no-deferred-init --checkpoint-dir none --allow-missing 'lm_head.*' --rename 'old.*=new.*' --rename 'a=b'
has '^rename = old\.\*=new\.\*$'
has '^allow-missing = lm_head\.\*$'
has '^# memory of a rank: [0-9.]+ MiB without activations \(with --no-deferred-init'
has '^param-group = \*\*.wte.\*:weight-decay=0$'
same 2 --model bert-tiny --special-tokens 1,2 --deterministic --global-batch-size 8 --batch-size 2 --backward-prefetch post
has '^# .* BertLayer'
has '^# dry run: without --data, nothing could be said of data and steps$'
! grep -q "^data = " job.cfg || fail "data: $(cat job.cfg)"
[[ -z $(find . -mindepth 1 -type d) ]] || fail "written: $(find .)"
exit $((failures > 0))
