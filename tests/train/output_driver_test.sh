#!/usr/bin/env bash
# --output-driver mpio: the file that all ranks write at once is the one that 'shoal ckpt export' makes of the same
# checkpoint; without an HDF5 with MPI the option is refused before anything is read.
# output_driver_test.sh PROGRAM_FOLDER MNIST_FOLDER LAUNCHER…, with WITH_MPIO=ON or OFF
set -uo pipefail
source "$(dirname "$0")/program.sh"
small=("${train[@]}" --data "$mnist" --global-batch-size 60 --max-steps 3 --wrap size:1000 --output-driver mpio)

expect 2 "--output-driver takes posix or mpio, not 'serial'" "${train[@]}" --data "$mnist" --output-driver serial
if [[ $WITH_MPIO != ON ]]; then
  expect 2 "--output-driver mpio: this build has HDF5 .* without MPI.*SHOAL_PARALLEL_HDF5=ON" "${small[@]}"
  exit "$((failures > 0))"
fi

expect 2 "--output must end in .h5" "${small[@]}" --output weights.pt
for ranks in 1 3 4; do
  expect 0 "wrote by_all.h5 .* tensors" on_ranks "$ranks" "${small[@]}" --checkpoint-dir "of_$ranks" --output by_all.h5
  expect 0 "by_one.h5" "$programs/shoal" ckpt export "of_$ranks" --output by_one.h5 --force
  cmp by_all.h5 by_one.h5 || fail "on $ranks ranks the file is another"
done
# A file that cannot be made: one line, from rank 0, and the checkpoint is there.
expect 5 "cannot|MPI_File_open" on_ranks 2 "${small[@]}" --checkpoint-dir kept --output missing/by_all.h5
[[ $(grep -c "shoal.*: error" <<<"$output") == 1 ]] || fail "not one line of error: $output"
expect 0 "step 3|00000003" "$programs/shoal" ckpt list kept
exit "$((failures > 0))"
