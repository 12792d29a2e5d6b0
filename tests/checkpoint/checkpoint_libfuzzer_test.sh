#!/usr/bin/env bash
# checkpoint_libfuzzer_test.sh SOURCE_ROOT FUZZ_PROGRAM SOURCE… -- INCLUDE_FOLDER… -- LIBRARY…: builds the fuzz target
# and the parsers (SOURCE: without ".cpp", below SOURCE_ROOT) with clang's libFuzzer, links the libraries of this build,
# and runs it for SHOAL_FUZZ_SECONDS (2). Exits with 77 where there is no clang that can.
set -euo pipefail
root=$1 driver=$2
shift 2
sources=()
while [[ $1 != -- ]]; do
  sources+=("$1")
  shift
done
shift
folders=()
while [[ $1 != -- ]]; do
  folders+=(-isystem "$1")
  shift
done
shift
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
clang=$(compgen -c clang++ | grep -E '^clang\+\+(-[0-9]+)?$' | sort -V | head -n 1 || true)
[[ -n $clang ]] || { echo "skipped: there is no clang++" && exit 77; }
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >empty.cpp
"$clang" -fsanitize=fuzzer,address empty.cpp -o empty 2>errors.txt ||
  { echo "skipped: $clang has no libFuzzer: $(tail -n 1 errors.txt)" && exit 77; }
jobs=()
for source in "${sources[@]}"; do
  "$clang" -std=c++20 -O1 -fsanitize=fuzzer-no-link,address -I "$root/src" -I "$root/tests" -DSHOAL_GOLDENS="\"$root/tests/interop/goldens\"" "${folders[@]}" \
    -c "$root/$source.cpp" -o "${source##*/}.o" &
  jobs+=($!)
done
for job in "${jobs[@]}"; do wait "$job"; done
"$clang" -fsanitize=fuzzer,address ./*.o "$@" -o fuzz
mkdir corpus
"$driver" --corpus corpus
# Leaks are not looked for: HDF5 has some of its own where a file is damaged.
seconds=${SHOAL_FUZZ_SECONDS:-2}
ASAN_OPTIONS=detect_leaks=0 timeout $((seconds + 60)) ./fuzz corpus -max_total_time="$seconds" -max_len=100000 -rss_limit_mb=2000 -malloc_limit_mb=300 \
  -seed=1 2>log.txt || { tail -n 30 log.txt && exit 1; }
tail -n 1 log.txt
