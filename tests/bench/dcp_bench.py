"""What checkpoint_bench.cpp measures, with PyTorch's distributed checkpoint (DCP) over gloo: the same tensors, ranks and
bytes, in the same directory.

    torchrun --nproc-per-node RANKS tests/bench/dcp_bench.py DIRECTORY MIB_A_RANK [rounds]     a JSON line of rank 0
"""
import json
import os
import shutil
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

PARAMETERS = 150


def main():
    folder, mib, rounds = os.path.join(sys.argv[1], "dcp_bench"), int(sys.argv[2]), int((sys.argv[3:] or [3])[0])
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    count = (mib << 20) // (3 * PARAMETERS) // 4
    state = {f"{kind}.h.{p}.weight": DTensor.from_local(torch.arange(count, dtype=torch.float32), mesh, [Shard(0)])
             for kind in ("model", "exp_avg", "exp_avg_sq") for p in range(PARAMETERS)}

    def seconds(body):
        dist.barrier()
        start = time.perf_counter()
        body()
        dist.barrier()
        return time.perf_counter() - start

    def clear():
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(folder, ignore_errors=True)
        dist.barrier()

    times = {}
    for step in range(rounds + 1):
        clear()
        now = {"save": seconds(lambda: dcp.save(state, checkpoint_id=folder))}
        now["load"] = seconds(lambda: dcp.load(state, checkpoint_id=folder))
        clear()
        pending = []
        now["async_stall"] = seconds(lambda: pending.append(dcp.async_save(state, checkpoint_id=folder)))
        now["async_rest"] = seconds(lambda: pending[0].result())
        if step > 0:  # the first one warms up
            for what, value in now.items():
                times.setdefault(what, []).append(value)
    clear()
    if dist.get_rank() == 0:
        print(json.dumps({"ranks": dist.get_world_size(), "mib_a_rank": mib, "rounds": rounds,
                          **{f"dcp_{what}_s": round(statistics.median(values), 4) for what, values in times.items()}}))
    dist.destroy_process_group()


main()
