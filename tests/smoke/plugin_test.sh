#!/usr/bin/env bash
# A plug-in outside the tree: built by find_package(Shoal) against an installation, trained by the installed program,
# refused where it does not fit.
#
# plugin_test.sh CMAKE GENERATOR BUILD_FOLDER EXAMPLE_FOLDER MNIST_FOLDER
set -euo pipefail
cmake=$1 generator=$2 build=$3 example=$4 mnist=$5
export CMAKE_GENERATOR=$generator  # what built us; a machine may have no other
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }

# refused WORDS COMMAND…: the command ends with exit code 2 and one line that has these words
refused() {
  local words=$1 code=0
  shift
  "$@" >"$scratch/out" 2>&1 || code=$?
  [ $code -eq 2 ] || fail "exit code $code, not 2: $* : $(cat "$scratch/out")"
  grep -qF -- "$words" "$scratch/out" || fail "no '$words' in: $(cat "$scratch/out")"
  [ "$(grep -c . "$scratch/out")" -eq 1 ] || fail "more than one line: $(cat "$scratch/out")"
}

"$cmake" --install "$build" --prefix "$scratch/shoal" >"$scratch/log" || fail "$(cat "$scratch/log")"
{ "$cmake" -S "$example" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/shoal" -DCMAKE_BUILD_TYPE=Release &&
  "$cmake" --build "$scratch/build"; } >"$scratch/log" 2>&1 || fail "$(cat "$scratch/log")"
plugin=$scratch/build/libmy_net.so
lines=$(cat "$example"/*.cpp | wc -l)
[ "$lines" -le 40 ] || fail "the example has $lines lines"

train=("$scratch/shoal/bin/shoal" train --data "$mnist" --max-steps 30 --output "$scratch/net.h5" --checkpoint-dir "$scratch/checkpoints" --resume never
       --model my-net)
"${train[@]}" --model-plugin "$plugin" --global-batch-size 64 --log-every 29 >"$scratch/out" 2>&1 ||
  fail "training: $(cat "$scratch/out")"
grep -q "wrote $scratch/net.h5 (4 tensors" "$scratch/out" || fail "no weights: $(cat "$scratch/out")"
right=$(sed -nE 's|.*test accuracy ([0-9]+)\..*|\1|p' "$scratch/out")
[ "$right" -ge 60 ] || fail "nothing was learned: $(cat "$scratch/out")"

refused "--model-plugin $scratch/none.so: there is no such file" "${train[@]}" --model-plugin "$scratch/none.so"
echo "not a library" >"$scratch/text.so"
refused "text.so: not a plug-in of Shoal" "${train[@]}" --model-plugin "$scratch/text.so"
other() { sed "s/$1/$2/" "$plugin" >"$scratch/other.so"; }
other 'plug-in ABI [0-9]*, ' 'plug-in ABI 7, '
refused "other.so: built for plug-in ABI 7, LibTorch" "${train[@]}" --model-plugin "$scratch/other.so"
other 'LibTorch 2\.' 'LibTorch 1.'
refused "other.so: built for plug-in ABI 2, LibTorch 1." "${train[@]}" --model-plugin "$scratch/other.so"
other shoal_plugin_add_models shoal_plugin_add_modems
refused "other.so: has no function shoal_plugin_add_models" "${train[@]}" --model-plugin "$scratch/other.so"
sed 's/"my-net"/"mnist-net"/' "$example/my_net.cpp" >"$scratch/my_net.cpp"
cp "$example/CMakeLists.txt" "$scratch"
"$cmake" -S "$scratch" -B "$scratch/taken" -DCMAKE_PREFIX_PATH="$scratch/shoal" >/dev/null
"$cmake" --build "$scratch/taken" >/dev/null
refused "libmy_net.so: a model named 'mnist-net' is there already" "${train[@]}" --model-plugin "$scratch/taken/libmy_net.so"
echo "plug-ins: all as they should be"
