#!/usr/bin/env python3
"""Shoal beside PyTorch's FSDP2 on the same cards, in turns.

compare_fsdp2.py BIN BASELINE GPUS [--shapes NAME,...] [--rounds N] [--baseline-rounds N] [--baselines eager,compiled]
                 [--baseline-threads N] [--steps N] [--json FILE]
  BIN       the folder of shoal
  BASELINE  a program that trains the same shapes with fully_shard() under torchrun, and prints a line of JSON with
            tok_s_gpu, mfu and peak_gib; it takes --model --seq --batch --steps --warmup --compile --ac --offload
Prints a table in Markdown: tokens a second and GPU, share of the bf16 peak (989 TFLOP/s), peak memory, seconds from the
start of the program to the end of the first step; and the ratio to the faster of FSDP2 eager and compiled. Rates are
medians of the steps after the warm-up.
"""
import argparse
import array
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

PEAK = 989e12
WARMUP = 5
VOCABULARY = {"gpt2": 50304, "llama": 128256}
# Name: model, layers, width, sequence length, batch a GPU, options of shoal, options of the baseline, compiled too.
SHAPES = {
    "124m": ("gpt2-124m", 12, 768, 1024, 32, [], [], True),
    "1.5b": ("gpt2-1.5b", 48, 1600, 1024, 8, [], [], True),
    "8b": ("llama-8b", 32, 4096, 4096, 1, ["--activation-checkpoint", "full"], ["--ac"], True),
    "8b-selective": ("llama-8b", 32, 4096, 4096, 1, ["--activation-checkpoint", "selective"], ["--ac"], True),
    "1.5b-offload": ("gpt2-1.5b", 48, 1600, 1024, 8, ["--offload", "params"], ["--offload"], False),
}


def write_tokens(path, vocabulary, count):
    random.seed(1)
    kind = "H" if vocabulary <= 65536 else "I"
    array.array(kind, (random.randrange(vocabulary) for _ in range(count))).tofile(open(path, "wb"))


def run(command, limit, **variables):
    """The program's output with the seconds at which each line came."""
    start, lines = time.monotonic(), []
    env = dict(os.environ, NCCL_NVLS_ENABLE="0", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               PYTHONUNBUFFERED="1", **variables)
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=env)
    for line in process.stdout:
        lines.append((time.monotonic() - start, line))
        if time.monotonic() - start > limit:
            process.kill()
    if process.wait() != 0:
        print("".join(line for _, line in lines[-25:]), file=sys.stderr)
        return None
    return lines


def flops_a_token(parameters, embedding, layers, width, length):
    return 6 * (parameters - embedding) + 6 * layers * width * length  # causal attention counted once


def model_options(shape):
    """Of shoal train and shoal plan; with the vocabulary before them."""
    model, _, _, length, batch, options, _, _ = SHAPES[shape]
    vocabulary = VOCABULARY[model.split("-")[0]]
    return vocabulary, ["--model", model, "--vocab-size", vocabulary, "--untied-head", "--sequence-length", length,
                        "--batch-size", batch, *options]


def token_options(path, vocabulary):
    """Of a file that write_tokens() made."""
    return ["--data", path, "--token-type", "uint16" if vocabulary <= 65536 else "uint32"]


def shoal(bin_folder, gpus, shape, steps, data, limit, extra):
    _, layers, width, length, _, _, _, _ = SHAPES[shape]
    vocabulary, options = model_options(shape)
    command = ["mpirun", "--bind-to", "none", "-n", gpus, bin_folder / "shoal", "train", *options,
               *token_options(data[vocabulary], vocabulary), "--param-dtype", "bf16", "--optimizer", "adamw", "--lr", "3e-4", "--betas", "0.9,0.95",
               "--weight-decay", "0.1", "--schedule", "constant", "--clip-grad-norm", 1, "--max-steps", WARMUP + steps,
               "--log-every", 1, "--checkpoint-dir", "none", "--device", "cuda", *extra]
    lines = run(command, limit)
    if lines is None:
        return None
    text = "".join(line for _, line in lines)
    rates = [float(rate) for rate in re.findall(r"step \d+ .* ([\d.]+) samples/s", text)][WARMUP:]
    parameters = int(re.search(r"(\d+) parameters;", text).group(1))
    tokens = statistics.median(rates) * length / gpus
    peak = float(re.search(r"peak memory of a GPU ([\d.]+) MiB", text).group(1)) / 1024
    first = next(at for at, line in lines if re.search(r"step 1 .* loss", line))
    flops = flops_a_token(parameters, vocabulary * width, layers, width, length)
    return {"tok_s_gpu": tokens, "mfu": flops * tokens / PEAK, "peak_gib": peak, "first_s": first}


def fsdp2(baseline, gpus, shape, steps, compiled, limit, threads):
    model, _, _, length, batch, _, options, _ = SHAPES[shape]
    command = ["torchrun", f"--nproc-per-node={gpus}", baseline, "--model", model, "--seq", length, "--batch", batch,
               "--steps", steps, "--warmup", WARMUP, *options, *(["--compile"] if compiled else [])]
    start = time.monotonic()
    threads = threads or (os.cpu_count() or gpus) // gpus  # torchrun gives 1; shoal shares
    lines = run(command, limit, OMP_NUM_THREADS=str(threads))
    found = [json.loads(line) for _, line in lines or [] if line.startswith("{")]
    if not found:
        return None
    steps_s = (WARMUP + steps - 1) * found[0]["step_ms"] / 1e3
    return {**{key: found[0][key] for key in ("tok_s_gpu", "mfu", "peak_gib")},
            "first_s": time.monotonic() - start - steps_s}


def cell(values, form):
    values = [form(v) for v in values]
    return values[0] if len(values) == 1 else f"{statistics.median(map(float, values)):g} ({', '.join(values)})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("baseline", type=pathlib.Path)
    parser.add_argument("gpus", type=int)
    parser.add_argument("--shapes", default="124m,1.5b,8b,1.5b-offload")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--baseline-rounds", type=int)
    parser.add_argument("--baselines", default="eager,compiled")
    parser.add_argument("--baseline-threads", type=int, help="a rank (its share of the cores)")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--limit", type=float, default=150, help="seconds a program may take")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--shoal-options", default="", help="more options of shoal train, with spaces between")
    args = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        data = {v: pathlib.Path(scratch) / f"{v}.bin" for v in VOCABULARY.values()}
        for vocabulary, path in data.items():
            write_tokens(path, vocabulary, 3_000_000)
        for shape in args.shapes.split(","):
            baseline_rounds = args.rounds if args.baseline_rounds is None else args.baseline_rounds
            for turn in range(max(args.rounds, baseline_rounds)):
                programs = {}
                if turn < args.rounds:
                    programs["shoal"] = lambda: shoal(args.bin, args.gpus, shape, args.steps, data, args.limit,
                                                      args.shoal_options.split())
                if turn < baseline_rounds and "eager" in args.baselines:
                    programs["FSDP2 eager"] = lambda: fsdp2(args.baseline, args.gpus, shape, args.steps, False,
                                                            args.limit, args.baseline_threads)
                if turn < baseline_rounds and "compiled" in args.baselines and SHAPES[shape][7]:
                    programs["FSDP2 compiled"] = lambda: fsdp2(args.baseline, args.gpus, shape, args.steps, True,
                                                               args.limit, args.baseline_threads)
                for name, program in programs.items():
                    result = program()
                    print(f"# {shape}, {name}: {result}", file=sys.stderr, flush=True)
                    if result:
                        results.setdefault(shape, {}).setdefault(name, []).append(result)
    print("| shape | program | tok/s/GPU | of the peak | peak GiB | first step, s | ratio |\n|---|---|---:|---:|---:|---:|---:|")
    for shape, programs in results.items():
        median = {name: statistics.median(r["tok_s_gpu"] for r in runs) for name, runs in programs.items()}
        best = max((rate for name, rate in median.items() if name != "shoal"), default=None)
        for name, runs in programs.items():
            print(f"| {shape} | {name} | {cell([r['tok_s_gpu'] for r in runs], lambda v: f'{v:.0f}')} | "
                  f"{cell([100 * r['mfu'] for r in runs], lambda v: f'{v:.1f}')} | "
                  f"{cell([r['peak_gib'] for r in runs], lambda v: f'{v:.2f}')} | "
                  f"{cell([r['first_s'] for r in runs], lambda v: f'{v:.1f}')} | "
                  f"{f'{median[name] / best:.2f}' if best else ''} |")
    if args.json:
        args.json.write_text(json.dumps({"gpus": args.gpus, "results": results}))
    sys.exit(0 if all("shoal" in programs for programs in results.values()) and results else 1)


if __name__ == "__main__":
    main()
