#!/usr/bin/env python3
"""The numbers that a run writes: which there are, that they fit each other and the console, and that a second attempt
goes on in the same file behind a line that the first could not finish.

Usage: metrics_test.py SHOAL MNIST_FOLDER LAUNCHER…"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile


def run(launcher, ranks, *command):
    done = subprocess.run([*launcher, str(ranks), *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


def read(path):
    """All lines but those that a killed process left."""
    lines = []
    for text in path.read_text().splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            lines.append(None)
    return lines


def check_step(line, ranks):
    for key in ("time", "loss", "learning_rate", "grad_norm", "samples_per_second", "step_ms", "reserved_bytes",
                "peak_bytes"):
        assert line[key] > 0, (key, line)
    assert line["ranks"] == ranks and line["reserved_bytes"] <= line["peak_bytes"], line
    assert abs(line["samples_per_second_per_rank"] * ranks - line["samples_per_second"]) < 1e-6 * line["step_ms"] + 1e-3
    assert "allocated_bytes" not in line, line  # nobody counts tensors on a CPU


def check_split(line):
    split = line["split"]
    assert split["step"] == line["step"] - 1
    parts = [split[k] for k in ("compute_ms", "exposed_ms", "optimizer_ms", "data_ms", "host_ms")]
    assert min(parts) >= 0 and split["compute_ms"] > 0 and split["optimizer_ms"] > 0, split
    assert abs(sum(parts) - split["step_ms"]) <= 0.02 * split["step_ms"] + 0.1, split


def check_language_model(shoal, launcher, work):
    """Tokens a second, and MFU where a peak is given: by the formula that docs/metrics.md has."""
    text = work / "text.txt"
    text.write_text("In the beginning God created the heaven and the earth. " * 400)
    layers, hidden, length, vocabulary = 2, 32, 64, 256
    shape = ["--layers", layers, "--heads", 2, "--hidden-size", hidden, "--vocab-size", vocabulary, "--max-positions",
             length]
    log = run(launcher, 2, shoal, "train", "--model", "gpt2-tiny", *shape, "--tokenizer", "bytes", "--data", text,
              "--batch-size", 2, "--max-steps", 4, "--log-every", 2, "--output", "none", "--peak-tflops", 0.5,
              "--checkpoint-dir", "none", "--run-dir", work / "lm")
    steps = [line for line in read(work / "lm/metrics.jsonl") if line["type"] == "step"]
    assert [line["step"] for line in steps] == [2, 4], steps
    parameters = int(re.search(r"(\d+) parameters;", log)[1]) - length * hidden
    flops_a_token = 6 * parameters + 12 * layers * hidden * length
    for line in steps:
        check_step(line, 2)
        check_split(line)
        tokens = line["samples_per_second"] * length
        assert abs(line["tokens_per_second"] / tokens - 1) < 1e-9, line
        assert abs(line["mfu"] / (tokens * flops_a_token / (2 * 0.5e12)) - 1) < 1e-9, line
    assert re.search(r"step 4 .* samples/s .* tok/s  MFU [\d.]+ % .* ms a step \(compute .*left 0:00:00", log), log


def main():
    shoal, mnist, *launcher = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        train = [shoal, "train", "--model", "mnist-net", "--data", mnist, "--batch-size", 8, "--output", "none",
                 "--log-every", 2, "--checkpoint-dir", work / "ck"]
        log = run(launcher, 2, *train, "--max-steps", 6)
        path = work / "ck/run/metrics.jsonl"
        lines = read(path)
        assert [line["type"] for line in lines] == ["start", "step", "step", "step", "validation", "checkpoint"], lines
        start = lines[0]
        assert start["version"] == 1 and start["ranks"] == 2 and start["device"] == "cpu", start
        assert start["model"] == "mnist-net" and start["total_steps"] == 6 and start["from_step"] == 0, start
        for line in lines[1:4]:
            check_step(line, 2)
            check_split(line)
            assert f"loss {line['loss']:.6f}" in log, (line, log)
        with path.open("a") as file:
            file.write('{"type":"step","att')
        run(launcher, 1, *train, "--max-steps", 10)
        lines = read(path)
        assert lines[6] is None and lines[7]["type"] == "start", lines
        assert lines[7]["attempt"] == 2 and lines[7]["from_step"] == 6, lines[7]
        assert [line["step"] for line in lines[8:10]] == [8, 10], lines
        check_step(lines[8], 1)
        check_language_model(shoal, launcher, work)
    print("metrics are as they should be")


main()
