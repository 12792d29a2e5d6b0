"""'shoal ckpt export' beside cp of as many bytes on the same disk, and beside PyTorch's dcp_to_torch_save of an equal state.

    export_bench.py SHOAL_CKPT MAKE_CHECKPOINT FOLDER MEGABYTES [ROUNDS]     lines of JSON

Takes turns, with a cold cache for what is read and outputs synced. The Python that runs it has torch; FOLDER has room for
four times MEGABYTES.
"""
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

DCP_SAVE = """
import sys, torch, torch.distributed.checkpoint as dcp
elements = int(sys.argv[2]) * 1_000_000 // 8
state = {name: torch.zeros(shape) for name, shape in (("first", (elements,)), ("second", (elements // 10, 10)))}
dcp.save(state, checkpoint_id=sys.argv[1], no_dist=True)
"""
DCP_CONVERT = """
import sys
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
dcp_to_torch_save(sys.argv[1], sys.argv[2])
"""


def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def make_cold(folder):
    for path in glob.glob(folder + "/**", recursive=True):
        if os.path.isfile(path):
            sync(path)
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def sync_all(path):
    for file in glob.glob(path + "/**", recursive=True) if os.path.isdir(path) else [path]:
        if os.path.isfile(file):
            sync(file)


def measured(command, output):
    """Seconds until the output is on the disk, seconds until the command ended, and its peak memory in MiB."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    ended = time.perf_counter() - start
    if status != 0:
        sys.exit(f"{command}: status {status}")
    sync_all(output)
    synced = time.perf_counter() - start
    shutil.rmtree(output) if os.path.isdir(output) else os.remove(output)
    return synced, ended, usage.ru_maxrss / 1024


def main(shoal_ckpt, make_checkpoint, folder, megabytes, rounds=3):
    folder = os.path.join(folder, "export_bench")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    ckpt, dcp, out = folder + "/ckpt", folder + "/dcp", folder + "/out"
    subprocess.run([make_checkpoint, ckpt, "1", "4", "0", str(megabytes)], check=True, stdout=subprocess.DEVNULL)
    shards = sorted(glob.glob(ckpt + "/*/shards/*.h5"))
    subprocess.run([sys.executable, "-c", DCP_SAVE, dcp, str(megabytes)], check=True)
    commands = {"cp": ["cp", "-r", os.path.dirname(shards[0]), out]}
    for form in ("hdf5", "pt", "safetensors"):
        commands[form] = [shoal_ckpt, "export", ckpt, "--output", out, "--format", form]
    commands["safetensors, bf16"] = [*commands["safetensors"], "--dtype", "bf16"]
    commands["dcp_to_torch_save"] = [sys.executable, "-c", DCP_CONVERT, dcp, out]
    times = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            make_cold(folder)
            times[name].append(measured(command, out))
    for name, runs in times.items():
        synced, ended, peak = (statistics.median(values) for values in zip(*runs))
        print(json.dumps({"what": name, "megabytes": megabytes, "rounds": rounds, "seconds_synced": round(synced, 2),
                          "seconds": round(ended, 2), "peak_mib": round(peak),
                          "all_seconds_synced": [round(r[0], 2) for r in runs]}))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))
