"""Language models of the transformers library, and their training by Python's FSDP2 (fully_shard) over gloo."""
import pathlib

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, BertConfig, GPT2Config, LlamaConfig

STEPS, BATCH, LENGTH, RATE = 8, 4, 12, 1e-2
VOCABULARY = 97
_TOKENS = {"vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_SHAPE = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48,
          "max_position_embeddings": 32, **_TOKENS}
CONFIGS = {
    "gpt2": GPT2Config(n_layer=2, n_embd=32, n_head=4, n_positions=32, use_cache=False, **_TOKENS),
    "llama": LlamaConfig(num_key_value_heads=2, use_cache=False, attention_dropout=0.1, **_SHAPE),
    "bert": BertConfig(**_SHAPE),
}
BLOCKS = {"gpt2": "GPT2Block", "llama": "LlamaDecoderLayer", "bert": "BertLayer"}
DTYPES = {"fp32": torch.float32, "fp64": torch.float64}


def make_model(kind):
    torch.manual_seed(1)
    family = AutoModelForMaskedLM if kind == "bert" else AutoModelForCausalLM
    return family.from_config(CONFIGS[kind], attn_implementation="sdpa")


def batches(kind):
    """Inputs and targets of each step and of an evaluation: int64 [STEPS + 1, 2, BATCH, LENGTH]. Samples count from
    somewhere, modulo 10. BERT is asked for a few tokens of each, and for other numbers of them in the parts of a
    batch."""
    generator = torch.Generator().manual_seed(2)
    tokens = (torch.randint(10, (STEPS + 1, BATCH, 1), generator=generator) + torch.arange(LENGTH + 1)) % 10 + 3
    inputs, targets = tokens[..., :-1], tokens[..., 1:]
    if kind == "bert":
        asked = torch.rand(inputs.shape, generator=generator) < 0.3
        targets = torch.where(asked, inputs, -100)
        inputs = torch.where(asked, VOCABULARY - 1, inputs)
    return torch.stack((inputs, targets), 1)


def write_batches(kind, path):
    numpy.asarray(batches(kind).contiguous()).tofile(path)
    return path


def logits_of(model, inputs):
    logits = model(input_ids=inputs).logits.flatten(0, 1)
    return logits if logits.dtype == torch.float64 else logits.float()


def loss_sum(model, inputs, targets):
    return F.cross_entropy(logits_of(model, inputs), targets.flatten(), reduction="sum")


def _total(value):
    total = torch.as_tensor(value).detach().double()
    dist.all_reduce(total)
    return total.item()


def _train(kind, dtype, rank, ranks):
    """(mean loss of each step, [loss sum, right answers, answers] of the evaluation, weights by name)"""
    mixed = dtype == "bf16"
    model = make_model(kind).to(DTYPES.get(dtype, torch.float32))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if mixed else MixedPrecisionPolicy()
    for module in list(model.modules()):
        if type(module).__name__ == BLOCKS[kind]:
            fully_shard(module, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0, eps=1e-8)
    mine = slice(BATCH * rank // ranks, BATCH * (rank + 1) // ranks)
    parts = batches(kind)[:, :, mine]
    losses = []
    for step in range(STEPS):
        inputs, targets = parts[step]
        count = _total((targets != -100).sum())
        torch.manual_seed(1000 * step + rank)
        model.train()
        loss = loss_sum(model, inputs, targets)
        (loss * ranks / count).backward()  # FSDP takes the mean over the ranks
        losses.append(_total(loss) / count)
        optimizer.step()
        optimizer.zero_grad()
    inputs, targets = parts[STEPS]
    model.eval()
    with torch.no_grad():
        logits, wanted = logits_of(model, inputs), targets.flatten()
        evaluation = [_total(v) for v in (F.cross_entropy(logits, wanted, reduction="sum"),
                                          (logits.argmax(1) == wanted).sum(), (wanted != -100).sum())]
    weights = {name: value.full_tensor() if isinstance(value, DTensor) else value
               for name, value in model.state_dict().items()}
    return losses, evaluation, weights


def _run_as_rank(rank, ranks, folder, jobs):
    torch.set_num_threads(1)
    rendezvous = pathlib.Path(folder) / f"rendezvous{ranks}"
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    results = {job: _train(*job, rank, ranks) for job in jobs}
    if rank == 0:
        torch.save(results, pathlib.Path(folder) / "results.pt")
    dist.destroy_process_group()


def train(folder, ranks, jobs):
    """Of each job (kind, dtype) what _train() tells. `folder` takes scratch files."""
    torch.multiprocessing.spawn(_run_as_rank, (ranks, str(folder), list(jobs)), nprocs=ranks)
    return torch.load(pathlib.Path(folder) / "results.pt", weights_only=True)
