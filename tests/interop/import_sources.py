"""Directories of torch.distributed.checkpoint as jobs of PyTorch write them: FSDP2, FSDP1, DDP, and a mesh that cuts
tensors in two dimensions. One process of such a job: import_sources.py RANK WORLD PORT OUTPUT. Beside most
directories D lie the whole tensors, as PyTorch gathers them, in D.pt."""
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType, fully_shard
from torch.nn.parallel import DistributedDataParallel

warnings.filterwarnings("ignore")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(5, 7)
        self.norm = torch.nn.BatchNorm1d(7)
        self.last = torch.nn.Linear(7, 3)
        self.scale = torch.nn.Parameter(torch.ones(()))  # no dimension to cut

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x)))) * self.scale


def train(model, steps=3):
    """AdamW with moments in it; the optimizer."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    torch.manual_seed(1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(6, 5)).square().mean().backward()
        optimizer.step()
    return optimizer


def save(model, optimizer, path, **more):
    whole = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    state, moments = get_state_dict(model, optimizer)
    dcp.save({"model": state, "optimizer": moments, **more}, checkpoint_id=path)
    if dist.get_rank() == 0:
        torch.save({"model": whole[0], "optimizer": whole[1]}, path + ".pt")


def save_fsdp1(model, optimizer, path):
    """With its own functions: get_state_dict() crashes on it where there is no GPU (PyTorch 2.11)."""
    fsdp = FullyShardedDataParallel
    with fsdp.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        dcp.save({"model": model.state_dict(), "optimizer": fsdp.optim_state_dict(model, optimizer)}, checkpoint_id=path)


def fsdp2(world):
    model = Net()
    del model.scale  # fully_shard takes no parameter without dimensions
    model.scale = 1.0
    mesh = init_device_mesh("cpu", (world,))
    fully_shard(model.first, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def two_dimensions(world):
    """Column- and row-wise, so that chunks are boxes."""
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (world,))
    torch.manual_seed(3)
    whole = {"a": torch.randn(6, 10), "b": torch.randn(3, 4, 5).to(torch.bfloat16), "c": torch.arange(12).view(3, 4)}
    cut = {name: distribute_tensor(t, mesh, [Shard(t.dim() - 1)]) for name, t in whole.items()}
    return whole, cut


def main():
    rank, world, port, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    model = fsdp2(world)
    save(model, train(model), out + "/fsdp2", step=3)

    torch.manual_seed(0)
    model = DistributedDataParallel(Net())
    optimizer = train(model)
    whole = {"model": {k: v.clone() for k, v in model.module.state_dict().items()}, "optimizer": optimizer.state_dict()}
    save(model, optimizer, out + "/ddp")
    dcp.save({"state_dict": model.state_dict()}, checkpoint_id=out + "/ddp_plain")
    if rank == 0:
        torch.save(whole, out + "/nested.pt")
        torch.save({"model": whole["model"]}, out + "/ddp_plain.pt")

    torch.manual_seed(0)
    inner = Net()
    del inner.scale
    inner.scale = 1.0
    model = FullyShardedDataParallel(inner, device_id=torch.device("cpu"), use_orig_params=True)
    optimizer = train(model)
    save_fsdp1(model, optimizer, out + "/fsdp1")

    whole, cut = two_dimensions(world)
    dcp.save(cut, checkpoint_id=out + "/boxes")
    if rank == 0:
        torch.save({"model": whole}, out + "/boxes.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
