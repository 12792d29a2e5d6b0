# shellcheck shell=bash
# The configuration files of a sandbox's Slurm; sourced by `up`, which sets what they depend on.
# shellcheck disable=SC2154

# Each with its reason. Timers are short so that a lost node or a job that must go is not waited for.
#   cred_expire=5        a requeued job may start only when its old credential has expired; 120 s unless told otherwise
#   SlurmctldPort        another Slurm of this machine keeps its own
#   linuxproc, task/none work without a cgroup of ours
#   config_overrides     nodes may claim more processors than the machine has
slurm_defaults() {
  cat <<CONF
ClusterName=sandbox$index
SlurmctldHost=$(hostname -s)($subnet.254)
SlurmctldPort=$((26800 + index))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$run/munge.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$run/slurmctld.pid
SlurmdPidFile=$run/slurmd-%n.pid
SlurmctldLogFile=$logs/slurmctld.log
SlurmdLogFile=$logs/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=pmix
ReturnToService=2
JobRequeue=1
KillWait=4
SlurmdTimeout=8
MinJobAge=3600
JobCompType=jobcomp/filetxt
JobCompLoc=$logs/jobs.log
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
CONF
}

# A line of the user's replaces ours, since Slurm takes one value a key.
write_slurm_conf() {
  local line key text
  text=$(slurm_defaults)
  for line in "${extra_conf[@]}"; do
    key=${line%%=*}
    text=$(grep -vi "^$key=" <<<"$text"; echo "$line")
  done
  local names="n[1-$node_count]"
  {
    echo "$text"
    echo "NodeName=$names NodeAddr=$subnet.[1-$node_count] Port=17001 CPUs=$cpus RealMemory=$memory"
    echo "PartitionName=main Nodes=$names Default=YES PriorityTier=10 PreemptMode=OFF"
    echo "PartitionName=urgent Nodes=$names PriorityTier=20 PreemptMode=OFF"
    echo "PartitionName=preemptible Nodes=$names PriorityTier=1 PreemptMode=REQUEUE GraceTime=0"
    echo "PartitionName=graceful Nodes=$names PriorityTier=1 PreemptMode=REQUEUE GraceTime=10"
  } >"$conf"
}

write_hosts() {
  local k
  {
    echo "127.0.0.1 localhost"
    echo "$subnet.254 $(hostname -s)"
    echo "$subnet.253 storage"
    for k in "${!nodes[@]}"; do echo "$subnet.$((k + 1)) ${nodes[k]}"; done
  } >"$etc/hosts"
}

write_configuration() {
  local node
  for node in "${nodes[@]}"; do mkdir -p "$dir/spool/$node"; done
  write_slurm_conf
  write_hosts
  sed 's/^hosts:.*/hosts: files/' /etc/nsswitch.conf >"$etc/nsswitch.conf"
  # Without it steps of four nodes fail: PMIx makes its folder in a place that all nodes of this machine share.
  echo "PMIxCliTmpDirBase=/dev/shm" >"$etc/mpi.conf"
  # slurmd looks which version of cgroups the machine has even where no plug-in of ours uses them, and ends where it
  # cannot tell. Told this one it looks at nothing.
  printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$etc/cgroup.conf"
  dd if=/dev/urandom of="$etc/munge.key" bs=1024 count=1 status=none
  chmod 600 "$etc/munge.key"
}
