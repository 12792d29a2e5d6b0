#!/usr/bin/env python3
"""How Shoal scales on the GPUs of one host: any number of them, 8 in mind. Prints tables in Markdown for docs/benchmarks.md.

scaling.py BIN [--gpus N] [--parts rates,meshes,restart,preflight] [--baseline FILE] [--shapes 124m,1.5b,8b]
           [--model NAME] [--device cpu]
  rates      tokens a second and GPU, and peak memory, on 1, 2, 4, … N GPUs with the same batch on each, and what is kept
             of the smallest number's rate; with --baseline (see compare_fsdp2.py) beside FSDP2
  meshes     HYBRID_SHARD on every replicate x shard of the N ranks: losses beside FULL_SHARD's, and from the trace bytes
             and time of each collective a step. NCCL is told of as many hosts as there are replicas
  restart    saved at N, N/2 and one rank under several strategies, loaded at N, N/2, … under others: losses beside those of
             the run that went on; how long a save held up
  preflight  shoal preflight on N ranks
Exit code 1 where losses differ by more than 1e-3 (restart: 4e-3) or a part failed. --device cpu tries the script on CPU ranks.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 1e-3  # relative: bf16 gradients are added up in another order
RESTART_TOLERANCE = 4e-3  # eight steps on other ranks before the save, eight after it


class Scaling:
    def __init__(self, args, scratch):
        self.args, self.scratch, self.failed = args, pathlib.Path(scratch), False
        self.text = self.scratch / "text"
        random.seed(1)
        self.text.write_text(" ".join(random.choice(("sea", "shoal", "fish", "tide", "net")) for _ in range(200_000)))

    def fail(self, what):
        print(f"FAILED: {what}", flush=True)
        self.failed = True

    def run(self, command, **variables):
        env = dict(os.environ, NCCL_NVLS_ENABLE="0", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                   **variables)
        done = subprocess.run(list(map(str, command)), env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            self.fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout

    def train(self, ranks, *options, hosts=1):
        """The program's output. `hosts`: as many as NCCL is told of, neighbours on one."""
        train = [self.args.bin / "shoal", "train", "--model", self.args.model, "--data", self.text, "--tokenizer", "bytes",
                 "--sequence-length", 256, "--global-batch-size", 4 * self.args.gpus, "--lr", "1e-4", "--schedule",
                 "constant", "--log-every", 1, "--device", self.args.device, *options]
        if self.args.device == "cuda":
            train += ["--param-dtype", "bf16"]
        command = ["mpirun", "--bind-to", "none"]
        for host in range(hosts):
            command += [":"] if host else []
            command += ["-n", ranks // hosts, "env", f"NCCL_HOSTID=host{host}", *train] if hosts > 1 else ["-n", ranks, *train]
        return self.run(command)

    @staticmethod
    def losses(text):
        return {int(step): float(loss) for step, loss in re.findall(r"step (\d+) .*?loss ([\d.]+)", text)}

    def distance(self, losses, others):
        common = sorted(set(losses) & set(others))
        if not common:
            return float("nan")
        return max(abs(losses[step] - others[step]) / others[step] for step in common)

    def judge(self, what, distance, tolerance=TOLERANCE):
        if not distance <= tolerance:
            self.fail(f"{what}: losses are {distance:.1e} apart")

    def counts(self):
        n, counts = 1, []
        while n <= self.args.gpus:
            counts.append(n)
            n *= 2
        return counts

    def rates(self):
        rows, first = [], {}
        for n in self.counts():
            result = self.scratch / f"rates{n}.json"
            baseline = self.args.baseline or "none"
            self.run([sys.executable, HERE / "compare_fsdp2.py", self.args.bin, baseline, n, "--shapes", self.args.shapes,
                      "--baselines", "eager,compiled" if self.args.baseline else "", "--json", result])
            for shape, programs in json.loads(result.read_text())["results"].items() if result.exists() else []:
                for program, runs in programs.items():
                    rate, peak = runs[0]["tok_s_gpu"], runs[0]["peak_gib"]
                    kept = rate / first.setdefault((shape, program), rate)
                    rows.append(f"| {shape} | {program} | {n} | {rate:.0f} | {100 * kept:.1f} | {peak:.2f} |")
        print("| shape | program | GPUs | tok/s/GPU | kept, % | peak GiB |\n|---|---|---:|---:|---:|---:|", *rows, sep="\n")

    def collectives(self, path):
        """Of rank 0, a step: bytes and milliseconds by kind."""
        trace = json.loads(path.read_text())["traceEvents"]
        steps = {event["args"]["step"] for event in trace if event["ph"] == "X"}
        sums = {}
        for event in trace:
            if event["ph"] == "X" and event["pid"] == 0 and event["args"].get("bytes"):
                amount = sums.setdefault(event["cat"], [0, 0.0])
                amount[0] += event["args"]["bytes"] / len(steps)
                amount[1] += event["dur"] / 1e3 / len(steps)
        return "; ".join(f"{kind} {size / 1e6:.1f} MB, {ms:.2f} ms" for kind, (size, ms) in sorted(sums.items()))

    def meshes(self):
        n = self.args.gpus
        rows, whole = [], None
        for shard in reversed(self.counts()):
            options = ["--strategy", "full_shard"] if shard == n else ["--strategy", "hybrid_shard", "--shard-size", shard]
            trace = self.scratch / f"trace{shard}.json"
            text = self.train(n, *options, "--max-steps", 12, "--checkpoint-dir", "none", "--trace", trace,
                              hosts=n // shard if self.args.device == "cuda" else 1)
            losses = self.losses(text)
            whole = whole or losses
            apart = self.distance(losses, whole)
            self.judge(f"mesh {n // shard} x {shard}", apart)
            rows.append(f"| {n // shard} x {shard} | {apart:.1e} | {self.collectives(trace) if trace.exists() else ''} |")
        print("| replicate x shard | losses from FULL_SHARD's | collectives of rank 0 a step |\n|---|---:|---|", *rows, sep="\n")

    def restart(self):
        n, counts, ways = self.args.gpus, self.counts(), self.ways()
        whole = self.train(n, "--max-steps", 16, "--checkpoint-dir", self.scratch / "whole", "--checkpoint-every", 4,
                           "--output", "none")
        rows, turn = [], 0
        for before in ways:
            saved = self.scratch / "saved"
            self.train(before[0], *before[1:], "--max-steps", 8, "--checkpoint-dir", saved, "--output", "none")
            for ranks in reversed(counts):
                turn += 1
                possible = [way[1:] for way in ways if way[0] == ranks or "--shard-size" not in way]
                after = possible[turn % len(possible)]
                text = self.train(ranks, *after, "--max-steps", 16, "--checkpoint-dir", self.scratch / f"after{turn}",
                                  "--resume", saved, "--output", "none")
                losses = self.losses(text)
                if min(losses, default=0) != 9:
                    self.fail(f"{ranks} ranks did not go on after step 8")
                apart = self.distance(losses, self.losses(whole))
                self.judge(f"saved by {before}, loaded by {ranks} ranks {after}", apart, RESTART_TOLERANCE)
                rows.append(f"| {before[0]}, {self.words(before[1:])} | {ranks}, {self.words(after)} | {apart:.1e} |")
                shutil.rmtree(self.scratch / f"after{turn}")
            shutil.rmtree(saved)
        print("| saved at | loaded at | losses from those of the run that went on |\n|---|---|---:|", *rows, sep="\n")
        print(*(line for line in whole.splitlines() if "saved" in line or "held up" in line), sep="\n")

    def ways(self):
        """Ranks and options of those who save; those who load take the options by turns."""
        n = self.args.gpus
        ways = [[n, "--strategy", "full_shard"], [max(n // 2, 1), "--strategy", "no_shard"], [1, "--offload", "params"]]
        return ways + ([[n, "--strategy", "hybrid_shard", "--shard-size", 2]] if n > 2 else [])

    @staticmethod
    def words(options):
        return " ".join(str(word).removeprefix("--") for word in options if word != "--strategy")

    def preflight(self):
        text = self.run(["mpirun", "--bind-to", "none", "-n", self.args.gpus, self.args.bin / "shoal", "preflight"])
        print(*(line for line in text.splitlines() if "all-reduce" in line or "GB/s" in line), sep="\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--parts", default="rates,meshes,restart,preflight")
    parser.add_argument("--baseline", type=pathlib.Path)
    parser.add_argument("--shapes", default="124m,1.5b,8b")
    parser.add_argument("--model", default="gpt2-124m", help="of meshes and restart")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    args = parser.parse_args()
    if args.gpus is None:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout if args.device == "cuda" else ""
        args.gpus = sum(line.startswith("GPU ") for line in listed.splitlines())
    if args.gpus < 1:
        print("no GPU here: nothing of this was run")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="shoal_scaling_") as scratch:
        scaling = Scaling(args, scratch)
        for part in args.parts.split(","):
            print(f"\n### {part}, {args.gpus} ranks", flush=True)
            getattr(scaling, part)()
    sys.exit(1 if scaling.failed else 0)


if __name__ == "__main__":
    main()
