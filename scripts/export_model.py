#!/usr/bin/env python3
"""Writes a PyTorch model with its loss as TorchScript, for `shoal train --model-script FILE`.

  export_model.py OUTPUT.pt --type gpt2 --set n_layer=6 --set n_embd=384       a new model of the transformers library
  export_model.py OUTPUT.pt --from FOLDER                                      one that was saved by save_pretrained()

From Python, for a module and a loss of one's own:

  import export_model                             # lies in scripts/, or in share/shoal/ of an installation
  export_model.export(model, "net.pt", loss, evaluate, (inputs, targets), data="mnist")

docs/from_python.md describes the file. Needs torch, and for the command line transformers.
"""
import argparse
import ast
import contextlib
import json
import pathlib
import sys
import warnings

import torch
import torch.nn.functional as F

FORMAT = 1
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
DEFAULTS = {"optimizer": "adamw", "learning_rate": 3e-4, "schedule": "constant", "wrap": "none", "batch_size": 8,
            "epochs": 1}


def method_name(base, dtype):
    """Of the method that was traced with parameters of this type."""
    return base if dtype == "fp32" else f"{base}_{dtype}"


def program_of(model, loss, evaluate, dtypes):
    """The module that is traced. Its one child is the model, and its methods know loss and evaluate from outside."""
    class Program(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

    def forward(self, inputs, targets):
        return loss(self.model, inputs, targets)

    def evaluation(self, inputs, targets):
        return evaluate(self.model, inputs, targets)

    for dtype in dtypes:
        setattr(Program, method_name("forward", dtype), forward)
        if evaluate:
            setattr(Program, method_name("evaluate", dtype), evaluation)
    return Program()


class Methods(dict):
    """What torch.jit.trace_module() traces, one method after the other: each is traced with the model in its own mode
    and element type. Parameters stay the same tensors throughout, so that all methods share them."""

    def __init__(self, model, example, dtypes, evaluate):
        super().__init__()
        self.model = model
        for dtype in dtypes:
            arguments = tuple(a.to(DTYPES[dtype]) if a.is_floating_point() else a for a in example)
            self[method_name("forward", dtype)] = (dtype, True, arguments)
            if evaluate:
                self[method_name("evaluate", dtype)] = (dtype, False, arguments)

    def items(self):
        parameters = [p for p in self.model.parameters() if p.is_floating_point()]
        whole = [p.data for p in parameters]
        training = self.model.training
        try:
            for name, (dtype, train, arguments) in super().items():
                self.dtype = dtype  # of the method that is being worked on
                self.model.train(train)
                for parameter, values in zip(parameters, whole):
                    parameter.data = values.to(DTYPES[dtype])
                yield name, arguments
        finally:
            self.model.train(training)
            for parameter, values in zip(parameters, whole):
                parameter.data = values


def check_same(traced, program, methods, other):
    """Runs the methods on another batch: a size that the trace took for a constant shows here."""
    others = Methods(methods.model, other, [], None)
    others.update({name: (dtype, train, tuple(a.to(DTYPES[dtype]) if a.is_floating_point() else a for a in other))
                   for name, (dtype, train, _) in dict.items(methods)})
    for name, arguments in others.items():
        results = []
        for module in (program, traced):
            torch.manual_seed(1)
            with torch.no_grad():
                results.append(getattr(module, name)(*arguments))
        torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-3, msg=lambda text: (
            f"method {name} of the traced model gives something else than the model itself for inputs of shape "
            f"{tuple(arguments[0].shape)}: what it computes depends on Python numbers or branches. {text}"))


@contextlib.contextmanager
def unchanged_buffers(model):
    """A forward pass in training mode may change buffers, such as the statistics of a batch norm."""
    saved = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        yield
    finally:
        for buffer, values in saved:
            buffer.copy_(values)


def trace(program, methods):
    with warnings.catch_warnings():
        # What a trace fixes is found by check_same(), not by guesses.
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        try:
            return torch.jit.trace_module(program, methods, check_trace=False)
        except RuntimeError as error:
            if methods.dtype == "fp32":
                raise
            raise RuntimeError(f"the model does not work with {methods.dtype} parameters; leave that type out "
                               f"(dtypes=('fp32',), --dtypes fp32): {error}") from error


def smaller(example):
    """Another batch than the example: one sample less, or more where there is but one."""
    return tuple(torch.cat((a, a)) if len(a) == 1 else a[1:] for a in example)


def description(model, data, name, vocab_size, max_positions, mask_token, defaults, dtypes):
    unknown = set(defaults or {}) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"defaults: there is no {', '.join(sorted(unknown))}; there are {', '.join(DEFAULTS)}")
    hidden = [f"{prefix}.{buffer}" if prefix else buffer for prefix, module in model.named_modules()
              for buffer in sorted(module._non_persistent_buffers_set)]  # PyTorch has no public way to ask
    return {"format": FORMAT, "name": name, "module": "model", "data": data, "vocab_size": vocab_size,
            "max_positions": max_positions, "mask_token": mask_token, "dtypes": list(dtypes),
            "non_persistent_buffers": hidden, "defaults": DEFAULTS | (defaults or {})}


def export(model, path, loss, evaluate, example, *, data, other_example=None, name=None, vocab_size=0, max_positions=0,
           mask_token=-1, defaults=None, dtypes=("fp32", "bf16")):
    """Traces `model` with its loss and saves both, with the weights it has, in `path`.

    loss(model, inputs, targets)       the sum of the losses of all samples or tokens; or (sum, their number)
    evaluate(model, inputs, targets)   (sum of the losses, number of right answers, number of answers); None: there is
                                       no validation by accuracy
    example           (inputs, targets) as the data set gives them, two samples or more
    other_example     a batch of another shape, on which the result is checked; by itself one sample less
    data              what it trains on: "tokens", "masked_tokens" or "mnist"
    name              the model's name in `shoal train`; by itself that of its class
    vocab_size, max_positions, mask_token   of models for tokens
    defaults          optimizer, learning_rate, schedule, wrap, batch_size, epochs, where the options do not say
    dtypes            values of --param-dtype that the file is made for: fp32 and any of bf16, fp16
    """
    program = program_of(model, loss, evaluate, dtypes)
    methods = Methods(model, example, dtypes, evaluate)
    about = description(model, data, name or type(model).__name__, vocab_size, max_positions, mask_token, defaults,
                        dtypes)
    with unchanged_buffers(model):
        traced = trace(program, methods)
        check_same(traced, program, methods, other_example or smaller(example))
    torch.jit.save(traced, str(path), _extra_files={"shoal.json": json.dumps(about, indent=1)})


def token_loss(model, inputs, targets):
    """Of a language model, causal or masked; targets of -100 do not count."""
    logits = model(input_ids=inputs).logits
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), reduction="sum")


def token_evaluation(model, inputs, targets):
    logits = model(input_ids=inputs).logits.flatten(0, 1).float()
    wanted = targets.flatten()
    loss = F.cross_entropy(logits, wanted, reduction="sum")
    return loss, (logits.argmax(1) == wanted).sum(), (wanted != -100).sum()


def attention(module, query, key, value, _mask, dropout=0.0, scaling=None, is_causal=None, **_):
    """One operator and no mask tensor: every token of a batch is there, and what is causal says so itself."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    output = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=causal, scale=scaling,
                                            enable_gqa=getattr(module, "num_key_value_groups", 1) > 1)
    return output.transpose(1, 2).contiguous(), None


def use_plain_attention(model):
    from transformers import AttentionInterface, AttentionMaskInterface
    AttentionInterface.register("shoal", attention)
    AttentionMaskInterface.register("shoal", lambda *_, **__: None)
    model.set_attn_implementation("shoal")


def wrap_of(model):
    """The blocks that transformers itself keeps whole."""
    present = {type(module).__name__ for module in model.modules()}
    blocks = [c for c in sorted(model._no_split_modules or []) if c in present and not c.endswith("Embeddings")]
    return "class:" + ",".join(blocks) if blocks else "size:1000000"


def export_transformers(model, path, *, masked, name=None, mask_token=-1, dtypes=("fp32", "bf16"), defaults=None):
    """The same for a causal or masked language model of the transformers library. Its attention is replaced by
    attention() above, which needs no mask; sliding windows and packed sequences are refused."""
    config = model.config
    if getattr(config, "sliding_window", None) and getattr(config, "use_sliding_window", True):
        raise ValueError(f"{config.model_type}: attention with a sliding window cannot be exported")
    use_plain_attention(model)
    config.use_cache = False
    longest = getattr(config, "max_position_embeddings", 0)
    length = min(longest or 16, 16)
    first, second = (torch.randint(config.vocab_size, shape) for shape in ((2, length), (3, max(length - 3, 1))))
    export(model, path, token_loss, token_evaluation, (first, first), other_example=(second, second),
           data="masked_tokens" if masked else "tokens", name=name or config.model_type, vocab_size=config.vocab_size,
           max_positions=longest, mask_token=mask_token, dtypes=dtypes,
           defaults={"wrap": wrap_of(model)} | (defaults or {}))


def make_model(options):
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM
    config = (AutoConfig.from_pretrained(options.folder, local_files_only=True) if options.folder
              else AutoConfig.for_model(options.type))
    for setting in options.set:
        key, _, value = setting.partition("=")
        if not hasattr(config, key):
            raise SystemExit(f"--set {key}: {config.model_type} has no such setting")
        try:
            setattr(config, key, ast.literal_eval(value))
        except (SyntaxError, ValueError):
            setattr(config, key, value)
    masked = options.masked if options.masked is not None else config.model_type in MASKED
    family = AutoModelForMaskedLM if masked else AutoModelForCausalLM
    if options.folder:
        return family.from_pretrained(options.folder, config=config, local_files_only=True).float(), masked
    torch.manual_seed(options.seed)
    return family.from_config(config).float(), masked


MASKED = ("albert", "bert", "camembert", "distilbert", "electra", "modernbert", "roberta", "xlm-roberta")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--type", help="a model type of transformers, such as gpt2, llama, bert; random weights")
    source.add_argument("--from", dest="folder", help="a folder with config.json and weights")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of its configuration")
    parser.add_argument("--masked", action=argparse.BooleanOptionalAction, default=None,
                        help="a masked language model, not a causal one; by itself what the type is made for")
    parser.add_argument("--mask-token", type=int, default=-1, help="id of [MASK]; -1: the last of the vocabulary")
    parser.add_argument("--dtypes", default="fp32,bf16", help="values of --param-dtype to make it for (%(default)s)")
    parser.add_argument("--name", help="the model's name in shoal train; by itself its type")
    parser.add_argument("--seed", type=int, default=1, help="of random weights")
    return parser.parse_args()


def main():
    options = parse_options()
    dtypes = tuple(options.dtypes.split(","))
    if "fp32" not in dtypes or set(dtypes) - set(DTYPES):
        raise SystemExit(f"--dtypes {options.dtypes}: expected fp32 and any of bf16, fp16")
    model, masked = make_model(options)
    export_transformers(model, options.output, masked=masked, name=options.name, mask_token=options.mask_token,
                        dtypes=dtypes)
    count = sum(p.numel() for p in model.parameters())
    print(f"wrote {options.output}: {type(model).__name__}, {count} parameters, --wrap {wrap_of(model)}")


if __name__ == "__main__":
    sys.exit(main())
