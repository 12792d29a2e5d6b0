"""GPT-2 on a real text: shoal on 1, 2 and 4 ranks and PyTorch's FSDP2 over gloo give one loss curve.

gpt2_curve_test.py SHOAL TEXT.gz LAUNCHER…        LAUNCHER… N starts N ranks

The weights at the start are those of a random model made by transformers, which shoal reads with --init-from; the
batches follow the formulas of docs/training.md. AdamW with decay on matrices alone, gradients clipped, 200 steps.
"""
import gzip
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.multiprocessing as mp
    import transformers
    from torch.distributed.fsdp import fully_shard
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

sys.dont_write_bytecode = True  # the source folder stays as it is
from mnist_job import formulas

STEPS, BATCH, LENGTH, SEED = 200, 8, 64, 5
LAYERS, HEADS, WIDTH, VOCABULARY = 2, 4, 64, 256
RATE, DECAY, CLIP = 1e-3, 0.1, 1.0
RANKS = (1, 2, 4)
APART = 1e-3  # of the loss, at any step
SHOAL = TEXT = LAUNCHER = None


def make_model():
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, vocab_size=VOCABULARY,
                                     n_positions=LENGTH, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=None,
                                     eos_token_id=None)
    return transformers.GPT2LMHeadModel(config).train()


def batches(text):
    """Inputs and targets [BATCH, LENGTH] of each step: sample i starts at byte i * LENGTH."""
    tokens = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    order = formulas["permutation"]((len(tokens) - 1) // LENGTH, SEED, 0)
    for step in range(STEPS):
        samples = [tokens[i * LENGTH:i * LENGTH + LENGTH + 1] for i in order[step * BATCH:(step + 1) * BATCH]]
        stacked = torch.stack(samples)
        yield stacked[:, :-1], stacked[:, 1:]


def fsdp2_rank(rank, ranks, port, text, losses):
    """One of FSDP2's ranks; fills `losses` with the steps' mean losses."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    model = make_model()
    for block in model.transformer.h:
        fully_shard(block)
    fully_shard(model)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0}],
                                  lr=RATE)
    for step, (inputs, targets) in enumerate(batches(text)):
        mine = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
        logits = model(inputs[mine]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[mine].flatten(), reduction="sum")
        (loss * ranks / targets.numel()).backward()  # FSDP2 takes the mean over the ranks
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().double()
        torch.distributed.all_reduce(total)
        losses[step] = total.item() / targets.numel()
    leave()


def leave():
    """Ends a rank of mp.spawn where it stands: gloo's threads now and then abort one that takes itself down in order."""
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def fsdp2_losses(text, ranks):
    losses = torch.zeros(STEPS, dtype=torch.float64).share_memory_()
    mp.spawn(fsdp2_rank, args=(ranks, free_port(), text, losses), nprocs=ranks)
    return losses.tolist()


def shoal_losses(folder, ranks):
    command = [*LAUNCHER, ranks, SHOAL, "train", "--model", "gpt2-tiny", "--layers", LAYERS, "--heads", HEADS,
               "--hidden-size", WIDTH, "--vocab-size", VOCABULARY, "--max-positions", LENGTH, "--dropout", 0,
               "--data", TEXT, "--tokenizer", "bytes", "--init-from", folder / "initial", "--threads", 1,
               "--seed", SEED, "--global-batch-size", BATCH, "--max-steps", STEPS, "--log-every", 1,
               "--optimizer", "adamw", "--lr", RATE, "--schedule", "constant", "--weight-decay", DECAY,
               "--clip-grad-norm", CLIP, "--checkpoint-dir", "none"]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return [float(loss) for loss in re.findall(r"step \d+ .* loss ([\d.]+)", done.stdout)]


class OneCurve(unittest.TestCase):
    def test_losses(self):
        text = gzip.decompress(TEXT.read_bytes())
        self.assertGreater(len(text), 200_000, "a book is wanted")
        theirs = fsdp2_losses(text, 2)
        self.assertLess(theirs[-1], theirs[0] - 1, "nothing was learned")
        with tempfile.TemporaryDirectory(prefix="shoal_gpt2_") as scratch:
            make_model().save_pretrained(pathlib.Path(scratch) / "initial")
            for ranks in RANKS:
                with self.subTest(ranks=ranks):
                    ours = shoal_losses(pathlib.Path(scratch), ranks)
                    self.assertEqual(len(ours), STEPS)
                    apart = max(abs(a - b) / b for a, b in zip(ours, theirs))
                    print(f"{ranks} ranks: loss {ours[0]:.4f} → {ours[-1]:.4f}, FSDP2 {theirs[0]:.4f} → "
                          f"{theirs[-1]:.4f}, at most {apart:.1e} of it apart")
                    self.assertLess(apart, APART)


if __name__ == "__main__":
    SHOAL, TEXT, LAUNCHER = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    unittest.main(argv=sys.argv[:1])
