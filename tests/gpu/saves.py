#!/usr/bin/env python3
"""What saving costs a run on GPUs, beside torch.distributed.checkpoint (DCP) on the same cards and the same disk.

saves.py BIN BASELINE GPUS FOLDER... [--model gpt2-774m] [--batch N]
  BASELINE  a program of torchrun that takes --model --seq --batch --steps --warmup --save FOLDER, and prints a line of
            JSON with dcp_gib, dcp_save_s, dcp_load_s and dcp_async_stall_s; "none": shoal alone
  FOLDER    where checkpoints go, one after the other: a disk, /dev/shm
Trains in bf16 with fp32 masters and AdamW. Prints a table in Markdown for docs/benchmarks.md: the seconds for which a save
in the background holds up training (of the first one too, whose memory is pinned before training), how much slower steps
are while it is being written, and the seconds of a save that is waited for and of a load. Exit code 1 where a run failed.
--device cpu tries the script on CPU ranks.
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import compare_fsdp2

LENGTH, VOCABULARY = 1024, 50304
WARMUP = 10  # steps that are not looked at


class Shoal:
    def __init__(self, args, tokens):
        self.args = args
        self.options = ["--model", args.model, "--vocab-size", VOCABULARY, "--untied-head",
                        *compare_fsdp2.token_options(tokens, VOCABULARY), "--sequence-length", LENGTH, "--batch-size", args.batch,
                        "--param-dtype", "bf16", "--clip-grad-norm", 1, "--schedule", "constant", "--log-every", 1,
                        "--keep", 1, "--output", "none", "--device", args.device]

    def train(self, folder, *options):
        """The program's output, or the end of this one."""
        command = ["mpirun", "--bind-to", "none", "-n", self.args.gpus, self.args.bin / "shoal", "train", *self.options,
                   "--checkpoint-dir", folder, "--run-dir", folder, *options]
        lines = compare_fsdp2.run(command, self.args.limit)
        if lines is None:
            sys.exit(1)
        return "".join(line for _, line in lines)

    def metrics(self, folder):
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        at = {row["step"]: row["time"] for row in rows if row["type"] == "step"}
        saves = [row for row in rows if row["type"] == "checkpoint"]
        return at, saves

    def background(self, folder):
        """Seconds held up by each save, and the slowdown of steps beside writing."""
        every = self.args.every
        self.train(folder, "--checkpoint-every", every, "--max-steps", 3 * every + every // 2)
        at, saves = self.metrics(folder)
        apart = {step: at[step] - at[step - 1] for step in at if step - 1 in at}
        written = {row["step"]: row["time"] for row in saves}
        beside = {step for step in apart for saved, until in written.items() if saved + 1 < step and at[step - 1] <= until}
        after = {saved + 1 for saved in written}
        alone = [apart[step] for step in apart if step > WARMUP and step not in beside | after]
        usual = statistics.median(alone)
        held_up = [apart[saved + 1] - usual for saved in sorted(written) if saved + 1 in apart]
        mean = statistics.mean(apart[step] for step in beside) if beside else None
        return {"step": usual, "mean alone": statistics.mean(alone), "held up": held_up, "steps beside": len(beside),
                "mean beside": mean, "seconds": [row["seconds"] for row in saves[:-1]], "bytes": saves[0]["bytes"]}

    def waited_for(self, folder):
        self.train(folder, "--checkpoint-every", 5, "--max-steps", 20, "--async-save", "off")
        return [row["seconds"] for row in self.metrics(folder)[1]]

    def loads(self, folder):
        seconds = []
        for _ in range(2):
            text = self.train(folder / "more", "--resume", folder, "--max-steps", 21)
            seconds.append(float(re.search(r"in place after ([\d.]+) s", text).group(1)))
            shutil.rmtree(folder / "more")
        return seconds


def dcp(args, folder):
    command = ["torchrun", f"--nproc-per-node={args.gpus}", args.baseline, "--model", args.model, "--seq", LENGTH,
               "--batch", args.batch, "--steps", 5, "--warmup", 2, "--save", folder / "dcp"]
    found = [json.loads(line) for _, line in compare_fsdp2.run(command, args.limit) or [] if line.startswith("{")]
    return found[0] if found else sys.exit(1)


def row(*cells):
    texts = [cell if isinstance(cell, str) else ", ".join(f"{value:.3f}" for value in cell) for cell in cells]
    print("| " + " | ".join(texts) + " |", flush=True)


def measure(args, folder, tokens):
    shoal = Shoal(args, tokens)
    behind = shoal.background(folder / "background")
    shutil.rmtree(folder / "background")
    print(f"\n{folder}: {args.model}, {behind['bytes'] / 2**30:.2f} GiB by {args.gpus} ranks, steps of "
          f"{1e3 * behind['step']:.1f} ms; seconds:\n")
    row("program", "training held up by a save in the background", "such a save, until its commit", "a save waited for",
        "a load")
    row("---", "---:", "---:", "---:", "---:")
    saves = shoal.waited_for(folder / "waited_for")
    row("shoal", behind["held up"], behind["seconds"], saves, shoal.loads(folder / "waited_for"))
    shutil.rmtree(folder / "waited_for")
    if str(args.baseline) != "none":
        other = dcp(args, folder)
        row("DCP", other["dcp_async_stall_s"], "", other["dcp_save_s"], other["dcp_load_s"])
    if behind["mean beside"]:
        share = 100 * (behind["mean beside"] / behind["mean alone"] - 1)
        print(f"\nSteps beside writing ({behind['steps beside']}): {1e3 * behind['mean beside']:.1f} ms, others "
              f"{1e3 * behind['mean alone']:.1f} ms: {share:+.1f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("baseline", type=pathlib.Path)
    parser.add_argument("gpus", type=int)
    parser.add_argument("folders", type=pathlib.Path, nargs="+")
    parser.add_argument("--model", default="gpt2-774m")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--every", type=int, default=60, help="steps between saves in the background")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--limit", type=float, default=200, help="seconds a program may take")
    args = parser.parse_args()
    for folder in args.folders:
        with tempfile.TemporaryDirectory(dir=folder, prefix="shoal_saves_") as scratch:
            tokens = pathlib.Path(scratch) / "tokens.bin"
            compare_fsdp2.write_tokens(tokens, VOCABULARY, 3_000_000)
            measure(args, pathlib.Path(scratch), tokens)


if __name__ == "__main__":
    main()
