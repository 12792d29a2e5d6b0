#!/usr/bin/env bash
# shoal tokenize as its users meet it. Usage: tokenize_test.sh SHOAL_TOKENIZE TEXT_FOLDER
set -euo pipefail
program=$1 texts=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() { echo "FAILED: $1" >&2 && exit 1; }

# ends CODE 'WORDS OF THE ERROR' ARGUMENT…: one line of error, and nothing left behind
ends() {
  local wanted=$1 words=$2 code=0 before
  before=$(ls)
  shift 2
  "$program" "$@" >out 2>err || code=$?
  [[ $code == "$wanted" ]] || fail "'$*' ended with $code, not $wanted: $(cat err)"
  [[ $(wc -l <err) == 1 ]] || fail "'$*' says more or less than one line: $(cat err)"
  grep -qF -- "$words" err || fail "'$*' does not say '$words': $(cat err)"
  rm out err
  [[ $(ls) == "$before" ]] || fail "'$*' left something behind: $(ls)"
}

size_is() { [[ $(stat -c %s "$1") == "$2" ]] || fail "$1 has $(stat -c %s "$1") bytes, not $2"; }

# Two bytes a token; the last tokens in the other file.
"$program" --text "$texts"/bible_train.txt.gz --output book_train.bin --split 0.1 >out
grep -qE '^book_train.bin, book_val.bin: [0-9]+ tokens of uint16 from 366194 bytes \([0-9.]+ bytes a token\) in ' out ||
  fail "unexpected words: $(cat out)"
tokens=$(sed -E 's/^[^:]*: ([0-9]+) tokens.*/\1/' out)
size_is book_val.bin $((tokens / 10 * 2))
size_is book_train.bin $(((tokens - tokens / 10) * 2))
rm out

# Several documents, each ended by the token 50256, are the tokens of each alone.
"$program" --text "$texts"/bible_val.txt.gz --output one.bin >out
"$program" --text "$texts"/bible_val.txt.gz "$texts"/bible_val.txt.gz --output two.bin --append-eot >out
{ cat one.bin && printf '\x50\xc4' && cat one.bin && printf '\x50\xc4'; } | cmp - two.bin || fail "documents differ"

# A byte is a token.
printf 'caf\xc3\xa9' >cafe.txt
"$program" --text cafe.txt --output bytes.bin --tokenizer bytes >out
printf 'c\0a\0f\0\xc3\0\xa9\0' | cmp - bytes.bin || fail "bytes differ"
rm out

"$program" --help >out 2>&1 || fail "--help"
grep -q -- --append-eot out || fail "--help does not tell of --append-eot"
rm out

printf '' >empty.txt
printf '\xff\xfeh\0' >utf16.txt
head -c 1000 "$texts"/bible_val.txt.gz >cut.txt.gz
ends 2 'give --text FILE...' --output x.bin
ends 2 'give --output FILE' --text cafe.txt
ends 2 "unrecognised option '--outptu'" --text cafe.txt --outptu x.bin
ends 2 'give --force to replace it' --text cafe.txt --output one.bin
ends 2 'is both --text and output' --text cafe.txt --output ./cafe.txt --force
ends 2 '--tokenizer none is neither gpt2 nor bytes' --text cafe.txt --output x.bin --tokenizer none
ends 2 '--format csv is not known' --text cafe.txt --output x.bin --format csv
ends 2 '--output must end in .bin' --text cafe.txt --output x --format megatron
ends 2 '--split 1 is no number above 0 and below 1' --text cafe.txt --output x.bin --split 1
ends 2 '--split half is no number' --text cafe.txt --output x.bin --split half
ends 2 '--val-output needs --split' --text cafe.txt --output x.bin --val-output y.bin
ends 2 'has no token for the end of a text' --text cafe.txt --output x.bin --tokenizer bytes --append-eot
ends 3 '--text none.txt: No such file' --text none.txt --output x.bin
ends 3 'the text is empty' --text empty.txt --output x.bin
ends 3 'too few to give a part' --text cafe.txt --output x.bin --split 0.1
ends 3 'utf16.txt: this text is UTF-16' --text utf16.txt --output x.bin
ends 3 'cut.txt.gz: the file is damaged or cut short' --text cut.txt.gz --output x.h5
ends 5 'cannot write' --text cafe.txt --output none/x.bin

cp one.bin before.bin
ends 3 'the text is empty' --text empty.txt --output one.bin --force
cmp one.bin before.bin || fail "an attempt that failed changed the output that was there"
"$program" --text cafe.txt --output one.bin --force >out
! cmp -s one.bin before.bin || fail "--force did not replace the output"
echo "all as it should be"
