"""Makes the golden files of tests/interop/goldens, a directory each with its true tensors in NAME.pt beside it.

make_import_goldens.py dcp OUTPUT            with the torch at hand: dcp_torch-VERSION
make_import_goldens.py deepspeed OUTPUT      with the DeepSpeed at hand: zero1, zero2, zero3_deepspeed-VERSION

DeepSpeed starts this again for each of two ranks. The true weights are those of its own zero_to_fp32.py, and the true
moments what that makes of a checkpoint in which they stand in the place of the weights.
"""
import glob
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("DS_ACCELERATOR", "cpu")
import torch

warnings.filterwarnings("ignore")


class Net(torch.nn.Module):
    """A frozen layer, a buffer, a tied pair, sizes that no number of ranks divides."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(5, 7)
        self.b = torch.nn.Linear(7, 7)
        self.c = torch.nn.Linear(7, 3, bias=False)
        self.d = torch.nn.Linear(7, 3, bias=False)
        self.d.weight = self.c.weight
        self.frozen = torch.nn.Linear(7, 7)
        self.frozen.requires_grad_(False)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        return (self.c(self.frozen(self.b(self.a(x)))) + self.d(self.b(self.a(x)))) * self.scale


def dcp(output):
    import torch.distributed as dist
    import torch.distributed.checkpoint as checkpoint

    dist.init_process_group("gloo", rank=0, world_size=1, init_method="tcp://127.0.0.1:29873")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Linear(6, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
    names = [name for name, _ in model.named_parameters()]
    state = {names[i]: values for i, values in optimizer.state_dict()["state"].items()}
    groups = [{**group, "params": names} for group in optimizer.state_dict()["param_groups"]]
    name = os.path.join(output, "dcp_torch-" + torch.__version__.split("+")[0])
    saved = {"model": model.state_dict(), "optimizer": {"state": state, "param_groups": groups}}
    shutil.rmtree(name, ignore_errors=True)
    if hasattr(checkpoint, "save"):
        checkpoint.save(saved, storage_writer=checkpoint.FileSystemWriter(name))
    else:
        checkpoint.save_state_dict(saved, checkpoint.FileSystemWriter(name))
    moments = {f"{k}/{n}": v for n, values in state.items() for k, v in values.items() if k != "step"}
    torch.save({"model": dict(model.state_dict()), "moments": moments, "step": 2}, name + ".pt")
    dist.destroy_process_group()


def zero_rank(stage, name):
    import deepspeed

    deepspeed.init_distributed("gloo")
    torch.manual_seed(0)
    model = Net()
    decayed = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    others = [p for p in model.parameters() if p.requires_grad and p.dim() == 1]
    config = {"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": True}, "zero_allow_untested_optimizer": True,
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "torch_adam": True}},
              "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0}}
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    engine, *_ = deepspeed.initialize(model=model, model_parameters=groups, config=config)
    torch.manual_seed(1 + int(os.environ["RANK"]))
    for _ in range(3):
        engine.backward(engine(torch.randn(4, 5, dtype=torch.bfloat16)).float().square().mean())
        engine.step()
    engine.save_checkpoint(name, tag="global_step3")


def true_moments(name, stage, kind):
    """{NAME: tensor} as zero_to_fp32.py puts the partitions of a moment together."""
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        swapped = shutil.copytree(name, folder + "/swapped")
        for path in glob.glob(swapped + "/*/*_optim_states.pt"):
            saved = torch.load(path, weights_only=False)
            state = saved["optimizer_state_dict"]
            base = state["optimizer_state_dict" if stage == 3 else "base_optimizer_state"]["state"]
            state["fp32_flat_groups" if stage == 3 else "single_partition_of_fp32_groups"] = [
                base[group][kind] for group in sorted(base)]
            torch.save(saved, path)
        return get_fp32_state_dict_from_zero_checkpoint(swapped, exclude_frozen_parameters=True)


def zero(stage, output):
    import deepspeed
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    name = os.path.join(output, f"zero{stage}_deepspeed-{deepspeed.__version__}")
    shutil.rmtree(name, ignore_errors=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    ranks = []
    for rank in range(2):
        env = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        ranks.append(subprocess.Popen([sys.executable, __file__, "zero_rank", str(stage), name], env=env))
    assert [r.wait() for r in ranks] == [0, 0]
    model = dict(get_fp32_state_dict_from_zero_checkpoint(name))
    if stage == 1:  # which that function leaves out
        module = torch.load(name + "/global_step3/mp_rank_00_model_states.pt", weights_only=False)["module"]
        model.update({key: value for key, value in module.items() if key not in model})
    trained = [key for key, p in Net().named_parameters() if p.requires_grad]  # a tied one once
    moments = {f"{kind}/{key}": tensor.clone() for kind in ("exp_avg", "exp_avg_sq")
               for key, tensor in true_moments(name, stage, kind).items() if key in trained}
    for script in ("zero_to_fp32.py", "zero_to_torch.py"):
        if os.path.exists(os.path.join(name, script)):
            os.remove(os.path.join(name, script))
    torch.save({"model": {k: v.clone() for k, v in model.items()}, "moments": moments, "step": 3}, name + ".pt")


if __name__ == "__main__":
    if sys.argv[1] == "dcp":
        dcp(sys.argv[2])
    elif sys.argv[1] == "zero_rank":
        zero_rank(int(sys.argv[2]), sys.argv[3])
    else:
        for number in (1, 2, 3):
            zero(number, sys.argv[2])
