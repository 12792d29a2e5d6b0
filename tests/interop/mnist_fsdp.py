"""The job of mnist_job.py by PyTorch's own FSDP: a process for each rank, over gloo, units by size."""
import functools

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

import mnist_job


def _train_as_rank(rank, ranks, folder, net, data, steps):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=20000)
    sharded = FullyShardedDataParallel(net, auto_wrap_policy=policy, device_id=torch.device("cpu"))
    trainer, samples = mnist_job.Trainer(sharded), mnist_job.read_split(data, "train")
    losses = []

    def backward(step):
        count = len(mnist_job.samples_of(step))
        loss = mnist_job.loss_of_rank(sharded, samples, step, rank, ranks)
        (loss * ranks / count).backward()  # FSDP takes the mean over the ranks
        total = loss.detach().double()
        dist.all_reduce(total)
        losses.append(total.item() / count)

    for _ in range(steps):
        trainer.step(backward)
    if rank == 0:
        torch.save(losses, f"{folder}/fsdp_losses.pt")
    dist.destroy_process_group()


def train(folder, net, data, ranks, steps):
    """Mean losses of the first steps from the weights of `net`, which stays as it is. `folder` takes scratch files."""
    torch.multiprocessing.spawn(_train_as_rank, (ranks, folder, net, data, steps), nprocs=ranks)
    return torch.load(folder / "fsdp_losses.pt", weights_only=True)
