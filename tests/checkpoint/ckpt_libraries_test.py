"""shoal-ckpt runs on a login node: no LibTorch, MPI or GPU library is among what it needs, directly or not.

ckpt_libraries_test.py SHOAL_CKPT
"""
import re
import subprocess
import sys

UNWANTED = re.compile(r"lib(torch|c10|mpi|open-(rte|pal)|cuda|cudart|cudnn|nccl)", re.IGNORECASE)


def main(program):
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    unwanted = [line.strip() for line in listing.splitlines() if UNWANTED.search(line.split("=>")[0])]
    missing = [line.strip() for line in listing.splitlines() if "not found" in line]
    for line in unwanted + missing:
        print(line)
    return 1 if unwanted or missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
