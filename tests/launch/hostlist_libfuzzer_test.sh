#!/usr/bin/env bash
# hostlist_libfuzzer_test.sh SOURCE_ROOT: builds the fuzz target with clang's libFuzzer and runs it for two seconds.
# Exits with 77 where there is no clang that can.
set -euo pipefail
root=$1
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
clang=$(compgen -c clang++ | grep -E '^clang\+\+(-[0-9]+)?$' | sort -V | head -n 1 || true)
[[ -n $clang ]] || { echo "skipped: there is no clang++" && exit 77; }
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >empty.cpp
"$clang" -fsanitize=fuzzer,address,undefined empty.cpp -o empty 2>errors.txt ||
  { echo "skipped: $clang has no libFuzzer: $(tail -n 1 errors.txt)" && exit 77; }
"$clang" -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -I "$root/src" \
  "$root"/tests/launch/hostlist_fuzz.cpp "$root"/src/launch/{hostlist,text_fault}.cpp -lfmt -o fuzz
mkdir corpus
printf 'r[1-2]n[08,10-12]-ib,x' >corpus/list
printf '4(x2),3' >corpus/counts
timeout 60 ./fuzz corpus -max_total_time=2 -max_len=300 -rss_limit_mb=2000 -seed=1 2>log.txt || { tail -n 30 log.txt && exit 1; }
tail -n 1 log.txt
