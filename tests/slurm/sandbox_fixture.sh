#!/usr/bin/env bash
# The sandbox of the live tests: sandbox_fixture.sh up | down, with SHOAL_SANDBOX_DIR set.
set -euo pipefail
tools=$(cd "$(dirname "$0")/../../slurm/sandbox" && pwd)

skip() {
  echo "skipped: $1"
  exit 77
}

case $1 in
  down) "$tools/down" --purge ;;
  up)
    ((EUID == 0)) || skip "a sandbox needs root"
    [[ -n $(command -v apt-get) ]] || skip "a sandbox needs Debian"
    missing=$("$tools/install" --missing)
    [[ -z $missing ]] || skip "packages are missing (slurm/sandbox/install): ${missing//$'\n'/ }"
    unshare --mount --uts --net --pid --fork true 2>/dev/null || skip "root may not make namespaces here"
    options=(--cpus 8)
    if [[ -z $("$tools/install" --missing --glusterfs) && -c /dev/fuse ]]; then options+=(--glusterfs); fi
    "$tools/down" --purge  # what a run that was killed has left
    "$tools/up" "${options[@]}"
    "$tools/status"
    ;;
esac
