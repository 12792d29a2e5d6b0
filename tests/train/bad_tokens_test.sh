#!/usr/bin/env bash
# Wrong token data, models and initial weights, and a loss that explodes: one line that names what is wrong, the
# documented exit code, and what the user had is still there.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"

# uint16 tokens 0 … 249, ten times over.
python3 -c 'import array, sys; array.array("H", [i % 250 for i in range(2500)]).tofile(open("tokens.bin", "wb"))'
cat >base.cfg <<'CONFIG'
model = gpt2-tiny
vocab-size = 256
max-positions = 64
sequence-length = 32
batch-size = 2
max-steps = 2
threads = 1
checkpoint-dir = none
CONFIG
given=("$programs/shoal" train --config base.cfg)  # the command line wins over the file
expect 0 "run time" "${given[@]}" --data tokens.bin

expect 3 "tokens.bin.*(249|200).*--vocab-size" "${given[@]}" --data tokens.bin --vocab-size 200
head -c 4999 tokens.bin >odd.bin
expect 3 "odd.bin" "${given[@]}" --data odd.bin
head -c 40 tokens.bin >short.bin
expect 3 "short.bin.*--sequence-length" "${given[@]}" --data short.bin
: >empty.bin
expect 3 "empty.bin" "${given[@]}" --data empty.bin
# An llm.c file: 256 words of header, magic, version, count.
python3 - <<'PYTHON'
import struct
header = lambda version, count: struct.pack("<256i", 20240520, version, count, *[0] * 253)
body = open("tokens.bin", "rb").read()
open("llmc.bin", "wb").write(header(1, 2500) + body)
open("version9.bin", "wb").write(header(9, 2500) + body)
open("cut.bin", "wb").write(header(1, 2500) + body[:-100])
PYTHON
expect 0 "run time" "${given[@]}" --data llmc.bin
expect 3 "version9.bin.*version 9" "${given[@]}" --data version9.bin
expect 3 "cut.bin" "${given[@]}" --data cut.bin
expect 3 "nowhere.bin" "${given[@]}" --data nowhere.bin
expect 3 "nowhere.bin" "${given[@]}" --data tokens.bin --test-data nowhere.bin

# Models.
expect 2 "--sequence-length 65 is longer than the 64 positions" "${given[@]}" --data tokens.bin --sequence-length 65
expect 2 "--sequence-length" "${train[@]}" --data "$mnist" --sequence-length 10
expect 2 "--layers.*mnist-net" "${train[@]}" --data "$mnist" --layers 3
expect 2 "--heads" "${given[@]}" --data tokens.bin --hidden-size 65
expect 2 "--model-plugin.*nowhere.so" "$programs/shoal" train --model-plugin nowhere.so --data tokens.bin
expect 2 "--model-script.*nowhere.pt" "$programs/shoal" train --model-script nowhere.pt --data tokens.bin
expect 2 "--model-script" "$programs/shoal" train --model-script tokens.bin --data tokens.bin
expect 2 "--model-script tokens.bin name two models" "${given[@]}" --data tokens.bin --model-script tokens.bin
expect 2 "--warmup" "${given[@]}" --data tokens.bin --warmup 3
expect 2 "--param-group" "${given[@]}" --data tokens.bin --param-group "nothing.*:lr-scale=0.1"
expect 2 "--deterministic.*--accumulate-mode keep" "${given[@]}" --data tokens.bin --deterministic --accumulate-mode keep
expect 2 "power of two, not 3" on_ranks 3 "${given[@]}" --data tokens.bin --deterministic

# Initial weights.
expect 5 "nowhere" "${given[@]}" --data tokens.bin --init-from nowhere
expect 4 "tokens.bin" "${given[@]}" --data tokens.bin --init-from tokens.bin
expect 0 "wrote two.h5" "${given[@]}" --data tokens.bin --checkpoint-dir two --output two.h5
expect 0 '"tokens": 128' "$programs/shoal" ckpt inspect two
expect 2 "other options.*--heads is 1 now and was" "${given[@]}" --data tokens.bin --checkpoint-dir two --heads 1
expect 0 "initial weights from two.h5" "${given[@]}" --data tokens.bin --init-from two.h5
expect 4 "two.h5" "${given[@]}" --data tokens.bin --init-from two.h5 --layers 1
expect 4 "two.h5" "${given[@]}" --data tokens.bin --init-from two.h5 --hidden-size 32

# A loss that explodes: the step and the unit are named, and the checkpoint from before it is kept.
checkpoints() { (cd two && find step_* latest -type f -print0 | sort -z | xargs -0 sha256sum); }  # not the run's notes
before=$(checkpoints)
expect 2 "the loss of step 4 is -?(nan|inf) \(it first appeared in unit '.*', operator aten::[a-z_]+" \
  on_ranks 2 "${given[@]}" --data tokens.bin --checkpoint-dir two --max-steps 9 --lr 1e30
[[ $(grep -c "shoal: error" <<<"$output") == 1 ]] || fail "not one line of error: $output"
[[ $(checkpoints) == "$before" ]] || fail "the checkpoint changed"
exit $((failures > 0))
