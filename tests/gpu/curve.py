#!/usr/bin/env python3
"""One loss curve in bf16 on GPUs: shoal train beside PyTorch's FSDP2, from the same weights, on the same batches.

curve.py BIN TEXT.gz GPUS       BIN holds shoal; TEXT.gz is a text of some hundred kilobytes

GPT-2 of 6 layers and width 384 on the bytes of the text, 200 steps of AdamW with clipping; fp32 masters, bf16 compute,
gradients reduced in fp32. What bf16 itself makes of such a curve is measured too: FSDP2 on one GPU beside FSDP2 on all of
them. Exit code 1 where shoal is further from FSDP2 than twice that; in fp32, where it is further than 1e-3.
"""
import gzip
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

import torch
import torch.multiprocessing as mp
import transformers
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "interop"))
from mnist_job import formulas

STEPS, BATCH, LENGTH, SEED = 200, 16, 256, 5
LAYERS, HEADS, WIDTH, VOCABULARY = 6, 6, 384, 256
RATE, DECAY, CLIP = 6e-4, 0.1, 1.0


def make_model():
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(
        n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, vocab_size=VOCABULARY, n_positions=LENGTH, resid_pdrop=0,
        embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None)).train()


def batches(text):
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    samples = (len(tokens) - 1) // LENGTH
    steps_an_epoch = samples // BATCH + (samples % BATCH > 0)
    for step in range(STEPS):
        order = formulas["permutation"](samples, SEED, step // steps_an_epoch)
        at = step % steps_an_epoch * BATCH
        stacked = torch.stack([tokens[i * LENGTH:i * LENGTH + LENGTH + 1] for i in order[at:at + BATCH]])
        yield stacked[:, :-1], stacked[:, 1:]


def fsdp2_rank(rank, ranks, port, text, sixteen_bits, losses):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=ranks)
    model = make_model().cuda()
    policy = (MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if sixteen_bits
              else MixedPrecisionPolicy())
    for block in model.transformer.h:
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}],
                                  lr=RATE, fused=True)
    for step, (inputs, targets) in enumerate(batches(text)):
        mine = slice(rank * len(inputs) // ranks, (rank + 1) * len(inputs) // ranks)
        logits = model(inputs[mine].cuda()).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets[mine].flatten().cuda(),
                                                 reduction="sum")
        (loss * ranks / targets.numel()).backward()  # FSDP2 takes the mean over the ranks
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().double()
        torch.distributed.all_reduce(total)
        losses[step] = total.item() / targets.numel()
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def fsdp2_losses(text, ranks, sixteen_bits):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    losses = torch.zeros(STEPS, dtype=torch.float64).share_memory_()
    mp.spawn(fsdp2_rank, args=(ranks, port, text, sixteen_bits, losses), nprocs=ranks)
    return losses.tolist()


def shoal_losses(bin_folder, folder, text, ranks, sixteen_bits):
    command = ["mpirun", "--bind-to", "none", "-n", ranks, bin_folder / "shoal", "train", "--model", "gpt2-tiny",
               "--layers", LAYERS, "--heads", HEADS, "--hidden-size", WIDTH, "--vocab-size", VOCABULARY,
               "--max-positions", LENGTH, "--dropout", 0, "--data", text, "--tokenizer", "bytes", "--init-from",
               folder / "initial", "--seed", SEED, "--global-batch-size", BATCH, "--max-steps", STEPS, "--log-every", 1,
               "--optimizer", "adamw", "--lr", RATE, "--schedule", "constant", "--weight-decay", DECAY,
               "--clip-grad-norm", CLIP, "--checkpoint-dir", "none", "--device", "cuda",
               "--param-dtype", "bf16" if sixteen_bits else "fp32"]
    env = dict(os.environ, NCCL_NVLS_ENABLE="0", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return [float(loss) for loss in re.findall(r"step \d+ .* loss ([\d.]+)", done.stdout)]


def apart(a, b):
    """The largest and the root mean square of the relative differences."""
    relative = [abs(x - y) / y for x, y in zip(a, b, strict=True)]
    return max(relative), (sum(r * r for r in relative) / len(relative)) ** 0.5


def main():
    bin_folder, text_file, gpus = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    text, failed = gzip.decompress(text_file.read_bytes()), False
    with tempfile.TemporaryDirectory(prefix="shoal_curve_") as scratch:
        folder = pathlib.Path(scratch)
        make_model().save_pretrained(folder / "initial")
        for sixteen_bits in (True, False):
            theirs = fsdp2_losses(text, gpus, sixteen_bits)
            alone = fsdp2_losses(text, 1, sixteen_bits) if gpus > 1 else theirs
            ours = shoal_losses(bin_folder, folder, text_file, gpus, sixteen_bits)
            noise, between = apart(alone, theirs), apart(ours, theirs)
            limit = max(2 * noise[1], 1e-3)
            verdict = "ok" if between[1] <= limit and theirs[-1] < theirs[0] - 1 else "FAILED"
            failed |= verdict != "ok"
            print(f"{verdict}: {'bf16' if sixteen_bits else 'fp32'}, {STEPS} steps on {gpus} GPUs: loss {ours[0]:.4f} → "
                  f"{ours[-1]:.4f}, FSDP2 {theirs[0]:.4f} → {theirs[-1]:.4f}; apart {between[1]:.1e} (at most "
                  f"{between[0]:.1e}); FSDP2 on 1 and {gpus} GPUs {noise[1]:.1e} (at most {noise[0]:.1e})", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
