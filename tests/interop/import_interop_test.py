"""shoal ckpt import takes what PyTorch, safetensors, transformers and DeepSpeed have written, bit for bit.

import_interop_test.py SHOAL_CKPT GOLDEN_FOLDER

The golden files are those of tests/interop/make_import_goldens.py: their true tensors lie beside them.
"""
import glob
import json
import os
import pathlib
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import numpy as np
    import torch
    import safetensors.torch
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

SHOAL_CKPT = GOLDENS = None
HERE = os.path.dirname(os.path.abspath(__file__))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def run(*arguments):
    return subprocess.run([SHOAL_CKPT, *map(str, arguments)], capture_output=True, text=True)


def moments_of(optimizer):
    """{"exp_avg/NAME": tensor} of a state dict with names."""
    found = {}
    for name, state in optimizer["state"].items():
        for key, value in state.items():
            if key != "step":
                found[f"{key}/{name}"] = value
    return found


class ImportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal_import.")
        port = free_port()
        ranks = [subprocess.Popen([sys.executable, HERE + "/import_sources.py", str(rank), "2", port, cls.folder],
                                  env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for rank in range(2)]
        outputs = [r.communicate(timeout=120)[0] for r in ranks]
        assert [r.returncode for r in ranks] == [0, 0], outputs

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.output = tempfile.mkdtemp(prefix="out.", dir=self.folder)

    def imported(self, source, *options):
        """The checkpoint, verified, as (manifest, model's tensors, optimizer's tensors)."""
        directory = os.path.join(self.output, "checkpoints")
        shutil.rmtree(directory, ignore_errors=True)
        result = run("import", source, "--output", directory, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(run("verify", directory).returncode, 0)
        manifest = json.loads(pathlib.Path(glob.glob(directory + "/step_*/manifest.json")[0]).read_text())
        model, whole = self.output + "/model.pt", self.output + "/whole.h5"
        self.assertEqual(run("consolidate", directory, "--output", model, "--force").returncode, 0)
        self.assertEqual(run("consolidate", directory, "--output", whole, "--with-optimizer", "--force").returncode, 0)
        optimizer = {}
        with h5py.File(whole) as file:
            for state, group in file.get("optimizer", {}).items():
                optimizer.update({f"{state}/{name}": torch.from_numpy(np.asarray(group[name])) for name in group})
        return manifest, torch.load(model, weights_only=True), optimizer

    def assert_same(self, found, expected):
        self.assertEqual(sorted(found), sorted(expected))
        for name, tensor in expected.items():
            self.assertEqual((found[name].dtype, found[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertTrue(torch.equal(found[name].contiguous().view(-1).view(torch.uint8),
                                        tensor.detach().contiguous().view(-1).view(torch.uint8)), name)

    def test_dcp_directories_of_fsdp_and_ddp(self):
        for name in ("fsdp2", "fsdp1", "ddp"):
            for ranks in ("1", "3"):
                with self.subTest(name, ranks=ranks):
                    dcp_to_torch_save(f"{self.folder}/{name}", f"{self.output}/whole.pt")
                    whole = torch.load(f"{self.output}/whole.pt", weights_only=False)
                    manifest, model, optimizer = self.imported(f"{self.folder}/{name}", "--ranks", ranks)
                    self.assertEqual((manifest["step"], manifest["ranks"]), (3, int(ranks)))
                    self.assertEqual(manifest["training_state"]["optimizer"], "adamw")
                    self.assert_same(model, whole["model"])
                    self.assert_same(optimizer, moments_of(whole["optimizer"]))

    def test_dcp_directories_of_a_model_alone(self):
        for name in ("ddp_plain", "boxes"):
            with self.subTest(name):
                whole = torch.load(f"{self.folder}/{name}.pt", weights_only=True)["model"]
                manifest, model, optimizer = self.imported(f"{self.folder}/{name}")
                self.assert_same(model, whole)
                self.assertEqual((manifest["step"], optimizer), (0, {}))

    def test_key_picks_and_weights_only_leaves_out(self):
        whole = torch.load(f"{self.folder}/fsdp2.pt", weights_only=False)
        manifest, model, optimizer = self.imported(f"{self.folder}/fsdp2", "--key", "model", "--weights-only")
        self.assert_same(model, whole["model"])
        self.assertEqual(optimizer, {})
        self.assertFalse(manifest["training_state"]["imported"]["with_optimizer"])
        result = run("import", f"{self.folder}/fsdp2", "--output", self.output + "/x", "--key", "nothing")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("'nothing' (--key)", result.stderr)

    def test_torch_save_with_numbered_and_named_optimizers(self):
        whole = torch.load(f"{self.folder}/nested.pt", weights_only=False)
        named = torch.load(f"{self.folder}/ddp.pt", weights_only=False)
        _, model, optimizer = self.imported(f"{self.folder}/nested.pt", "--ranks", "2")
        self.assert_same(model, whole["model"])
        self.assert_same(optimizer, moments_of(named["optimizer"]))
        _, model, optimizer = self.imported(f"{self.folder}/ddp.pt")
        self.assert_same(model, whole["model"])
        self.assert_same(optimizer, moments_of(named["optimizer"]))

    def test_groups_of_numbers_are_refused_but_not_the_weights(self):
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.AdamW([{"params": [net.bias]}, {"params": [net.weight], "weight_decay": 0.0}])
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        path = self.output + "/groups.pt"
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, path)
        result = run("import", path, "--output", self.output + "/x")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("2 groups of numbered parameters", result.stderr)
        _, model, _ = self.imported(path, "--weights-only")
        self.assert_same(model, net.state_dict())

    def test_nested_key_dtype_and_views(self):
        base = torch.randn(6, 4)
        path = self.output + "/nested.pt"
        torch.save({"epochs": 3, "state": {"ema.v2": {"w": base.t(), "half": base[2:4]}}}, path)
        _, model, _ = self.imported(path, "--key", "state.ema.v2")
        self.assert_same(model, {"w": base.t(), "half": base[2:4]})
        manifest, model, _ = self.imported(path, "--key", "state.ema.v2", "--dtype", "bf16", "--step", "7")
        self.assert_same(model, {"w": base.t().to(torch.bfloat16), "half": base[2:4].to(torch.bfloat16)})
        self.assertEqual(manifest["step"], 7)

    def test_safetensors_single_and_in_several_files(self):
        tensors = {"a": torch.randn(3, 5), "b": torch.arange(7), "c": torch.randn(4).to(torch.bfloat16)}
        single = self.output + "/model.safetensors"
        safetensors.torch.save_file(tensors, single)
        self.assert_same(self.imported(single)[1], tensors)
        folder = self.output + "/hf"
        os.mkdir(folder)
        for i, name in enumerate(tensors):
            safetensors.torch.save_file({name: tensors[name]}, f"{folder}/part{i}.safetensors")
        index = {"metadata": {}, "weight_map": {name: f"part{i}.safetensors" for i, name in enumerate(tensors)}}
        pathlib.Path(folder + "/model.safetensors.index.json").write_text(json.dumps(index))
        self.assert_same(self.imported(folder, "--ranks", "2")[1], tensors)

    def test_a_folder_of_transformers_keeps_its_tie(self):
        from transformers import GPT2Config, GPT2LMHeadModel

        model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=11, n_positions=6))
        folder = self.output + "/gpt2"
        model.save_pretrained(folder)
        state = model.state_dict()
        manifest, found, _ = self.imported(folder)
        expected = {name: t for name, t in state.items() if name != "lm_head.weight"}
        self.assert_same(found, expected)
        torch.save(state, self.output + "/gpt2.pt")  # both names, one storage
        manifest, found, _ = self.imported(self.output + "/gpt2.pt")
        self.assert_same(found, state)
        self.assertEqual(sorted(manifest["aliases"][0]), ["model/lm_head.weight", "model/transformer.wte.weight"])
        copied = {name: t.clone() for name, t in state.items()}  # two storages of equal values
        safetensors.torch.save_file(copied, self.output + "/copied.safetensors")
        manifest, found, _ = self.imported(self.output + "/copied.safetensors")
        self.assert_same(found, state)
        self.assertEqual(manifest["aliases"], [["model/lm_head.weight", "model/transformer.wte.weight"]])

    def test_golden_files_of_other_versions(self):
        goldens = sorted(glob.glob(GOLDENS + "/*.pt"))
        self.assertGreaterEqual(len(goldens), 4)
        for golden in goldens:
            with self.subTest(os.path.basename(golden)):
                whole = torch.load(golden, weights_only=True)
                manifest, model, optimizer = self.imported(golden[:-3], "--ranks", "2")
                self.assert_same(model, whole["model"])
                self.assert_same(optimizer, whole["moments"])
                self.assertEqual(manifest["step"], whole["step"])

    def test_dry_run_writes_nothing(self):
        result = run("import", f"{self.folder}/fsdp2", "--output", self.output + "/x", "--dry-run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("9 tensors of the model and 12 of the optimizer, step 3", result.stdout)
        self.assertFalse(os.path.exists(self.output + "/x"))

    def refused(self, source, *parts):
        output = self.output + "/refused"
        result = run("import", source, "--output", output)
        self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertEqual(glob.glob(output + "/*"), [])

    def test_names_and_sizes_that_cannot_be(self):
        path = self.output + "/names.pt"
        for state, part in (({"a": torch.ones(2), "_orig_mod.a": torch.zeros(2)}, '"model/a" is the name of two tensors'),
                            ({"a\0b": torch.ones(2)}, "zero bytes"), ({"": torch.ones(2)}, "is no name of a tensor"),
                            ({"a": torch.ones(1).expand(2**40)}, "repeats a storage of 4"),
                            ({"a": torch.ones(2, dtype=torch.complex64)}, "ComplexFloatStorage"),
                            ({"a": torch.ones(2, dtype=torch.uint16)}, "torch.uint16")):
            torch.save(state, path)
            self.refused(path, part)

    def test_damaged_and_hostile_sources(self):
        copy = self.output + "/copy"
        shutil.copytree(f"{self.folder}/fsdp2", copy)
        data = pathlib.Path(copy + "/__0_0.distcp")
        whole = data.read_bytes()
        data.write_bytes(whole[:-700])
        self.refused(copy, "truncated or damaged")
        data.write_bytes(whole)
        os.remove(copy + "/__1_0.distcp")
        self.assertEqual(run("import", copy, "--output", self.output + "/x").returncode, 5)

        class Evil:
            def __reduce__(self):
                return os.system, ("touch " + Evil.mark,)

        Evil.mark = self.output + "/executed"
        pathlib.Path(copy + "/.metadata").write_bytes(pickle.dumps(Evil()))
        self.refused(copy, "posix.system")
        torch.save({"w": torch.ones(2), "x": Evil()}, self.output + "/evil.pt")
        self.refused(self.output + "/evil.pt", "posix.system")
        self.assertFalse(os.path.exists(Evil.mark))


if __name__ == "__main__":
    SHOAL_CKPT, GOLDENS = sys.argv[1:3]
    del sys.argv[1:]
    unittest.main()
