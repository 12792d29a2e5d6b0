"""'shoal ckpt export' beside cp of as many bytes on the same disk, and beside PyTorch's dcp_to_torch_save of an equal state.

    export_bench.py SHOAL_CKPT MAKE_CHECKPOINT FOLDER MEGABYTES [ROUNDS [WHAT,…]]     lines of JSON

Takes turns, with a cold cache for what is read and outputs synced. WHAT: of cp, hdf5, pt, safetensors, bf16,
dcp, and hdf5-unread and so on without reading back; unless given, all of them. The Python that runs it has torch where
dcp is wanted; FOLDER has room for three times MEGABYTES.
"""
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

ALL = "cp,hdf5,hdf5-unread,pt,pt-unread,safetensors,safetensors-unread,bf16,dcp"

DCP_SAVE = """
import sys, torch, torch.distributed.checkpoint as dcp
elements = int(sys.argv[2]) * 1_000_000 // 8
value = torch.tensor([-0x11111112], dtype=torch.int32).view(torch.float32)  # as make_checkpoint fills its tensors
state = {name: value.expand(shape).contiguous() for name, shape in (("first", (elements,)), ("second", (elements // 10, 10)))}
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
    """Seconds until the output is on the disk, seconds until the command ended, its peak memory in MiB, the load before."""
    load = os.getloadavg()[0]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    ended = time.perf_counter() - start
    if status != 0:
        sys.exit(f"{command}: status {status}")
    sync_all(output)
    synced = time.perf_counter() - start
    shutil.rmtree(output) if os.path.isdir(output) else os.remove(output)
    return synced, ended, usage.ru_maxrss / 1024, load


def commands_for(shoal_ckpt, ckpt, dcp, out):
    commands = {"cp": ["cp", "-r", os.path.dirname(glob.glob(ckpt + "/*/shards/*.h5")[0]), out]}
    for form in ("hdf5", "pt", "safetensors"):
        commands[form] = [shoal_ckpt, "export", ckpt, "--output", out, "--format", form]
        commands[form + "-unread"] = [*commands[form], "--read-back", "off"]
    commands["bf16"] = [*commands["safetensors"], "--dtype", "bf16"]
    commands["dcp"] = [sys.executable, "-c", DCP_CONVERT, dcp, out]
    return commands


def main(shoal_ckpt, make_checkpoint, folder, megabytes, rounds="3", wanted=ALL):
    folder = os.path.join(folder, "export_bench")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    ckpt, dcp, out = folder + "/ckpt", folder + "/dcp", folder + "/out"
    try:
        subprocess.run([make_checkpoint, ckpt, "1", "4", "0", megabytes], check=True, stdout=subprocess.DEVNULL)
        commands = {name: command for name, command in commands_for(shoal_ckpt, ckpt, dcp, out).items()
                    if name in wanted.split(",")}
        if "dcp" in commands:
            subprocess.run([sys.executable, "-c", DCP_SAVE, dcp, megabytes], check=True)
        times = {name: [] for name in commands}
        for _ in range(int(rounds)):
            for name, command in commands.items():
                make_cold(folder)
                times[name].append(measured(command, out))
        for name, runs in times.items():
            synced, ended, peak, _ = (statistics.median(values) for values in zip(*runs))
            print(json.dumps({"what": name, "megabytes": int(megabytes), "seconds_synced": round(synced, 2),
                              "seconds": round(ended, 2), "peak_mib": round(peak),
                              "all_seconds_synced": [round(run[0], 2) for run in runs],
                              "load": [round(run[3], 1) for run in runs]}))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
