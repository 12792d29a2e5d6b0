#!/usr/bin/env bash
# completion_test.sh SHOAL DOCS: the completion that the driver prints works, and docs/cli.md is what it prints.
set -euo pipefail
shoal=$1 docs=$2
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

"$shoal" --print-cli-docs | diff "$docs/cli.md" - ||
  fail "docs/cli.md is not what the programs say: shoal --print-cli-docs >docs/cli.md"

source <("$shoal" --completion bash)
complete -p shoal | grep -q -- "-F _shoal shoal" || fail "not registered"

# offers WORDS PATTERN…: after these words (the last is begun), each PATTERN is offered; !PATTERN is not.
offers() {
  local words=$1 pattern
  shift
  mapfile -t COMP_WORDS < <(tr ' ' '\n' <<<"$words")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _shoal
  for pattern in "$@"; do
    if [[ $pattern == !* ]]; then
      [[ " ${COMPREPLY[*]} " != *" ${pattern#!} "* ]] || fail "$words: ${pattern#!} is offered: ${COMPREPLY[*]}"
    else
      [[ " ${COMPREPLY[*]} " == *" $pattern "* ]] || fail "$words: $pattern is not offered: ${COMPREPLY[*]}"
    fi
  done
}

cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
touch data.bin
offers "shoal t" train tokenize !ckpt
offers "shoal train --acc" --accumulate --accelerate-config --accumulate-mode !--lr
offers "shoal train --model gpt2-1" gpt2-124m gpt2-1.5b !mnist-net
offers "shoal train --data " data.bin
offers "shoal train --data da" data.bin
offers "shoal train --lr " !data.bin
offers "shoal ckpt " list repair !train
offers "shoal ckpt verify --w" --workers
offers "shoal ckpt verify --" --json !--model
offers "shoal ckpt verify d" data.bin

# Every verb says what it is for, its options with defaults, and an example, and guesses what was mistyped.
while read -r verb; do
  help=$($shoal $verb --help 2>&1) || fail "shoal $verb --help"
  grep -q -- "--help *show this and stop" <<<"$help" || fail "shoal $verb --help shows no options: $help"
  grep -A1 "^Example:" <<<"$help" | grep -q "shoal ${verb}" || fail "shoal $verb --help shows no example: $help"
  status=0
  guess=$($shoal $verb --hepl 2>&1) || status=$?
  [[ $status == 2 && $guess == *"'--hepl'; did you mean '--help'?"* ]] || fail "shoal $verb --hepl: $status $guess"
done < <(sed -n 's/^## shoal //p' "$docs/cli.md")
for other in "zsh" ""; do
  status=0
  "$shoal" --completion $other >out 2>&1 || status=$?
  [[ $status == 2 ]] && grep -q "takes the name of a shell: bash" out || fail "--completion $other: $status $(cat out)"
done
exit $((failures > 0))
