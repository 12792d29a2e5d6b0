#!/usr/bin/env bash
# The program end to end on real digits: dry run, precedence of options, stop by a signal, restart on the same and on
# other ranks, refusals, results.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"
small=("${train[@]}" --data "$mnist" --global-batch-size 60 --log-every 1)

# Looking without touching.
expect 0 "conv1" "${train[@]}" --print-model --wrap size:20000
grep -q "(fc1).*unit 1" <<<"$output" && ! grep -q "unit 2" <<<"$output" || fail "fc1 alone is to be a unit: $output"
expect 0 "dry run: everything is in order" "${small[@]}" --checkpoint-dir dry --dry-run
[[ ! -e dry ]] || fail "a dry run made a folder"
expect 0 "--batch-size N" "${train[@]}" --help

# The command line wins over the environment, and that over the file.
printf 'epochs = 3\nseed = 30\nlr = 0.25\n' >options.cfg
expect 0 "--lr 0.25" env SHOAL_EPOCHS=2 SHOAL_SEED=20 "${small[@]}" --config options.cfg --seed 10 --dry-run
grep -qE -- "--epochs 2( |$)" <<<"$output" && grep -qE -- "--seed 10( |$)" <<<"$output" || fail "precedence: $output"

# A signal stops all ranks after the step; the same command goes on, and no bit differs from a run without a stop.
log=stopped.log
"${launcher[@]}" 2 "${small[@]}" --max-steps 12 --checkpoint-dir stopped >$log 2>&1 &
job=$!
until grep -q "step 3 " $log || ! kill -0 $job 2>/dev/null; do sleep 0.05; done
kill -USR1 $job
status=0
wait $job || status=$?
[[ $status == 75 ]] || fail "stopped by SIGUSR1 with exit code $status: $(<$log)"
grep -q "stopped on request after step" $log || fail "no word of the stop: $(<$log)"
expect 0 "resumed from stopped/step_" on_ranks 2 "${small[@]}" --max-steps 12 --checkpoint-dir stopped \
  --output stopped/weights.pt
resumed=$output
grep -qE "read, checked and in place after [0-9.]+ s" <<<"$resumed" || fail "no word of the time of a restore: $resumed"
expect 0 "^wrote whole/weights.pt" on_ranks 2 "${small[@]}" --max-steps 12 --checkpoint-dir whole --save-at-start \
  --output whole/weights.pt
grep -q "saved whole/step_00000000 " <<<"$output" || fail "nothing saved at the start: $output"
cmp stopped/weights.pt whole/weights.pt || fail "stopped and restarted, the weights differ"
losses() { grep -hoE "step [0-9]+ .* loss [0-9.]+" "$@"; }
cmp <(losses $log - <<<"$resumed") <(losses <<<"$output") || fail "stopped and restarted, the losses differ"

# Further on other numbers of ranks, with periodic checkpoints.
expect 0 "it was written by 2 ranks, now there are 3" on_ranks 3 "${small[@]}" --max-steps 16 --checkpoint-dir whole \
  --checkpoint-every 2 --keep-every 7 --save-at-start --output weights.pt
! grep -q "step_00000000" <<<"$output" || fail "saved at the start, though resumed: $output"
expect 0 "^wrote weights.pt" on_ranks 1 "${small[@]}" --max-steps 17 --checkpoint-dir whole --keep-every 7 \
  --output weights.pt
grep -qE "^test accuracy [0-9.]+ % \([0-9]+/1000\), mean loss [0-9.]+" <<<"$output" || fail "no accuracy: $output"
grep -qE "^run time .* peak memory" <<<"$output" || fail "no run time: $output"
[[ $(echo whole/step_*) == "whole/step_00000014 whole/step_00000016 whole/step_00000017" ]] ||
  fail "--keep 2 --keep-every 7, but: $(ls whole)"
expect 0 "nothing left to train" on_ranks 2 "${small[@]}" --max-steps 17 --checkpoint-dir whole

# What contradicts the checkpoint is refused, and what is there stays.
saved() { (cd whole && find step_* latest -type f -print0 | sort -z | xargs -0 sha256sum); }
before=$(saved)
expect 4 "was trained with adadelta.*--optimizer adam" "${small[@]}" --checkpoint-dir whole --optimizer adam
expect 2 "was trained with seed 1, not 2: give --seed 1" "${small[@]}" --checkpoint-dir whole --seed 2
expect 2 "middle of an epoch" "${small[@]}" --checkpoint-dir whole --no-shuffle
expect 2 "--resume never, but whole holds checkpoints" "${small[@]}" --checkpoint-dir whole --resume never
expect 4 "3 in the model but not in the checkpoint .--allow-missing.: 'model/conv1.bias'" "${small[@]}" \
  --checkpoint-dir renamed --resume whole --rename 'conv1.bias=stem.bias'
[[ $(saved) == "$before" ]] || fail "refused, but changed"

# But for what the user names.
expect 0 "3 not in the checkpoint, which keep their initial values: 'model/conv1.bias'" "${small[@]}" --max-steps 18 \
  --checkpoint-dir renamed --resume whole --rename 'conv1.bias=stem.bias' --allow-missing conv1.bias --allow-extra 'stem.*'
expect 0 "2 not in the file, which keep their initial values: 'conv1" "${small[@]}" --max-steps 1 \
  --checkpoint-dir started --init-from whole --allow-missing 'conv1.*' --allow-extra 'stem.*' --rename 'conv1.*=stem.*'

# A damaged newest checkpoint: loud, and the one before it is used.
newest=$(ls -d whole/step_* | tail -n 1)
shard=$(ls "$newest"/shards/* | head -n 1)
printf 'X' | dd of="$shard" bs=1 seek=$(($(stat -c %s "$shard") / 2)) conv=notrunc status=none
expect 0 "resumed from whole/step_00000016" "${small[@]}" --max-steps 18 --checkpoint-dir whole
grep -q "warning.*$newest" <<<"$output" || fail "no warning of the damage: $output"
# A rank that hangs is named, with what the others waited for; nobody waits for ever.
log=hanging.log
"${launcher[@]}" 2 "${small[@]}" --checkpoint-dir hanging --collective-timeout 3 >$log 2>&1 &
job=$!
until grep -q "step 3 " $log || ! kill -0 $job 2>/dev/null; do sleep 0.05; done
# Under launchers whose ranks are no children of their own there is nobody to hold.
rank=$(pgrep -P $job shoal-train | tail -n 1 || true)
[[ -n $rank ]] && kill -STOP "$rank" || kill $job
status=0
wait $job || status=$?
if [[ -n $rank ]]; then
  [[ $status == 6 ]] || fail "a rank hung, and the job ended with exit code $status: $(<$log)"
  grep -qE "error: rank [01]: .*waited 3 s in .*; rank [01] on host .* did not come.*--collective-timeout" $log ||
    fail "the rank that hung is not named: $(<$log)"
fi
exit $((failures > 0))
