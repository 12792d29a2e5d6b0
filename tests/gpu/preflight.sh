#!/usr/bin/env bash
# shoal preflight on all GPUs of this machine: preflight.sh BIN [GPUS]      BIN holds shoal-preflight
# All GPUs are seen, none is found ill, NCCL's sums are right and as fast as any link; faults of the command are named.
# Prints one line a check, and the table; exit code 1 where one fails, 77 where there is no GPU.
set -uo pipefail
gpus=${2:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')}
if [[ $gpus -lt 1 ]]; then
  echo "no GPU here: nothing of this was run"
  exit 77
fi
bin=$(realpath "$1")
export NCCL_NVLS_ENABLE=0 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
preflight() { timeout 300 mpirun --bind-to none -n "$1" "$bin/shoal-preflight" "${@:2}" >"$work/log" 2>&1; rc=$?; }
verdict() {  # verdict NAME CONDITION…: the last run's output is shown where the condition does not hold
  if "${@:2}"; then echo "ok      $1"; else echo "FAILED  $1"; tail -n 40 "$work/log"; failed=1; fi
}

preflight "$gpus" --device cuda --checkpoint-dir "$work/ck" --size 256 --json "$work/report.json"
cat "$work/log"
all_is_well() {
  python3 - "$work/report.json" "$gpus" "$rc" <<'PYTHON'
import json, sys
report, gpus, rc = json.load(open(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
checks = {check["check"]: check for check in report["checks"]}
assert report["exit_code"] == rc, (report["exit_code"], rc)
health = checks["gpu.health"]
assert len(health["records"]) >= gpus, health
assert all(record["unit"] == "°C" and 5 < record["value"] < 110 for record in health["records"]), health
ill = [record for record in health["records"] if record["verdict"] == "fail"]
assert not ill or rc == 7, ill  # a GPU may be ill: then that is the exit code
if not ill:
    assert rc == 0, [record for check in report["checks"] for record in check["records"] if record["verdict"] == "fail"]
if gpus == 1:
    assert checks["nccl.job"]["verdict"] == "skip", checks["nccl.job"]
else:
    for name in ("nccl.node", "nccl.job"):
        speeds = [record["value"] for record in checks[name]["records"]]
        assert len(speeds) == gpus and min(speeds) > 1, (name, speeds)  # PCIe gives more than 1 GB/s
        assert max(speeds) < 1000, (name, speeds)                        # NVLink less than 1000
        print(f"# {name}: busbw {min(speeds):.1f} … {max(speeds):.1f} GB/s on {gpus} GPUs")
print("# GPUs:", health["summary"])
PYTHON
}
verdict "all is well on $gpus GPU(s) (exit code $rc)" all_is_well

preflight $((gpus + 1)) --device cuda
verdict "more ranks than GPUs (exit code $rc)" test $rc -eq 7
grep -m1 '^    fail' "$work/log" | cut -c1-300

CUDA_VISIBLE_DEVICES= preflight 1 --device cuda
verdict "GPUs that are asked for and not shown (exit code $rc)" test $rc -eq 7
grep -m1 '^    fail' "$work/log" | cut -c1-300

if [[ $gpus -ge 2 ]]; then
  CUDA_VISIBLE_DEVICES=0 preflight 2 --device cuda
  verdict "two ranks on one GPU (exit code $rc)" test $rc -eq 7
  grep -m1 '^    fail.*GPU' "$work/log" | cut -c1-300
fi
exit $failed
