#!/usr/bin/env bash
# Wrong options, wrong data and unusable folders: one line that names them, the documented exit code, nothing written.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"

# Options. Nothing of this gets as far as reading data.
given=("${train[@]}" --data "$mnist")
expect 2 "^shoal: error: --model is missing" "$programs/shoal" train
expect 2 "no 'resnet'; the models are: mnist-net" "$programs/shoal" train --model resnet
expect 2 "error: --data is missing" "${train[@]}"
expect 2 "unrecognised option '--bacth-size'" "${given[@]}" --bacth-size 3
expect 2 "unrecognised option '--batch'" "${given[@]}" --batch 3
expect 2 "'extra' is no option" "${given[@]}" extra
expect 2 "'abc'\) for option '--batch-size' is invalid" "${given[@]}" --batch-size abc
expect 2 "argument for option '--epochs' is missing" "${given[@]}" --epochs
expect 2 "'--epochs' cannot be specified more than once" "${given[@]}" --epochs 1 --epochs 2
expect 2 "--epochs must be at least 0, not -1" "${given[@]}" --epochs -1
for option in --batch-size --global-batch-size --accumulate; do
  expect 2 "$option must be at least 1, not 0" "${given[@]}" $option 0
done
expect 2 "--optimizer knows sgd, adam, adamw and adadelta, not 'lion'" "${given[@]}" --optimizer lion
expect 2 "--schedule takes" "${given[@]}" --schedule sine
expect 2 "--betas takes two numbers" "${given[@]}" --betas 0.9
expect 2 "--betas must be two numbers in \[0, 1\)" "${given[@]}" --betas 0.9,1
expect 2 "--strategy" "${given[@]}" --strategy zero9
expect 2 "--wrap" "${given[@]}" --wrap size:many
expect 2 "--wrap" "${given[@]}" --wrap class:Blok --dry-run
expect 2 "--checkpoint-every takes" "${given[@]}" --checkpoint-every often
expect 2 "--output must end in .h5 .* or .pt" "${given[@]}" --output weights.bin
expect 2 "--device takes auto, cpu or cuda" "${given[@]}" --device tpu
expect 2 "SHOAL_BATCH belongs to no option" env SHOAL_BATCH=3 "${given[@]}"
expect 2 "SHOAL_BATCH_SIZE: the argument \('x'\)" env SHOAL_BATCH_SIZE=x "${given[@]}"
expect 2 "--config none.cfg: the file cannot be read" "${given[@]}" --config none.cfg
echo "learning-rate = 3" >wrong.cfg
expect 2 "--config wrong.cfg: unrecognised option 'learning-rate'" "${given[@]}" --config wrong.cfg
if ! command -v nvidia-smi >/dev/null; then
  expect 7 "--device cuda" "${given[@]}" --device cuda
fi

# Data.
expect 3 "/nowhere is not a folder .*--data" "${train[@]}" --data /nowhere
mkdir data
expect 3 "data/train-images-idx3-ubyte is missing \(with or without .gz\); --data" "${train[@]}" --data data
cp "$mnist"/* data
head -c 5000 "$mnist/train-images-idx3-ubyte.gz" >data/train-images-idx3-ubyte.gz
expect 3 "data/train-images-idx3-ubyte.gz: the file is damaged or cut short" "${train[@]}" --data data
cp "$mnist/train-labels-idx1-ubyte.gz" data/train-images-idx3-ubyte.gz
expect 3 "train-images-idx3-ubyte.gz: idx array of 1 dimensions, expected 3" "${train[@]}" --data data
cp "$mnist/t10k-images-idx3-ubyte.gz" data/train-images-idx3-ubyte.gz
expect 3 "holds 1000 images, but data/train-labels-idx1-ubyte.gz holds 5000 labels" "${train[@]}" --data data
echo "hello, I am a text" >data/train-images-idx3-ubyte
expect 3 "data/train-images-idx3-ubyte: not an idx file" "${train[@]}" --data data

# Folders.
touch file
expect 5 "--checkpoint-dir file: .*file is no folder" "${given[@]}" --checkpoint-dir file
expect 5 "--checkpoint-dir file/ck" "${given[@]}" --checkpoint-dir file/ck
expect 5 "--checkpoint-dir /proc/ck" "${given[@]}" --checkpoint-dir /proc/ck
expect 4 "nowhere" "${given[@]}" --checkpoint-dir ck --resume nowhere
rm -rf ck
# Before anything is trained: a checkpoint takes some 14 MiB.
mkdir small
if mount -t tmpfs -o size=8m tmpfs small 2>/dev/null; then
  expect 5 "--checkpoint-dir small/ck: a checkpoint takes 1[0-9].* MiB, and [78].* MiB are free there \(tmpfs\)" \
    "${given[@]}" --checkpoint-dir small/ck
  ! grep -q " step 1 " <<<"$output" || fail "trained without room for a checkpoint: $output"
  umount small
  mount -t tmpfs -o size=30m tmpfs small
  expect 0 "--keep 2, and one being written\) take 4.*a later save will fail" "${given[@]}" --checkpoint-dir small/ck --dry-run
  umount small
fi
rmdir small

# Several ranks: the same line, once.
expect 2 "--global-batch-size 2 is smaller than 3 ranks" on_ranks 3 "${given[@]}" --global-batch-size 2
[[ $(grep -c "shoal: error" <<<"$output") == 1 ]] || fail "not one line of error: $output"
expect 3 "/nowhere is not a folder" on_ranks 2 "${train[@]}" --data /nowhere
[[ $(grep -c "shoal: error" <<<"$output") == 1 ]] || fail "not one line of error: $output"
# One rank alone has another environment.
expect 2 "rank 1: .*other options than rank 0" on_ranks 2 bash -c \
  '[[ ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} == 0 ]] || export SHOAL_LR=0.5; exec "$@"' - "${given[@]}"

# An attempt that was refused has left its notes, and nothing else.
[[ -z $(find checkpoints -type f ! -path '*/attempts/*' ! -path '*/run/*') ]] || fail "written: $(find checkpoints)"
rm -rf checkpoints
[[ $(ls) == $'data\nfile\nwrong.cfg' ]] || fail "something was written: $(ls)"
exit $((failures > 0))
