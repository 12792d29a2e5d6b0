#!/usr/bin/env bash
# Kernels, communication, the engine and the main job on GPUs: run.sh BUILD DATA [GPUS [kernels|comm|engine|job]]
#   BUILD  the build folder of the cuda preset, with bin/ and tests/;  DATA  the folder of the MNIST idx files
# 1. Every kernel and fused operator against float64. 2. NCCL's collectives in every kind of group. 3. The cases of
# tests/fsdp against plain LibTorch on one GPU, on 1 … GPUS ranks (but Behaviour's, which are of the CPU), and every way to
# train a built-in model (matrix_test). 4. The main job under each strategy: the losses must agree; stop on all GPUs,
# restart on one. Prints one line a check; exit code 1 where one fails, 77 where there is no GPU.
set -euo pipefail
if ! nvidia-smi -L 2>/dev/null | grep -q '^GPU'; then
  echo "no GPU here: nothing of this was run"
  exit 77
fi
build=$1 data=$2 gpus=${3:-$(nvidia-smi -L | wc -l)} part=${4:-all}
export NCCL_NVLS_ENABLE=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
ranks() { mpirun --bind-to none -n "$@"; }
check() {  # check NAME COMMAND…
  local name=$1 start=$SECONDS; shift
  if "$@" >"$work/log" 2>&1; then
    echo "ok      $name ($((SECONDS - start)) s)"
  else
    echo "FAILED  $name"; grep -vE "OK \]|RUN  " "$work/log" | head -n 25; failed=1
  fi
}

wanted() { [[ $part == all || $part == "$1" ]]; }

if wanted kernels; then
  for test in "$build"/tests/{fused_*_test,models_gpu,optim_gpu_test,sum_ranks_test,host_traffic_test}; do
    check "$(basename "$test")" timeout 300 "$test"
  done
fi
rank_counts=$(for n in 1 2 4; do [[ $n -le $gpus ]] && echo "$n"; done)
if wanted comm; then
  for n in $rank_counts; do check "nccl_test on $n GPU(s)" ranks "$n" timeout 300 "$build/tests/nccl_test"; done
fi
if wanted engine; then
  export SHOAL_TEST_DEVICE=cuda
  for n in $rank_counts; do
    check "engine equals plain LibTorch on $n GPU(s)" \
      ranks "$n" timeout 600 "$build/tests/fsdp_mpi_test" --gtest_filter='-Behaviour.*'
    check "every way to train equals plain LibTorch on $n GPU(s)" ranks "$n" timeout 600 "$build/tests/matrix_test"
    grep 'plain LibTorch' "$work/log" || true
  done
fi
wanted job || exit $failed

train() {  # train RANKS OPTIONS…
  local n=$1; shift
  ranks "$n" "$build/bin/shoal-train" --model mnist-net --data "$data" --wrap size:20000 --device cuda --log-every 1 "$@"
}
# Later steps drift apart by themselves, also from one run to the next: cuDNN's sums have no fixed order.
losses() { grep -o 'step [0-9]* .*loss [0-9.]*' "$1" | awk '{print $2, $NF}' | head -n 8; }
agree() {  # agree A B: the losses of the first steps, to half a per cent
  paste <(losses "$1") <(losses "$2") | awk '
    { n++; d = $2 - $4; d = d < 0 ? -d : d; if ($1 != $3 || d > 0.005 * $2) { print "step", $1, $2, $4; bad = 1 } }
    END { print n, "steps"; exit bad || n != 8 }'
}
for strategy in full_shard shard_grad_op no_shard; do
  train "$gpus" --strategy $strategy --max-steps 8 --checkpoint-dir "$work/of-$strategy" >"$work/$strategy" 2>&1 ||
    { cat "$work/$strategy"; failed=1; }
done
check "shard_grad_op's losses are full_shard's on $gpus GPU(s)" agree "$work/full_shard" "$work/shard_grad_op"
check "no_shard's losses are full_shard's on $gpus GPU(s)" agree "$work/full_shard" "$work/no_shard"

check "trains to the end on $gpus GPU(s)" train "$gpus" --epochs 2 --checkpoint-dir "$work/ck" --checkpoint-every 20
grep -E 'accuracy|run time|peak' "$work/log" || true
check "goes on from there on one GPU" train 1 --epochs 3 --global-batch-size $((64 * gpus)) --checkpoint-dir "$work/ck" --checkpoint-every 20
grep -E 'resumed|accuracy' "$work/log" || true
check "the checkpoint is sound" "$build/bin/shoal-ckpt" verify "$work/ck"
exit $failed
