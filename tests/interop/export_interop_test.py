"""What 'shoal ckpt export' writes is read by the libraries of each format, bit by bit what was saved.

export_interop_test.py SHOAL_CKPT MAKE_FROM_DESCRIPTION

States are made here with torch and saved as sharded checkpoints, exported, and read by torch, safetensors and h5py.
"""
import json
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import numpy as np
    import safetensors
    import safetensors.torch
    import torch
    from huggingface_hub import split_torch_state_dict_into_shards
    from conversion_samples import DTYPES, NAMES, SHAPES, random_tensor, raw, read_hdf5, same_bits, save
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

SHOAL_CKPT = MAKE = None


class ExportInterop(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shoal_export_")
        self.addCleanup(shutil.rmtree, self.folder)

    def save(self, state, *arguments, **options):
        save(MAKE, self.folder, state, *arguments, **options)

    def run_export(self, *options, code=0):
        done = subprocess.run([SHOAL_CKPT, "export", self.folder + "/ckpt", "--force", *options], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def export(self, name, *options):
        path = f"{self.folder}/{name}"
        self.run_export("--output", path, *options)
        return path

    def load_all(self, *options):
        """The same export in the three formats, each read by its library."""
        yield "pt", torch.load(self.export("out.pt", *options), weights_only=True)
        yield "safetensors", safetensors.torch.load_file(self.export("out.safetensors", *options))
        yield "hdf5", read_hdf5(self.export("out.h5", *options))

    def check(self, expected, *options):
        for form, state in self.load_all(*options):
            self.assertEqual(set(state), set(expected), form)
            for name, tensor in expected.items():
                self.assertTrue(same_bits(state[name], tensor), f"{form}: {name[:40]} {tensor.dtype} {tensor.shape}")

    def test_every_type_shape_and_name(self):
        generator, choose = torch.Generator().manual_seed(1), random.Random(1)
        state = {f"{dtype}.{i}": random_tensor(dtype, shape, generator)
                 for dtype in DTYPES for i, shape in enumerate(SHAPES)}
        self.save(state, ranks=5)
        self.check(state)
        for ranks in (1, 2, 7):
            state = {name: random_tensor(choose.choice(DTYPES), choose.choice(SHAPES), generator) for name in NAMES}
            self.save(state, ranks=ranks)
            self.check(state)

    def test_conversion_is_that_of_torch(self):
        patterns = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16)
        wide = torch.cat([(torch.arange(1 << 16, dtype=torch.int64) << 16 | low).to(torch.int32).view(torch.float32)
                          for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0x0FFF, 0x1000, 0x1001, 0x2000, 0xFFFF)])
        doubles = torch.cat([wide.double(), torch.tensor([65519.999, 65520.0, 1e300, -1e-300, 5e-324, float("nan")],
                                                         dtype=torch.float64)])
        bytes_of_all = torch.arange(256, dtype=torch.int32).to(torch.uint8)
        state = {"fp8_e4m3": bytes_of_all.view(torch.float8_e4m3fn), "fp8_e5m2": bytes_of_all.view(torch.float8_e5m2),
                 "fp32": wide, "fp64": doubles, "fp16": patterns.view(torch.float16), "bf16": patterns.view(torch.bfloat16),
                 "int": torch.arange(5), "mask": torch.tensor([True, False])}
        self.save(state)
        for option, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
            for form, got in self.load_all("--dtype", option):
                for name, tensor in state.items():
                    expected = tensor.to(dtype) if tensor.dtype.is_floating_point else tensor
                    self.assertEqual(got[name].dtype, expected.dtype)
                    if not expected.is_floating_point():
                        self.assertTrue(torch.equal(got[name], expected))
                        continue
                    nan = torch.isnan(expected)
                    self.assertTrue(torch.equal(torch.isnan(got[name]), nan), (form, name, option))
                    self.assertTrue(torch.equal(raw(got[name][~nan]), raw(expected[~nan])), (form, name, option))

    def test_numpy_archives(self):
        generator = torch.Generator().manual_seed(2)
        has_numpy = [dtype for dtype in DTYPES if dtype != torch.bfloat16 and "float8" not in str(dtype)]
        state = {f"{dtype}.{i}": random_tensor(dtype, shape, generator)
                 for dtype in has_numpy for i, shape in enumerate(SHAPES)}
        state |= {name: random_tensor(torch.float32, (3, 2), generator) for name in NAMES}
        self.save(state, aliases=[("tied", "weight")])
        with np.load(self.export("out.npz"), allow_pickle=False) as arrays:
            self.assertEqual(set(arrays.files), {*state, "tied"})
            for name, tensor in [*state.items(), ("tied", state["weight"])]:
                self.assertTrue(same_bits(torch.from_numpy(arrays[name]), tensor), (name[:40], tensor.dtype, tensor.shape))
        self.save({"wte.brain": torch.randn(3).to(torch.bfloat16)})
        complaint = self.run_export("--output", self.folder + "/x.npz", code=2).stderr
        for said in ("bfloat16", "wte.brain", "--dtype"):
            self.assertIn(said, complaint)
        with np.load(self.export("out.npz", "--dtype", "fp32")) as arrays:
            self.assertEqual(arrays["wte.brain"].dtype, np.float32)

    def test_tied_weights(self):
        state = {"wte.weight": torch.randn(6, 4), "b": torch.randn(3)}
        self.save(state, aliases=[("lm_head.weight", "wte.weight")])
        loaded = torch.load(self.export("out.pt"), weights_only=True)
        self.assertEqual(loaded["lm_head.weight"].data_ptr(), loaded["wte.weight"].data_ptr())
        with h5py.File(self.export("out.h5")) as file:
            self.assertEqual(file["lm_head.weight"], file["wte.weight"])
        path = self.export("out.safetensors")
        with safetensors.safe_open(path, "pt") as file:
            self.assertEqual(file.metadata(), {"format": "pt", "lm_head.weight": "wte.weight"})
            self.assertEqual(set(file.keys()), {"wte.weight", "b"})

        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.wte, self.lm_head = torch.nn.Embedding(6, 4), torch.nn.Linear(4, 6, bias=False)
                self.b = torch.nn.Parameter(torch.zeros(3))
                self.lm_head.weight = self.wte.weight

        model = Tied()
        self.assertEqual(safetensors.torch.load_model(model, path), (set(), []))
        self.assertTrue(torch.equal(model.lm_head.weight, state["wte.weight"]))

    def test_several_files_as_hugging_face_splits_them(self):
        state = {f"h.{i}.weight": torch.randn(random.Random(i).randint(1, 900)) for i in range(40)}
        self.save(state)
        for size, limit in (("1KB", 1000), ("5KiB", 5120), ("40KB", 40000)):
            folder = self.export("out-" + size, "--max-shard-size", size)
            split = split_torch_state_dict_into_shards(state, filename_pattern="model{suffix}.safetensors",
                                                       max_shard_size=limit)
            with open(folder + "/model.safetensors.index.json") as file:
                index = json.load(file)
            self.assertEqual(index["weight_map"], split.tensor_to_filename)
            self.assertEqual(index["metadata"]["total_size"], split.metadata["total_size"])
            for name, tensors in split.filename_to_tensors.items():
                part = safetensors.torch.load_file(f"{folder}/{name}")
                self.assertEqual(set(part), set(tensors))
                for tensor in tensors:
                    self.assertTrue(same_bits(part[tensor], state[tensor]))
        folder = self.export("one", "--max-shard-size", "5GB")
        self.assertEqual(set(safetensors.torch.load_file(folder + "/model.safetensors")), set(state))

    def test_selection_and_names(self):
        state = {f"transformer.h.{i}.{kind}": torch.randn(2, 3) for i in range(3) for kind in ("w", "b")}
        self.save(state, aliases=[("head", "transformer.h.0.w")])
        with open(self.folder + "/rules", "w") as file:
            file.write("# names of another program\n\ntransformer\\.h\\.(\\d+)\\.(.*) -> layers.$1.$2\n")
        rules = ["--rename", self.folder + "/rules"]
        self.check({f"layers.{i}.w": state[f"transformer.h.{i}.w"] for i in range(3)}, "--select", "transformer.h.*.w", *rules)
        both = ["--rename", "transformer.h.**=blocks.**", "--rename", "head=out"]
        self.check({"blocks.1.b": state["transformer.h.1.b"], "out": state["transformer.h.0.w"]}, "--select", "**.1.b",
                   "--select", "head", *both)
        # Of tied names the one that is wanted.
        self.check({"head": state["transformer.h.0.w"], "transformer.h.1.b": state["transformer.h.1.b"]}, "--select", "head",
                   "--select", "**.1.b")
        complaint = self.run_export("--output", self.folder + "/x.pt", "--select", "nothing", code=2).stderr
        self.assertIn("--select 'nothing'", complaint)
        for rule, said in (("transformer.* -> x", "the one name 'x'"), ("a", "rules:1"), ("( -> x", "rules:1"),
                           ("(head) -> ", "rules:1"), ("head -> a\n.* -> b", "rules:2")):
            with open(self.folder + "/rules", "w") as file:
                file.write(rule + "\n")
            self.assertIn(said, self.run_export("--output", self.folder + "/x.pt", *rules, code=2).stderr)

    def test_dry_run_says_what_would_be_written(self):
        self.save({"a.weight": torch.randn(4, 2)}, aliases=[("b.weight", "a.weight")])
        text = self.run_export("--output", self.folder + "/none.safetensors", "--dtype", "bf16", "--dry-run").stdout
        for said in ("a.weight", "bfloat16", "4 x 2", "as a.weight", "none.safetensors: ", "memory: "):
            self.assertIn(said, text)
        with self.assertRaises(FileNotFoundError):
            open(self.folder + "/none.safetensors")

    def test_torch_optimizers_go_on(self):
        for name, make, options in (
                ("adamw", lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1), {}),
                ("adam", lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1), {}),
                ("sgd", lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.1), {"momentum": "0.9"}),
                ("sgd", lambda p: torch.optim.SGD(p, lr=0.01, weight_decay=0.1), {}),
                ("adadelta", lambda p: torch.optim.Adadelta(p, lr=0.01, weight_decay=0.1), {})):
            with self.subTest(name):
                self.check_optimizer(name, make, options)

    def check_optimizer(self, name, make, options):
        def model_with_groups():
            torch.manual_seed(3)
            model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.LayerNorm(7), torch.nn.Linear(7, 2))
            named = dict(model.named_parameters())
            decay = [n for n, p in named.items() if p.dim() >= 2]
            rest = [n for n, p in named.items() if p.dim() < 2]
            groups = [{"params": [named[n] for n in decay]}, {"params": [named[n] for n in rest], "weight_decay": 0.0}]
            return model, make(groups), decay + rest

        def step(model, optimizer, seed):
            torch.manual_seed(seed)
            optimizer.zero_grad()
            model(torch.randn(4, 5)).square().mean().backward()
            optimizer.step()

        model, optimizer, names = model_with_groups()
        for seed in range(3):
            step(model, optimizer, seed)
        states = {(kind, names[index]): value for index, state in optimizer.state_dict()["state"].items()
                  for kind, value in state.items() if kind != "step" and value is not None}
        self.save(model.state_dict(), states, training_state={
            "step": 3, "optimizer_steps": 3, "options": {
                "optimizer": name, "lr": "0.01", "betas": "0.8,0.95", "weight-decay": "0.1", "momentum": "0",
                "no-decay": "auto", "param-group": "none", **options}})
        saved = torch.load(self.export("all.pt", "--with-optimizer"), weights_only=True)
        self.assertEqual((saved["step"], json.loads(saved["training_state"])["step"]), (7, 3))
        again, fresh, _ = model_with_groups()
        again.load_state_dict(saved["model"])
        fresh.load_state_dict(saved["optimizer"])
        expected = [group["params"] for group in optimizer.state_dict()["param_groups"]]
        self.assertEqual([group["params"] for group in saved["optimizer"]["param_groups"]], expected)
        self.assertEqual([n for group in saved["optimizer"]["param_groups"] for n in group["param_names"]], names)
        for before, after in zip(optimizer.state_dict()["param_groups"], fresh.state_dict()["param_groups"]):
            self.assertEqual(before, {key: after[key] for key in before})
        for seed in range(3, 5):
            step(model, optimizer, seed)
            step(again, fresh, seed)
        for (key, a), b in zip(model.state_dict().items(), again.state_dict().values()):
            self.assertTrue(same_bits(a, b), key)


if __name__ == "__main__":
    SHOAL_CKPT, MAKE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
