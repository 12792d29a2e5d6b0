"""The MNIST job of `shoal train --model mnist-net` in PyTorch: same samples, same dropout masks, same update.

What a run's rules are is taken from the formulas of docs/training.md as they stand there, so that whoever compares with
this also finds out whether that page is right.
"""
import functools
import gzip
import pathlib
import re
import struct

import torch
import torch.nn.functional as F

SEED = 3
TRAIN_SAMPLES = 1000
GLOBAL_BATCH = 61  # odd, so that two ranks have unequal shares, and an epoch ends with a smaller step
STEPS_PER_EPOCH = -(-TRAIN_SAMPLES // GLOBAL_BATCH)

_document = (pathlib.Path(__file__).resolve().parents[2] / "docs/training.md").read_text(encoding="utf-8")
formulas = {}
exec(re.search(r"```python\n(.*?)```", _document, re.DOTALL).group(1), formulas)


class Net(torch.nn.Module):
    """The network of https://github.com/pytorch/examples/blob/main/mnist/main.py, which the FSDP tutorial uses too."""

    def __init__(self):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 32, 3, 1)
        self.conv2 = torch.nn.Conv2d(32, 64, 3, 1)
        self.dropout1 = torch.nn.Dropout(0.25)
        self.dropout2 = torch.nn.Dropout(0.5)
        self.fc1 = torch.nn.Linear(9216, 128)
        self.fc2 = torch.nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        x = F.relu(self.fc1(torch.flatten(self.dropout1(x), 1)))
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


def write_smaller_data(source, folder):
    """Into `folder`: the first TRAIN_SAMPLES of the training data, and the test data as they are."""
    folder.mkdir()
    for part, header, sample_bytes in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        data = gzip.decompress((source / f"train-{part}-ubyte.gz").read_bytes())
        count = struct.pack(">I", TRAIN_SAMPLES)
        kept = data[:4] + count + data[8:header + TRAIN_SAMPLES * sample_bytes]
        (folder / f"train-{part}-ubyte").write_bytes(kept)
        (folder / f"t10k-{part}-ubyte").write_bytes(gzip.decompress((source / f"t10k-{part}-ubyte.gz").read_bytes()))
    return folder


def read_split(folder, prefix):
    """Inputs [n, 1, 28, 28], normalised as torchvision's ToTensor() and Normalize() do it, and targets [n]."""
    def read(part, header):
        return torch.frombuffer(bytearray((folder / f"{prefix}-{part}-ubyte").read_bytes()[header:]), dtype=torch.uint8)

    images = read("images-idx3", 16).reshape(-1, 1, 28, 28).float()
    inputs = images.div(255).sub(torch.tensor(0.1307)).div(torch.tensor(0.3081))
    return inputs, read("labels-idx1", 8).long()


@functools.cache
def order_of(epoch):
    return formulas["permutation"](TRAIN_SAMPLES, SEED, epoch)


def samples_of(step):
    order = order_of(step // STEPS_PER_EPOCH)
    begin = step % STEPS_PER_EPOCH * GLOBAL_BATCH
    return order[begin:begin + GLOBAL_BATCH]


def loss_of_rank(net, data, step, rank, ranks):
    """Sum of the losses of the rank's share of the step, under the rank's dropout masks."""
    inputs, targets = data
    mine = formulas["part_of"](samples_of(step), rank, ranks)
    torch.manual_seed(formulas["micro_step_seed"](SEED, step, 0, rank))
    return F.nll_loss(net(inputs[mine]), targets[mine], reduction="sum")


def initial_weights(name, parameter):
    """torch's default for linear and convolution layers, drawn as docs/training.md says."""
    weight_name = name.replace(".bias", ".weight")
    fan_in = {"conv1.weight": 9, "conv2.weight": 32 * 9, "fc1.weight": 9216, "fc2.weight": 128}[weight_name]
    generator = torch.Generator().manual_seed(formulas["parameter_seed"](SEED, name))
    return torch.empty_like(parameter).uniform_(-fan_in**-0.5, fan_in**-0.5, generator=generator)


class Trainer:
    """Adadelta and the step schedule around a module: the defaults of --model mnist-net."""

    def __init__(self, net, lr=1.0):
        self.net = net.train()
        self.optimizer = torch.optim.Adadelta(net.parameters(), lr=lr)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, step_size=1, gamma=0.7)
        self.steps = 0  # taken so far

    def step(self, backward):
        """`backward(step)` leaves the gradient of the step's mean loss."""
        self.optimizer.zero_grad()
        backward(self.steps)
        self.optimizer.step()
        self.steps += 1
        if self.steps % STEPS_PER_EPOCH == 0:
            self.scheduler.step()


def train(trainer, data, ranks, steps):
    """Takes so many steps, the ranks' shares one after the other in this process. Returns the steps' mean losses."""
    losses = []

    def backward(step):
        count, total = len(samples_of(step)), 0.0
        for rank in range(ranks):
            loss = loss_of_rank(trainer.net, data, step, rank, ranks)
            (loss / count).backward()
            total += loss.item()
        losses.append(total / count)

    for _ in range(steps):
        trainer.step(backward)
    return losses
