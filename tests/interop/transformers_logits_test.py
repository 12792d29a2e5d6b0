"""The built-in GPT-2, Llama and BERT compute what transformers' do: same weights, same logits, loss and gradients.

transformers_logits_test.py MODEL_PROBE

The weights are random, large enough that nothing is near linear. How near is near enough is measured: transformers
computes in float64 as well, and what its own float32 (bfloat16) is away from that is the effect of rounding. Ours may
be ALLOWANCE times as far away, since another order of the same operations rounds otherwise; in float32 it must lie
within LIMIT besides.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

SAMPLES, LENGTH, POSITIONS = 3, 40, 48
ALLOWANCE = 2
LIMIT = 1e-4
LEAST = 1e-2  # of a gradient, as a part of the largest of the model
# Of the loss against its own logits: in bfloat16 the output matrix may round differently where it takes other rows.
LOSS_LIMIT = {torch.float32: 1e-6, torch.bfloat16: 1e-4}
NO_TARGET = -100
PROBE = None


def gpt2(layers, heads, width, vocabulary, inner=None, tied=True):
    config = transformers.GPT2Config(n_layer=layers, n_head=heads, n_embd=width, n_inner=inner, vocab_size=vocabulary,
                                     n_positions=POSITIONS, tie_word_embeddings=tied, bos_token_id=None,
                                     eos_token_id=None)
    options = {"layers": layers, "heads": heads, "hidden-size": width, "vocab-size": vocabulary,
               "max-positions": POSITIONS, "untied-head": not tied}
    if inner:
        options["intermediate-size"] = inner
    return "gpt2-tiny", options, transformers.GPT2LMHeadModel(config)


def llama(layers, heads, kv_heads, width, inner, vocabulary, scaling=1, tied=True, theta=500000.0):
    rope = {"rope_type": "default", "rope_theta": theta}
    if scaling != 1:
        rope |= {"rope_type": "llama3", "factor": float(scaling), "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 8192}
    config = transformers.LlamaConfig(num_hidden_layers=layers, num_attention_heads=heads,
                                      num_key_value_heads=kv_heads, hidden_size=width, intermediate_size=inner,
                                      vocab_size=vocabulary, max_position_embeddings=16384, rms_norm_eps=1e-5,
                                      tie_word_embeddings=tied, rope_parameters=rope, bos_token_id=None,
                                      eos_token_id=None)
    options = {"layers": layers, "heads": heads, "kv-heads": kv_heads, "hidden-size": width,
               "intermediate-size": inner, "vocab-size": vocabulary, "max-positions": 16384, "untied-head": not tied,
               "rope-theta": theta, "rope-scaling": float(scaling)}
    return "llama-tiny", options, transformers.LlamaForCausalLM(config)


def bert(layers, heads, width, inner, vocabulary, tied=True):
    # Our sequences are never padded, so no token's embedding is kept from learning.
    config = transformers.BertConfig(num_hidden_layers=layers, num_attention_heads=heads, hidden_size=width,
                                     intermediate_size=inner, vocab_size=vocabulary, max_position_embeddings=POSITIONS,
                                     tie_word_embeddings=tied, pad_token_id=None)
    options = {"layers": layers, "heads": heads, "hidden-size": width, "intermediate-size": inner,
               "vocab-size": vocabulary, "max-positions": POSITIONS, "untied-head": not tied}
    return "bert-tiny", options, transformers.BertForMaskedLM(config)


CASES = {
    "gpt2": lambda: gpt2(2, 4, 48, 101),
    "gpt2, untied, narrow MLP": lambda: gpt2(3, 2, 32, 257, inner=40, tied=False),
    "llama, as many key heads": lambda: llama(2, 4, 4, 64, 96, 101),
    "llama 3.1, 2 of 8, untied": lambda: llama(2, 8, 2, 64, 112, 257, scaling=8, tied=False),
    "llama 3.2, 1 of 4": lambda: llama(3, 4, 1, 128, 160, 101, scaling=32),
    "llama, short waves": lambda: llama(1, 2, 1, 32, 48, 64, theta=10000.0),
    "bert": lambda: bert(2, 4, 48, 96, 101),
    "bert, untied": lambda: bert(1, 2, 32, 128, 257, tied=False),
}


def draw_weights(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() < 2:
                parameter.normal_(1 if name.endswith("weight") else 0, 0.3)
            elif "embed" in name or "wte" in name or "wpe" in name:
                parameter.normal_(0, 0.5)
            else:
                parameter.normal_(0, 2 * parameter.shape[-1] ** -0.5)


def make_batch(vocabulary, masked):
    inputs = torch.randint(vocabulary, (SAMPLES, LENGTH))
    targets = torch.randint(vocabulary, (SAMPLES, LENGTH))
    if masked:
        targets[torch.rand(SAMPLES, LENGTH) > 0.3] = NO_TARGET
    return inputs, targets


def theirs(model, inputs, targets, dtype):
    """Logits, and gradients by name of the loss (a sum), computed in `dtype`."""
    model = model.to(dtype)
    model.zero_grad()
    logits = model(input_ids=inputs).logits
    full = torch.promote_types(dtype, torch.float32)
    loss = torch.nn.functional.cross_entropy(logits.to(full).flatten(0, 1), targets.flatten(), reduction="sum",
                                             ignore_index=NO_TARGET)
    loss.backward()
    gradients = {name: p.grad.double() for name, p in model.named_parameters() if p.grad is not None}
    return {"logits": logits.detach().double(), "gradients": gradients}


def ours(name, options, weights, inputs, targets):
    with tempfile.TemporaryDirectory(prefix="shoal_probe_") as scratch:
        request, answer = pathlib.Path(scratch) / "in.pt", pathlib.Path(scratch) / "out.pt"
        torch.save({"model": name, "options": options, "weights": weights, "inputs": inputs, "targets": targets},
                   request)
        subprocess.run([PROBE, request, answer], check=True)
        return torch.load(answer, weights_only=False)  # written by LibTorch, whose dicts carry types


def distance(a, b, at_least=0.0):
    """The difference in the 2-norm, as a part of b, or of `at_least` where b is smaller."""
    return ((a.double() - b).norm() / max(b.norm(), at_least)).item()


class SameAsTransformers(unittest.TestCase):
    def compare(self, case, dtype):
        torch.manual_seed(len(case))
        name, options, model = CASES[case]()
        draw_weights(model)
        model = model.eval().to(dtype)
        inputs, targets = make_batch(options["vocab-size"], masked=name.startswith("bert"))
        weights = {key: value.clone() for key, value in model.state_dict().items()}
        answer = ours(name, options, weights, inputs, targets)
        rounded = theirs(model, inputs, targets, dtype)
        exact = theirs(model, inputs, targets, torch.float64)
        self.check_names(case, answer, weights, exact["gradients"])
        self.check_loss(answer, targets, dtype)
        self.check_near(f"{case}, {dtype}: logits", dtype, answer["logits"], rounded["logits"], exact["logits"])
        # Some gradients are zero but for rounding (that of BERT's keys' bias).
        least = LEAST * max(gradient.norm() for gradient in exact["gradients"].values())
        for key, gradient in exact["gradients"].items():
            self.check_near(f"{case}, {dtype}: gradient of {key}", dtype, answer["gradients"][key],
                            rounded["gradients"][key], gradient, least)

    def check_near(self, what, dtype, got, rounded, exact, at_least=0.0):
        apart, rounding = distance(got, exact, at_least), distance(rounded, exact, at_least)
        self.assertLessEqual(apart, ALLOWANCE * max(rounding, torch.finfo(dtype).eps), what)
        if dtype == torch.float32:
            self.assertLess(apart, LIMIT, what)
        if "logits" in what:
            print(f"{what} {apart:.1e} from float64, transformers' {rounding:.1e}")

    def check_loss(self, answer, targets, dtype):
        """The loss is the cross-entropy of the logits, which are the same as transformers'."""
        self.assertEqual(answer["count"], (targets != NO_TARGET).sum().item())
        loss = torch.nn.functional.cross_entropy(answer["logits"].double().flatten(0, 1), targets.flatten(),
                                                 reduction="sum", ignore_index=NO_TARGET)
        self.assertEqual(answer["loss"].dtype, torch.float32)
        self.assertLess(distance(answer["loss"], loss), LOSS_LIMIT[dtype])

    def check_names(self, case, answer, weights, gradients):
        """Our parameters are theirs, and so are the ties."""
        unused = {"cls.predictions.bias"} if case == "bert, untied" else set()  # transformers does not use it then
        self.assertEqual(set(answer["names"]), set(weights) - unused)
        self.assertEqual({name for alias, name in answer["names"].items()}, set(gradients) - unused)

    def test_float32(self):
        for case in CASES:
            with self.subTest(case):
                self.compare(case, torch.float32)

    def test_bfloat16(self):
        for case in CASES:
            with self.subTest(case):
                self.compare(case, torch.bfloat16)


if __name__ == "__main__":
    PROBE = sys.argv.pop(1)
    torch.set_num_threads(1)
    unittest.main()
