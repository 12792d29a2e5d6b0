# shellcheck shell=bash
# One step over the components of a heterogeneous job. het.sbatch sources it after job.sh.
#
# In about one of 30 such steps srun of Slurm 22.05 does not end after all of its tasks have (two of its threads join the
# same third one), and the job would last until its time limit. So the tasks leave their exit codes in a folder, and an
# srun whose step Slurm does not know any longer is killed.

# What each task runs: task FOLDER PROGRAM…. Signals are for the program, and reach it too.
read -r -d '' tell_code <<'TASK'
folder=$1
shift
trap : INT TERM USR1 USR2
"$@"
code=$?
if ((code != 0 || SLURM_PROCID == 0)); then echo "$code" >"$folder/$SLURM_PROCID"; fi
exit "$code"
TASK

# set_het_command FOLDER GROUPS PROGRAM…: the array het_command, what srun is to be told. Each component has its own CPUs
# for a task; srun would give SLURM_CPUS_PER_TASK of the last one to all.
set_het_command() {
  local folder=$1 groups=$2 group cpus
  shift 2
  het_command=()
  for group in ${groups//,/ }; do
    cpus=SLURM_CPUS_PER_TASK_HET_GROUP_$group
    set_srun_options "${!cpus:-}"
    ((${#het_command[@]} == 0)) || het_command+=(:)
    het_command+=("${srun_options[@]}" --het-group="$group")
    [[ -z ${!cpus:-} ]] || het_command+=(--export="ALL,SLURM_CPUS_PER_TASK=${!cpus}")
    het_command+=(bash -c "$tell_code" task "$folder" "$@")
  done
}

# Whether one of the job's components has a step beside the shell's; it is taken to have one where Slurm does not answer.
has_steps() {
  local k jobs='' id steps step
  for ((k = 0; k < ${SLURM_HET_SIZE:-1}; ++k)); do
    id=SLURM_JOB_ID_HET_GROUP_$k
    jobs+=${jobs:+,}${!id:-$SLURM_JOB_ID}
  done
  steps=$(squeue --noheader --steps --jobs="$jobs" --format=%i 2>/dev/null) || return 0
  for step in $steps; do [[ $step =~ \.(batch|extern|interactive)$ ]] || return 0; done
  return 1
}

# end_stuck SRUN FOLDER: waits until the first task has ended, and then for two looks without a step, and kills SRUN.
end_stuck() {
  local looks_without=0
  until [[ -e $2/0 ]]; do sleep "${look_every:-15}"; done
  while ((looks_without < 2)); do
    sleep "${look_every:-15}"
    if has_steps; then looks_without=0; else ((++looks_without)); fi
  done
  touch "$2/stuck"
  kill -KILL "$1"
}

# code_of_tasks FOLDER: the largest exit code of a task.
code_of_tasks() {
  local file code=0
  for file in "$1"/[0-9]*; do (($(<"$file") <= code)) || code=$(<"$file"); done
  return "$code"
}

# launch_het GROUPS PROGRAM…: the tasks of the components with these numbers (0,1) as one step.
launch_het() {
  local groups=$1 folder srun guard code
  shift
  folder=$(mktemp -d "$PWD/.shoal-job-$SLURM_JOB_ID.XXXXXX") || fail "no folder can be made in '$PWD'"
  set_het_command "$folder" "$groups" "$@"
  say "srun, for each of the components $groups: ${srun_options[*]} $*"
  srun "${het_command[@]}" &
  srun=$!
  end_stuck "$srun" "$folder" &
  guard=$!
  wait "$srun"
  code=$?
  # A signal that is trapped ends wait as well.
  while kill -0 "$srun" 2>/dev/null; do
    wait "$srun"
    code=$?
  done
  kill "$guard" 2>/dev/null
  if [[ -e $folder/stuck ]]; then
    say "all tasks have ended and srun has not (a fault of Slurm 22.05's mpi/pmix): it was killed"
    code_of_tasks "$folder"
    code=$?
  fi
  rm -rf "$folder"
  return "$code"
}
