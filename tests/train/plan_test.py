#!/usr/bin/env python3
"""`shoal plan` says of a job what the job then says of itself: the memory of a rank, and the size of a checkpoint.

Usage: plan_test.py SHOAL MNIST_FOLDER LAUNCHER…"""
import json
import re
import subprocess
import sys
import tempfile

shoal, mnist, *launcher = sys.argv[1:]


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def plan(*options):
    done = run(shoal, "plan", "--json", *options)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def check_sums():
    """What a program reads as the peak is the table's column."""
    options = ["--model", "gpt2-tiny", "--ranks", 4, "--batch-size", 8]
    table = run(shoal, "plan", *options).stdout
    column = re.search(r"^strategy.*$", table, re.M)
    for line in plan(*options)["strategies"]:
        assert line["peak"] == line["sum"] + line["activations"], line
        row = re.search(rf"^{line['strategy']} .*$", table, re.M).group(0)
        at = column.group(0).index("peak")
        assert float(row[at:].split()[0]) == round(line["peak"] / 2**30, 3), (row, line)


def refused(words, code, *options):
    done = run(shoal, "plan", *options)
    assert done.returncode == code and words in done.stderr and len(done.stderr.splitlines()) == 1, done


def check_against_a_run(folder, strategy, *options):
    planned = plan("--model", "mnist-net", "--ranks", 2, "--device", "cpu", *options)
    mine = next(line for line in planned["strategies"] if line["strategy"] == strategy)
    done = run(*launcher, 2, shoal, "train", "--model", "mnist-net", "--data", mnist, "--max-steps", 1, "--strategy", strategy,
               "--output", "none", "--checkpoint-dir", folder, *options)
    assert done.returncode == 0, done
    told = re.search(r"planned for that: ([\d.]+) MiB, ([\d.]+) of them activations", done.stdout)
    activations = planned["activations"]
    assert 0 < activations["kept"] <= activations["peak"], planned
    assert told and told[1] == f"{(mine['sum'] + activations['peak']) / 2**20:.1f}", (mine, done.stdout)
    assert told[2] == f"{activations['peak'] / 2**20:.1f}", (planned, done.stdout)
    size = re.search(r"a checkpoint takes ([\d.]+) MiB", done.stderr)
    assert size and size[1] == f"{planned['checkpoint_bytes'] / 2**20:.1f}", (planned, done.stderr)
    assert f"; {planned['parameters']} parameters;" in done.stderr, (planned, done.stderr)


def check_large_model():
    """70 GB of weights and states, of which this process takes nothing; by the formulas of mixed precision with AdamW."""
    planned = plan("--model", "llama-8b", "--ranks", 64, "--param-dtype", "bf16")
    numel = planned["parameters"]
    assert numel == 8030261248, numel
    assert planned["checkpoint_bytes"] // (12 * numel) == 1, planned
    full = planned["strategies"][0]
    for part, bytes_each in (("masters", 4), ("gradients", 4), ("optimizer_states", 8)):
        assert 1 <= full[part] / (bytes_each * numel / 64) < 1.001, (part, full)
    assert full["compute_shards"] == 0, full  # rounded as they are gathered
    none = planned["strategies"][-1]
    assert 1 <= none["compute_shards"] / (2 * numel) < 1.001, none
    assert none["shards"] == 1 and none["unit_buffers"] == 0 and none["replicated"] > 8 * numel * 0.98, none
    assert none["sum"] > 12 * full["sum"], (none, full)


def main():
    with tempfile.TemporaryDirectory() as work:
        for i, (strategy, options) in enumerate([("full_shard", []), ("shard_grad_op", ["--param-dtype", "bf16"]),
                                                 ("no_shard", ["--optimizer", "sgd"])]):
            check_against_a_run(f"{work}/{i}", strategy, *options)
    check_sums()
    check_large_model()
    text = run(shoal, "plan", "--model", "gpt2-124m", "--ranks", 4, "--sequence-length", 256, "--batch-size", 1, "--param-dtype", "bf16",
               "--card-gib", "1.9")
    assert text.returncode == 0 and re.search(r"no_shard .* no\b", text.stdout), text
    assert re.search(r"full_shard .* yes\b", text.stdout), text
    refused("--ranks N is missing", 2, "--model", "gpt2-124m")
    refused("there is no 'gpt9'", 2, "--model", "gpt9", "--ranks", 2)
    refused("no multiple of --ranks-per-node 3", 2, "--model", "gpt2-124m", "--ranks", 4, "--ranks-per-node", 3)
    refused("--shard-size 3 does not divide", 2, "--model", "gpt2-124m", "--ranks", 4, "--strategy", "hybrid_shard",
            "--shard-size", 3)
    refused("unrecognised option", 2, "--model", "gpt2-124m", "--ranks", 4, "--rank", 3)
    print("plans are what runs tell")


main()
