# shellcheck shell=bash
# Shared by the commands of this folder; sourced, not run. What a sandbox has on disk is named here and nowhere else.
set -euo pipefail

program=$(basename "$0")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${SHOAL_SANDBOX_DIR:-/var/lib/shoal-sandbox}

etc=$dir/etc                      # of Slurm, munge and the nodes
run=$dir/run                      # sockets, pid files, marks of nodes that are ready
logs=$dir/log
processes_file=$dir/processes     # one line a process: its pid, its start time, what it is
settings_file=$dir/settings       # variables of `up` that the other commands need
conf=$etc/slurm.conf

# What `up` settled, which it keeps in $settings_file.
index=0 bridge='' subnet='' boot='' glusterfs=no nodes=()

say() { echo "sandbox: $*"; }

die() {
  echo "sandbox: error: $1" >&2
  exit "${2:-1}"
}

must_be_root() {
  ((EUID == 0)) || die "$program needs root: it makes network and mount namespaces"
}

# wait_for SECONDS WHAT COMMAND…: polls until the command succeeds.
wait_for() {
  local seconds=$1 what=$2
  local end=$((SECONDS + seconds))
  shift 2
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < end)) || die "$what did not happen within $seconds s; the logs are in $logs"
    sleep 0.05
  done
}

# A client command of this sandbox's Slurm. They hang where the controller is gone, so each has a time limit.
client() {
  SLURM_CONF=$conf timeout --kill-after=2 "${client_seconds:-10}" "$@"
}

# ---- processes -------------------------------------------------------------------------------------------------------

# A pid alone does not name a process: after a while the kernel gives it to another. With the time of the start it does.
# A zombie has ended, whether or not somebody asks for its exit code.
start_time_of() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  stat=${stat##*) }  # the name before it may hold blanks
  [[ $stat != Z* ]] && cut -d' ' -f20 <<<"$stat"
}

is_running() {
  local pid=$1 start_time=$2
  [[ $(start_time_of "$pid") == "$start_time" ]]
}

# start_process ROLE COMMAND…: in the background, in a session of its own, with its output in a log. The line is written
# before the command runs, so that nothing is ever started which `down` does not know.
start_process() {
  local role=$1
  shift
  (
    pid=$BASHPID
    echo "$pid $(start_time_of "$pid") $role" >>"$processes_file"
    exec setsid "$@" </dev/null >>"$logs/$role.log" 2>&1 9>&-
  ) &
  local started=$!
  disown
  until grep -q "^$started " "$processes_file"; do sleep 0.01; done
}

# pid_of ROLE: of the one that runs; nothing and failure where none does.
pid_of() {
  local pid start_time role
  while read -r pid start_time role; do
    if [[ $role == "$1" ]] && is_running "$pid" "$start_time"; then
      echo "$pid"
      return 0
    fi
  done < <(cat "$processes_file" 2>/dev/null)
  return 1
}

child_of() {
  local status
  status=$(grep -sl $'^PPid:\t'"$1"'$' /proc/[0-9]*/status | head -n 1)
  [[ -n $status ]] && cut -d/ -f3 <<<"$status"
}

# ---- nodes -----------------------------------------------------------------------------------------------------------

is_up() { [[ -e $settings_file ]]; }

save_settings() {
  boot=$(cat /proc/sys/kernel/random/boot_id)
  printf '%s=%q\n' index "$index" bridge "$bridge" subnet "$subnet" boot "$boot" glusterfs "$glusterfs" \
    >"$settings_file.part"
  echo "nodes=(${nodes[*]})" >>"$settings_file.part"
  mv "$settings_file.part" "$settings_file"
}

load_settings() {
  is_up || die "there is no sandbox in $dir: $here/up starts one"
  # shellcheck source=/dev/null
  source "$settings_file"
}

# After a restart of the machine nothing of a sandbox runs, and its pids and names may be those of others.
is_of_this_boot() { [[ $boot == $(cat /proc/sys/kernel/random/boot_id) ]]; }

# start_machine NAME: process 1 in namespaces of its own, in the network that make_network_of made.
start_machine() {
  start_process "node-$1" nsenter "--net=/run/netns/$bridge-$1" \
    unshare --mount --uts --pid --fork --kill-child --mount-proc \
    "$here/node-init" "$1" "$etc" "$run/ready-$1"
}

# What holds the namespaces of a node open: its process 1.
init_of() { child_of "$(pid_of "node-$1")" || die "node $1 is not running: see $logs/node-$1.log"; }

# in_node NODE COMMAND…: as if logged in there, in the same folder.
in_node() {
  local init
  init=$(init_of "$1") || exit
  shift
  # shellcheck disable=SC2016  # expanded by the inner shell
  nsenter -t "$init" --mount --uts --net --pid -- \
    bash -c 'cd "$1" 2>/dev/null || cd /; shift; exec "$@"' bash "$PWD" "$@"
}

# The pid, as the node counts, of its slurmd. The file outlives the process, so the name is looked at too.
slurmd_pid() {
  local pid
  pid=$(cat "$run/slurmd-$1.pid" 2>/dev/null) && [[ $(in_node "$1" cat "/proc/$pid/comm" 2>/dev/null) == slurmd ]] &&
    echo "$pid"
}

start_slurmd() {
  [[ -z $(slurmd_pid "$1") ]] || return 0
  rm -f "$run/slurmd-$1.pid"
  in_node "$1" env SLURM_CONF="$conf" slurmd -N "$1" >>"$logs/slurmd-$1.log" 2>&1 9>&-
}

state_of_node() { client sinfo --noheader --nodes "$1" --format %t | head -n 1; }

node_is_ready() { [[ $(state_of_node "$1") =~ ^(idle|alloc|mix)$ ]]; }
