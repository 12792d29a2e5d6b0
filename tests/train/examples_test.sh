#!/usr/bin/env bash
# The jobs of docs/examples as their first lines say to start them, only shorter: each learns, and goes on from its
# checkpoints, on the same ranks without changing a bit and on others.
set -euo pipefail
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"
ln -s "$repository/tests" "$repository/docs" .

losses() { grep -hoE "step [0-9]+ .* loss [0-9.]+" "$@"; }

for config in docs/examples/*.cfg; do
  name=$(basename "$config" .cfg)
  grep -q "^#   mpirun -n 2 shoal train --config $config\$" "$config" || fail "$config does not say how to start it"
  job=("$programs/shoal" train --config "$config" --max-steps 6 --warmup 2 --log-every 1 --threads 1)
  expect 0 "^wrote $name/whole.pt" on_ranks 2 "${job[@]}" --checkpoint-dir "$name" --checkpoint-every 3 --keep 10 \
    --output "$name/whole.pt"
  whole=$(losses <<<"$output")
  awk '{ loss[NR] = $NF } END { exit !(NR == 6 && loss[4] + loss[5] + loss[6] < loss[1] + loss[2] + loss[3]) }' \
    <<<"$whole" || fail "$name learns nothing: $whole"
  expect 0 "resumed from $name/step_00000003" on_ranks 2 "${job[@]}" --resume "$name/step_00000003" \
    --checkpoint-dir "$name-again" --output "$name/again.pt"
  cmp "$name/whole.pt" "$name/again.pt" || fail "$name: restarted, the weights differ"
  cmp <(tail -n 3 <<<"$whole") <(losses <<<"$output") || fail "$name: restarted, the losses differ"
  expect 0 "it was written by 2 ranks, now there are 3" on_ranks 3 "${job[@]}" --resume "$name/step_00000003" \
    --checkpoint-dir "$name-on-3" --output none
done
exit $((failures > 0))
