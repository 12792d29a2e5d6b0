# shellcheck shell=bash
# Shared by the scripts of this folder; sourced, not run. The caller sets `program` and stands in the clone's root.

say() { echo "${program:?}: $*"; }

die() {
  echo "$program: error: $1" >&2
  exit "${2:-1}"
}

# run_logged NAME COMMAND…: runs the command with its output in build/logs/NAME.log, and shows the end of that on failure.
run_logged() {
  local log=build/logs/$1.log status=0
  shift
  mkdir -p build/logs
  "$@" >"$log" 2>&1 || status=$?
  if ((status != 0)); then
    echo "$program: '$*' failed with exit code $status; the end of $log:" >&2
    tail -n 30 "$log" | sed 's/^/    /' >&2
    return "$status"
  fi
}

# Environment that lets Open MPI run in containers: as root, with more ranks than cores, without ptrace.
prepare_mpi() {
  if ((EUID == 0)); then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  fi
  export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}
}
