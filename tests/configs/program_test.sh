#!/usr/bin/env bash
# program_test.sh KIND PROGRAM_FOLDER MNIST_FOLDER LAUNCHER…: each config of data/KIND is dry-run and trains one step, on
# 1 to 4 ranks in turn. KIND "options": what wins over what, and bad files from outside.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kind=$1
shift
source "$here/../train/program.sh"
cp -r "$here"/data/* .

# The first of the pictures and of the text: what is trained is one step.
shorten() {  # FILE HEADER_BYTES COUNT BYTES_OF_ONE
  local header
  header=$(printf '\\0\\0\\010\\0%o\\0\\0\\0\\0%o' $(($2 / 4 - 1)) "$3")
  { printf %b "$header" && zcat "$mnist/$1.gz" | tail -c +9 | head -c $(($2 - 8 + $3 * $4)); } >"small/$1" || true
}
mkdir small
for part in train t10k; do
  shorten $part-images-idx3-ubyte 16 8 784
  shorten $part-labels-idx1-ubyte 8 8 1
done
for part in train val; do { zcat "$mnist/../text/bible_$part.txt.gz" || true; } | head -c 20000 >$part.txt; done
mkdir text && mv train.txt val.txt text

# option_of FILE
option_of() { [[ $1 == *.yaml ]] && echo --accelerate-config || echo --deepspeed-config; }

# The model whose classes the file names, at its smallest.
model_of() {
  local tiny=(--layers 2 --heads 2 --hidden-size 16 --max-positions 32 --sequence-length 16 --tokenizer bytes)
  case $1 in
    */fsdp_guide.yaml) echo gpt2-tiny --vocab-size 256 --data text "${tiny[@]}" ;;
    */fsdp_bert.yaml) echo bert-tiny --vocab-size 257 --data text "${tiny[@]}" ;;
    *) echo mnist-net --data small ;;
  esac
}

# Files that say how many ranks they are for by what they ask for.
fits() { case $1 in */fsdp2_nd.yaml | */zeropp.json) (($2 % 2 == 0)) ;; */getting_started.json | */batches.json) (($2 != 3)) ;; esac }

if [[ $kind != options ]]; then
  ranks=1
  for file in "$kind"/*.yaml "$kind"/*.json; do
    [[ -e $file ]] || continue
    until fits "$file" $ranks; do ranks=$((ranks % 4 + 1)); done
    read -ra model <<<"$(model_of "$file")"
    job=("$programs/shoal" train --model "${model[@]}" "$(option_of "$file")" "$file" --checkpoint-dir none)
    line=$(head -n 1 "$file.expected" | sed -E 's/ --(batch-size|accumulate) [0-9]+//g; s/ --sync-module-states//')
    expect 0 "dry run: everything is in order" on_ranks $ranks "${job[@]}" --dry-run
    said=$(sed -nE "s|.*config $file is: (.*)|\1|p" <<<"$output" | sed -E 's/ --(batch-size|accumulate) [0-9]+//g')
    [[ $said == "$line" ]] || fail "$file: said '$said', not '$line'"
    expect 0 "^run time" on_ranks $ranks "${job[@]}" --max-steps 1 --warmup 0
    ranks=$((ranks % 4 + 1))
  done
  exit $((failures > 0))
fi

given=("$programs/shoal" train --model mnist-net --data small --checkpoint-dir none --dry-run)
options_of() { "$@" 2>&1 | tr '\n' ' ' | sed 's/shoal: *//g'; }

# The command line wins over the environment, that over --config, that over another program's config.
echo '{"gradient_clipping": 1, "optimizer": {"type": "SGD", "params": {"lr": 1, "momentum": 0.1}}}' >ds.json
echo "clip-grad-norm = 2" >ours.cfg
all=$(options_of env SHOAL_LR=3 "${given[@]}" --deepspeed-config ds.json --config ours.cfg --optimizer adamw)
for option in "--optimizer adamw" "--lr 3" "--momentum 0.1" "--clip-grad-norm 2"; do
  [[ $all == *" $option "* ]] || fail "no $option in: $all"
done
[[ $all == *"ds.json is: shoal train --strategy no_shard --momentum 0.1 "* ]] || fail "what is used: $all"
# It may be named in --config and in the environment.
echo "deepspeed-config = ds.json" >ours.cfg
expect 0 "optimizer sgd" "${given[@]}" --config ours.cfg
expect 0 "optimizer sgd" env SHOAL_DEEPSPEED_CONFIG=ds.json "${given[@]}"
# A global batch of the user's replaces the file's accumulation.
echo '{"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}' >ds.json
expect 0 "global-batch-size 16 --accumulate 4" "${given[@]}" --deepspeed-config ds.json --global-batch-size 16
# Weights to start from are what makes rank 0 read alone.
expect 0 "dry run" "${given[@]}" --accelerate-config accelerate/fsdp.yaml
expect 0 "sync-module-states on" "${given[@]}" --accelerate-config accelerate/fsdp.yaml --init-from weights.h5

# One line, exit code 2, on several ranks too.
bad() {
  expect 2 "$@"
  [[ $(grep -c "shoal: error" <<<"$output") == 1 ]] || fail "not one line of error: $output"
}
bad "--deepspeed-config none.json: the file cannot be read" "${given[@]}" --deepspeed-config none.json
printf '{\n  "bf16": {"enabled": tru}\n}\n' >ds.json
bad "--deepspeed-config ds.json: no JSON at line 2, column 26" "${given[@]}" --deepspeed-config ds.json
printf 'distributed_type: FSDP\n fsdp_config: [\n' >a.yaml
bad "--accelerate-config a.yaml: no YAML at line 2, column 13" "${given[@]}" --accelerate-config a.yaml
echo '{"train_batch_size": 10}' >ds.json
bad "train_batch_size is 10, which is no multiple of 3 ranks" on_ranks 3 "${given[@]}" --deepspeed-config ds.json
printf 'distributed_type: FSDP\nfsdp_config: {xla: true}\n' >a.yaml
bad "fsdp_config.xla cannot be honoured" on_ranks 2 "${given[@]}" --accelerate-config a.yaml
bad "are both given" "${given[@]}" --accelerate-config a.yaml --deepspeed-config ds.json
echo '{"optimizer": {"type": "Adam", "params": {"betas": [0.9, 1.5]}}}' >ds.json
bad "--betas must be two numbers in" "${given[@]}" --deepspeed-config ds.json
exit $((failures > 0))
