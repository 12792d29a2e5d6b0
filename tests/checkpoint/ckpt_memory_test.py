"""Working on a checkpoint takes a bounded amount of memory, however large the checkpoint.

ckpt_memory_test.py SHOAL_CKPT MAKE_CHECKPOINT
"""
import os
import shutil
import subprocess
import sys
import tempfile
import time

MEGABYTES = 1200
LIMIT_KIB = 200 * 1024


def peak_kib(command):
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{command}: status {status}")
    return usage.ru_maxrss


def main(shoal_ckpt, make_checkpoint):
    folder = tempfile.mkdtemp(prefix="shoal_memory_")
    try:
        if shutil.disk_usage(folder).free < 5 * MEGABYTES * 10**6:
            print(f"skipped: {folder} has no {5 * MEGABYTES} MB free")
            return 77
        subprocess.run([make_checkpoint, folder + "/ckpt", "1", "3", "0", str(MEGABYTES)], check=True)
        failed = 0
        for arguments in (["consolidate", folder + "/ckpt", "--output", folder + "/all.h5"],
                          ["consolidate", folder + "/ckpt", "--output", folder + "/all.pt"],
                          ["export", folder + "/ckpt", "--workers", "8", "--dtype", "bf16", "--output",
                           folder + "/all.safetensors"],
                          ["verify", folder + "/ckpt", "--workers", "4"],
                          ["reshard", folder + "/ckpt", "--ranks", "5", "--output", folder + "/five"],
                          ["diff", folder + "/ckpt", folder + "/five"]):
            start = time.monotonic()
            peak = peak_kib([shoal_ckpt] + arguments)
            seconds = time.monotonic() - start
            print(f"{arguments[0]} {arguments[-1]}: peak {peak / 1024:.0f} MiB, {MEGABYTES / seconds:.0f} MB/s")
            failed += peak > LIMIT_KIB
        return 1 if failed else 0
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
