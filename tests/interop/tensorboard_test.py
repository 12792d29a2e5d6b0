#!/usr/bin/env python3
"""What `shoal train --tensorboard` writes is what TensorBoard's own reader finds, number by number, and the same as in
metrics.jsonl.

Usage: tensorboard_test.py SHOAL MNIST_FOLDER LAUNCHER…"""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("no TensorBoard: skipped")
    sys.exit(77)

TAGS = {
    "train/loss": "loss",
    "train/learning_rate": "learning_rate",
    "train/grad_norm": "grad_norm",
    "rate/samples_per_second": "samples_per_second",
    "rate/step_ms": "step_ms",
    "rate/mfu": "mfu",
    "memory/reserved_bytes": "reserved_bytes",
    "memory/peak_bytes": "peak_bytes",
}


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def train(shoal, mnist, launcher, folder, steps):
    command = [*launcher, "2", shoal, "train", "--model", "mnist-net", "--data", mnist, "--batch-size", "8", "--output",
               "none", "--log-every", "1", "--tensorboard", "--checkpoint-every", "3", "--max-steps", str(steps),
               "--checkpoint-dir", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def lines_of(folder):
    return [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]


def check_attempt(folder, lines, attempt):
    events = EventAccumulator(str(folder / f"run/tensorboard/attempt-{attempt:06}"))
    events.Reload()
    mine = [line for line in lines if line["attempt"] == attempt]
    steps = [line for line in mine if line["type"] == "step"]
    assert steps, lines
    for tag, key in TAGS.items():
        wanted = [(line["step"], float32(line[key])) for line in steps if key in line]
        found = [(s.step, s.value) for s in events.Scalars(tag)] if tag in events.Tags()["scalars"] else []
        assert found == wanted, (tag, found, wanted)
    split = [(s.step, s.value) for s in events.Scalars("split_ms/compute")]
    assert split == [(l["step"], float32(l["split"]["compute_ms"])) for l in steps if "split" in l], split
    wall = events.Scalars("train/loss")[0].wall_time
    assert wall == steps[0]["time"], (wall, steps[0])
    saves = [(s.step, s.value) for s in events.Scalars("checkpoint/seconds")]
    assert saves == [(l["step"], float32(l["seconds"])) for l in mine if l["type"] == "checkpoint"], saves
    return len(steps)


def main():
    shoal, mnist, *launcher = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "mnist"
        train(shoal, mnist, launcher, folder, 5)
        train(shoal, mnist, launcher, folder, 8)
        lines = lines_of(folder)
        assert [check_attempt(folder, lines, 1), check_attempt(folder, lines, 2)] == [5, 3]
        assert all("grad_norm" in line for line in lines if line["type"] == "step")
    print("two attempts read back")


main()
