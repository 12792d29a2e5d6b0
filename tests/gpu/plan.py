#!/usr/bin/env python3
"""What shoal plans of a GPU's memory beside what a run takes: every strategy, precision and offload of a model.

plan.py BIN [--gpus N] [--shapes 124m,1.5b,8b] [--strategies NAME,...] [--precisions fp32,bf16] [--offloads WHAT,...]
Each way trains three steps. Prints a table in Markdown for docs/benchmarks.md; exit code 1 where a run failed, or where
its peak is more than 3 % from the plan. A way that the plan says is larger than the card is not tried.
"""
import argparse
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import compare_fsdp2

TOLERANCE = 0.03
OWN_MIB = 4096  # of CUDA and NCCL, beside the tensors that a plan is of
STEPS = 3


def card_mib():
    done = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], capture_output=True,
                          text=True)
    return float(done.stdout.split()[0]) if done.returncode == 0 else None


class Way:
    """A shape under a strategy, in a precision, with an offload."""

    def __init__(self, gpus, shape, strategy, precision, offload):
        self.gpus, self.strategy, self.precision, self.offload = gpus, strategy, precision, offload
        self.vocabulary, options = compare_fsdp2.model_options(shape)
        self.options = [*options, "--strategy", strategy, "--param-dtype", precision, "--offload", offload]
        if strategy.startswith("hybrid"):
            self.options += ["--shard-size", max(gpus // 2, 1)]

    def planned(self, bin_folder):
        """MiB by shoal plan, which asks no GPU: the peak, and the activations in it."""
        command = [bin_folder / "shoal", "plan", "--json", "--ranks", self.gpus, *self.options]
        text = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout
        mine = next(row for row in json.loads(text)["strategies"] if row["strategy"] == self.strategy)
        return mine["peak"] / 2**20, mine["activations"] / 2**20

    def measured(self, bin_folder, data, limit):
        """MiB by a run; None where it failed."""
        command = ["mpirun", "--bind-to", "none", "-n", self.gpus, bin_folder / "shoal", "train", *self.options,
                   *compare_fsdp2.token_options(data[self.vocabulary], self.vocabulary), "--max-steps", STEPS,
                   "--clip-grad-norm", 1, "--checkpoint-dir", "none", "--device", "cuda"]
        text = "".join(line for _, line in compare_fsdp2.run(command, limit) or [])
        peak = re.search(r"peak memory of a GPU ([\d.]+) MiB", text)
        return float(peak.group(1)) if peak else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--shapes", default="124m,1.5b,8b")
    parser.add_argument("--strategies", default="full_shard,shard_grad_op,no_shard,hybrid_shard,hybrid_shard_zero2")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--offloads", default="none,optimizer,params")
    parser.add_argument("--limit", type=float, default=200, help="seconds a run may take")
    args = parser.parse_args()
    card, failed = card_mib(), False
    if card is None:
        print("no GPU here: nothing of this was run")
        sys.exit(77)
    print("| shape | strategy | parameters in | offload | planned, GiB | of it activations | measured | measured / planned |\n"
          "|---|---|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as scratch:
        data = {v: pathlib.Path(scratch) / f"{v}.bin" for v in compare_fsdp2.VOCABULARY.values()}
        for vocabulary, path in data.items():
            compare_fsdp2.write_tokens(path, vocabulary, 300_000)
        for shape, *what in itertools.product(args.shapes.split(","), args.strategies.split(","),
                                              args.precisions.split(","), args.offloads.split(",")):
            way = Way(args.gpus, shape, *what)
            planned, activations = way.planned(args.bin)
            fits = planned < card - OWN_MIB
            measured = way.measured(args.bin, data, args.limit) if fits else None
            end = "not tried: the card has less | |" if not fits else "failed | |"
            if measured:
                end = f"{measured / 1024:.2f} | {measured / planned:.3f} |"
            failed |= fits and (not measured or abs(measured / planned - 1) > TOLERANCE)
            print(f"| {shape} | {' | '.join(what)} | {planned / 1024:.2f} | {activations / 1024:.2f} | {end}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
