"""The other side of pytorch_fsdp.sh: PyTorch's FSDP over gloo on the same MNIST job.

torchrun --nproc-per-node 2 fsdp1_mnist_cpu.py --data DIR --epochs N
Prints one JSON line: seconds of the training loop, test accuracy, peak resident MiB of rank 0.
"""
import argparse
import functools
import gzip
import json
import os
import resource
import struct
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, 1), nn.Conv2d(32, 64, 3, 1)
        self.dropout1, self.dropout2 = nn.Dropout(0.25), nn.Dropout(0.5)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = self.dropout2(F.relu(self.fc1(torch.flatten(self.dropout1(x), 1))))
        return F.log_softmax(self.fc2(x), 1)


def read_idx(path):
    with (gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb")) as file:
        data = file.read()
    dims = struct.unpack(">" + "I" * data[3], data[4 : 4 + 4 * data[3]])
    return torch.frombuffer(bytearray(data[4 + 4 * data[3] :]), dtype=torch.uint8).reshape(dims)


def load(folder, part):
    images = read_idx(f"{folder}/{part}-images-idx3-ubyte")
    labels = read_idx(f"{folder}/{part}-labels-idx1-ubyte")
    return (images.float().unsqueeze(1) / 255 - 0.1307) / 0.3081, labels.long()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--wrap", default="size:20000")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    (x, y), (test_x, test_y) = load(args.data, "train"), load(args.data, "t10k")
    policy = None
    if args.wrap.startswith("size:"):
        policy = functools.partial(size_based_auto_wrap_policy, min_num_params=int(args.wrap[5:]))
    model = FSDP(Net(), auto_wrap_policy=policy, device_id=torch.device("cpu"))
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(args.epochs):
        model.train()
        # Tensors are in memory and sliced by index: no loader of Python's stands in the way.
        order = torch.randperm(len(x))
        for batch in order.split(64 * world):
            mine = batch.chunk(world)[rank]
            optimizer.zero_grad()
            F.nll_loss(model(x[mine]), y[mine]).backward()
            optimizer.step()
        scheduler.step()
    dist.barrier()
    seconds = time.perf_counter() - start
    model.eval()
    correct = torch.zeros(1)
    with torch.no_grad():
        for images, labels in zip(test_x.split(1000), test_y.split(1000)):
            correct += (model(images).argmax(1) == labels).sum()
    if rank == 0:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"bench": "pytorch-fsdp1-gloo", "ranks": world, "epochs": args.epochs,
                          "seconds": round(seconds, 2), "accuracy": round(correct.item() / len(test_y), 4),
                          "peak_mib": round(peak)}), flush=True)
    dist.destroy_process_group()


main()
