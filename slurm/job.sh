# shellcheck shell=bash
# What the job scripts of this folder have in common; they source it inside a job. Nothing here is to be edited.
# The caller sets `mpi` and `site`.
set -uo pipefail

job_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

say() { echo "shoal job: $*"; }

fail() {
  echo "shoal job: error: $1" >&2
  exit 2
}

# use_site NAME_OR_FILE: exports the variables of a site profile and prints each. It reads the file and does not run it;
# what the user's environment has already stays as it is.
use_site() {
  local file=$1 line name
  [[ -n $1 ]] || return 0
  [[ $1 == */* ]] || file=$job_folder/sites/$1.conf
  [[ -r $file ]] || fail "site '$1': '$file' cannot be read; there are: $(cd "$job_folder/sites" && echo *.conf)"
  while IFS= read -r line || [[ -n $line ]]; do
    [[ $line =~ ^[[:space:]]*(#.*)?$ ]] && continue
    [[ $line =~ ^([A-Za-z_][A-Za-z_0-9]*)=(.*)$ ]] || fail "site '$1': '$line' in '$file' is no NAME=VALUE"
    name=${BASH_REMATCH[1]}
    if [[ -n ${!name+set} ]]; then
      say "site $1: $name=${!name} (was set before)"
    else
      export "$name=${BASH_REMATCH[2]}"
      say "site $1: $name=${!name}"
    fi
  done <"$file"
}

# set_srun_options [CPUS_PER_TASK]: the array srun_options, for each srun. A task that fails takes the step down at once,
# and one that hangs at the end does so after a minute. Slurm 22.05 to 23.02 do not pass --cpus-per-task on by themselves.
set_srun_options() {
  srun_options=(--kill-on-bad-exit=1 --wait=60 --mpi="$mpi")
  [[ -z ${1:-} ]] || srun_options+=(--cpus-per-task="$1")
  # By Slurm's default MPI_Init does not wait for the other nodes (README.md), and a rank can be sent messages too early.
  [[ $mpi != pmix* ]] || export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}
}

# launch [SRUN_OPTIONS…] PROGRAM…: the tasks of the job as one step.
launch() {
  set_srun_options "${SLURM_CPUS_PER_TASK:-}"
  say "srun ${srun_options[*]} $*"
  srun "${srun_options[@]}" "$@"
}

# tell_end CODE: one line for people; docs/exit_codes.md has the table.
tell_end() {
  case $1 in
    0) say "done" ;;
    20) say "a rank hung (exit code 20): its record is in the run directory; starting again may help" ;;
    21) say "several attempts came no step further (exit code 21): starting again would not help" ;;
    22) say "a newer attempt owns the checkpoint directory (exit code 22): this one left it alone" ;;
    75) say "stopped after a checkpoint (exit code 75): the same command goes on from there" ;;
    *) say "ended with exit code $1; docs/exit_codes.md tells what it means" ;;
  esac
}

# The batch shell outlives the signal that stops its step, to tell how that ended.
trap 'say "got SIGTERM"' TERM

[[ -n ${SLURM_JOB_ID:-} ]] || fail "this is a job script: submit it by sbatch"
say "job $SLURM_JOB_ID on ${SLURM_JOB_NODELIST:-?}, start $((${SLURM_RESTART_COUNT:-0} + 1))"
use_site "${site:-}"
