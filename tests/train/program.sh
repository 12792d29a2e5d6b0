# Sourced by the tests of the program: SCRIPT PROGRAM_FOLDER MNIST_FOLDER LAUNCHER… ("mpiexec -n").
programs=$(cd "$1" && pwd) mnist=$(cd "$2" && pwd)
shift 2
launcher=("$@")
train=("$programs/shoal" train --model mnist-net)
failures=0
work=$(mktemp -d)
cd "$work"
trap 'cd / && rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect EXIT_CODE PATTERN COMMAND…: the command ends with the code, and PATTERN (extended) is found in its output, which
# is left in $output.
expect() {
  local code=$1 pattern=$2 status=0
  shift 2
  output=$("$@" 2>&1) || status=$?
  [[ $status == "$code" ]] || fail "exit code $status, wanted $code: $*"$'\n'"$output"
  grep -qE -- "$pattern" <<<"$output" || fail "/$pattern/ is not in the output of: $*"$'\n'"$output"
}

on_ranks() { "${launcher[@]}" "$@"; }
