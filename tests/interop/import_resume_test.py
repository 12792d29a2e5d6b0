"""A run of PyTorch's FSDP2 with AdamW is stopped, its directory of torch.distributed.checkpoint imported, and shoal goes
on from there: the losses are those that FSDP2 has when it goes on itself.

import_resume_test.py SHOAL TEXT.gz LAUNCHER…        LAUNCHER… N starts N ranks
"""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import torch.distributed.checkpoint as dcp
    import torch.multiprocessing as mp
    import transformers  # noqa: F401: what gpt2_curve_test makes its model with
    from torch.distributed.checkpoint.state_dict import get_state_dict
    from torch.distributed.fsdp import fully_shard
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

sys.dont_write_bytecode = True  # the source folder stays as it is
import gpt2_curve_test as job

BEFORE, AFTER, RANKS = 20, 20, 2
APART = 1e-4  # of the loss, at any step
SHOAL = TEXT = LAUNCHER = None


def fsdp2_rank(rank, port, text, folder, losses):
    """Fills `losses` with the steps' mean losses, and saves after BEFORE of them."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    model = job.make_model()
    for block in model.transformer.h:
        fully_shard(block)
    fully_shard(model)
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": job.DECAY},
                                   {"params": vectors, "weight_decay": 0}], lr=job.RATE)
    for step, (inputs, targets) in enumerate(job.batches(text)):
        if step == BEFORE:
            state, moments = get_state_dict(model, optimizer)
            dcp.save({"model": state, "optimizer": moments}, checkpoint_id=folder)
        if step == BEFORE + AFTER:
            break
        mine = slice(rank * job.BATCH // RANKS, (rank + 1) * job.BATCH // RANKS)
        logits = model(inputs[mine]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets[mine].flatten(), reduction="sum")
        (loss * RANKS / targets.numel()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), job.CLIP)
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().double()
        torch.distributed.all_reduce(total)
        losses[step] = total.item() / targets.numel()
    job.leave()


def call(command, expected=0):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != expected:
        raise RuntimeError(f"{command} ended with {done.returncode}, not {expected}:\n{done.stdout}")
    return done.stdout


def train(checkpoints, ranks, *more, steps=BEFORE + AFTER, expected=0):
    return call([*LAUNCHER, ranks, SHOAL, "train", "--model", "gpt2-tiny", "--layers", job.LAYERS, "--heads", job.HEADS,
                 "--hidden-size", job.WIDTH, "--vocab-size", job.VOCABULARY, "--max-positions", job.LENGTH, "--dropout",
                 0, "--data", TEXT, "--tokenizer", "bytes", "--threads", 1, "--seed", job.SEED, "--global-batch-size",
                 job.BATCH, "--log-every", 1, "--lr", job.RATE, "--schedule", "constant",
                 "--weight-decay", job.DECAY, "--clip-grad-norm", job.CLIP, "--checkpoint-dir", checkpoints, "--max-steps", steps, *more],
                expected)


class GoesOn(unittest.TestCase):
    def test_losses(self):
        text = gzip.decompress(TEXT.read_bytes())
        losses = torch.zeros(BEFORE + AFTER, dtype=torch.float64).share_memory_()
        with tempfile.TemporaryDirectory(prefix="shoal_import_resume_") as scratch:
            scratch = pathlib.Path(scratch)
            mp.spawn(fsdp2_rank, args=(job.free_port(), text, str(scratch / "dcp"), losses), nprocs=RANKS)
            theirs = losses.tolist()[BEFORE:]
            for ranks in (1, 2):
                checkpoints = scratch / f"checkpoints{ranks}"
                call([SHOAL, "ckpt", "import", scratch / "dcp", "--output", checkpoints, "--ranks", 2])
                output = train(checkpoints, ranks, "--optimizer", "adamw")
                ours = [float(loss) for loss in re.findall(r"step \d+ .* loss ([\d.]+)", output)]
                self.assertEqual(len(ours), AFTER, output)
                apart = max(abs(a - b) / b for a, b in zip(ours, theirs))
                print(f"{ranks} ranks: loss {ours[0]:.4f} → {ours[-1]:.4f}, FSDP2 {theirs[0]:.4f} → {theirs[-1]:.4f}, "
                      f"at most {apart:.1e} of it apart")
                self.assertLess(apart, APART)
            self.refuses(scratch)

    def refuses(self, scratch):
        call([SHOAL, "ckpt", "import", scratch / "dcp", "--output", scratch / "again"])
        self.assertIn("give --optimizer adamw", train(scratch / "again", 1, "--optimizer", "adam", expected=4))
        call([SHOAL, "ckpt", "import", scratch / "dcp", "--output", scratch / "weights", "--weights-only"])
        self.assertIn("give it to --init-from", train(scratch / "weights", 1, "--optimizer", "adamw", expected=4))
        # The directory itself, as weights alone.
        output = train("none", 1, "--optimizer", "adamw", "--init-from", scratch / "dcp", steps=1)
        self.assertIn("torch.distributed.checkpoint", output)


if __name__ == "__main__":
    SHOAL, TEXT, LAUNCHER = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    unittest.main(argv=sys.argv[:1])
