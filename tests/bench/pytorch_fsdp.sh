#!/usr/bin/env bash
# The same MNIST job by PyTorch's FSDP over gloo and by shoal, two ranks of one thread, in turns on the same cores.
#   pytorch_fsdp.sh PROGRAM_FOLDER [MNIST_FOLDER] [EPOCHS] [ROUNDS]
# PYTHON is one with torch. Prints the seconds that each spent in training steps, and the median of the rounds' ratios.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
programs=$(cd "${1:?give the folder that holds shoal}" && pwd)
data=$(cd "${2:-$here/../data/mnist}" && pwd)
epochs=${3:-3} rounds=${4:-3} wrap=size:20000 limit=900
python=${PYTHON:-$HOME/.cache/shoal/torch-2.11.0/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

if ! "$python" -c 'import torch'; then
  echo "$python has no torch; set PYTHON, or run scripts/setup.sh --interop" >&2
  exit 1
fi

# run NAME COMMAND…: leaves the output in $work/NAME, and shows it where the command fails.
run() {
  local name=$1
  shift
  timeout "$limit" "$@" >"$work/$name" 2>&1 || { cat "$work/$name" >&2; echo "failed: $*" >&2; exit 1; }
}

# Each prints: seconds, accuracy in per cent, MiB of memory that a rank held at most.
pytorch() {
  run pytorch "$python" -m torch.distributed.run --nproc-per-node 2 "$here/fsdp1_mnist_cpu.py" --data "$data" \
    --epochs "$epochs" --wrap "$wrap"
  "$python" -c 'import json, sys
for line in sys.stdin:
    if line.startswith("{"):
        result = json.loads(line)
        print(result["seconds"], 100 * result["accuracy"], result["peak_mib"])' <"$work/pytorch"
}

shoal() {
  run shoal mpirun --oversubscribe --bind-to none -n 2 "$programs/shoal" train --model mnist-net --data "$data" \
    --epochs "$epochs" --threads 1 --wrap "$wrap" --checkpoint-dir none --output none --quiet
  awk '/^epoch .* mean loss/ { match($0, /[0-9.]+ s,/); seconds += substr($0, RSTART) + 0 }
       /^test accuracy/ { accuracy = $3 }
       match($0, /peak memory of a rank [0-9]+/) { peak = substr($0, RSTART + 22) + 0 }
       END { printf "%.1f %.1f %d\n", seconds, accuracy, peak }' "$work/shoal"
}

echo "$epochs epochs of $data on 2 ranks, $rounds rounds"
echo "$(getconf _NPROCESSORS_ONLN) cores, load $(cut -d' ' -f1 /proc/loadavg) at the start"
format='%-6s %12s %10s %8s %12s %10s %8s %8s\n'
printf "$format" round PyTorch/s accuracy MiB shoal/s accuracy MiB ratio
for ((round = 1; round <= rounds; ++round)); do
  read -r seconds accuracy peak < <(pytorch)
  read -r our_seconds our_accuracy our_peak < <(shoal)
  ratio=$(awk "BEGIN { printf \"%.3f\", $our_seconds / $seconds }")
  echo "$ratio" >>"$work/ratios"
  printf "$format" "$round" "$seconds" "$accuracy" "$peak" "$our_seconds" "$our_accuracy" "$our_peak" "$ratio"
done
middle='{ all[NR] = $1 } END { print (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2 }'
median=$(sort -n "$work/ratios" | awk "$middle")
echo "median of shoal's seconds over PyTorch's: $median"
