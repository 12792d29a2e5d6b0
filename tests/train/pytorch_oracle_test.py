#!/usr/bin/env python3
"""pytorch_oracle_test.py SHOAL MNIST_FOLDER LAUNCHER…

The same training by shoal on two ranks and by PyTorch in this process: initial weights from shoal's own export, order of
samples and dropout masks by the formulas in docs/training.md. Losses, weights and the test accuracy must agree.
"""
import gzip
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy
    import torch
    import torch.nn.functional as F
except ImportError:
    sys.exit(77)

# The network, and the formulas of docs/training.md, are those of the longer comparison.
sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
from mnist_job import Net, formulas

RANKS, BATCH, ACCUMULATE, STEPS, SEED = 2, 15, 2, 6, 5
SHOAL, MNIST = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
LAUNCHER = sys.argv[3:]


def read_idx(name, header):
    data = gzip.open(MNIST / f"{name}.gz").read()
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, offset=header).copy())


def read_split(prefix):
    images = read_idx(f"{prefix}-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
    # As ToTensor() and Normalize() compute it.
    inputs = images.to(torch.float32).div(255).sub(torch.tensor(0.1307)).div(torch.tensor(0.3081))
    return inputs, read_idx(f"{prefix}-labels-idx1-ubyte", 8).to(torch.int64)


def shoal(ranks, *options):
    command = [*LAUNCHER, str(ranks), SHOAL, "train", "--model", "mnist-net", "--data", str(MNIST),
               "--seed", str(SEED), "--log-every", "1", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def train(net, inputs, targets):
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
    part_of, losses = formulas["part_of"], []
    order = formulas["permutation"](len(targets), SEED, 0)
    samples_a_step = RANKS * BATCH * ACCUMULATE
    net.train()
    for step in range(STEPS):
        samples = order[step * samples_a_step:(step + 1) * samples_a_step]
        optimizer.zero_grad()
        total = 0.0
        for micro_step in range(ACCUMULATE):
            for rank in range(RANKS):
                mine = part_of(part_of(samples, micro_step, ACCUMULATE), rank, RANKS)
                torch.manual_seed(formulas["micro_step_seed"](SEED, step, micro_step, rank))
                loss = F.nll_loss(net(inputs[mine]), targets[mine], reduction="sum")
                (loss / len(samples)).backward()
                total += loss.item()
        optimizer.step()
        losses.append(total / len(samples))
    return losses


def accuracy(net, inputs, targets):
    net.eval()
    with torch.no_grad():
        return (net(inputs).argmax(1) == targets).sum().item()


def main(folder):
    torch.set_num_threads(1)
    initial, final = folder / "initial.pt", folder / "final.pt"
    shoal(1, "--max-steps", "1", "--lr", "0", "--checkpoint-dir", str(folder / "a"), "--output", str(initial))
    output = shoal(RANKS, "--max-steps", str(STEPS), "--batch-size", str(BATCH), "--accumulate", str(ACCUMULATE),
                   "--checkpoint-dir", str(folder / "b"), "--output", str(final))
    ours = [float(loss) for loss in re.findall(r"step \d+ .* loss ([\d.]+)", output)]
    correct = int(re.search(r"test accuracy [\d.]+ % \((\d+)/1000\)", output).group(1))

    net = Net()
    net.load_state_dict(torch.load(initial, weights_only=True))
    losses = train(net, *read_split("train"))
    print("shoal:  ", *(f"{loss:.6f}" for loss in ours))
    print("PyTorch:", *(f"{loss:.6f}" for loss in losses))
    assert len(ours) == STEPS and max(abs(a - b) for a, b in zip(ours, losses)) < 1e-4, "the losses differ"

    exported = torch.load(final, weights_only=True)
    for name, tensor in net.state_dict().items():
        difference = (tensor - exported[name]).abs().max().item()
        # Adadelta's first steps enlarge what is rounded otherwise: 1.8e-4 on an AMD EPYC, less on Intel's.
        assert difference < 5e-4, f"{name} differs by {difference}"
    test = read_split("t10k")
    net.load_state_dict(exported)
    assert accuracy(net, *test) == correct, "the test accuracy of the exported weights differs"
    print(f"test accuracy of the exported weights: {correct}/1000 in both")


with tempfile.TemporaryDirectory() as name:
    main(pathlib.Path(name))
