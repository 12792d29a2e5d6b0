"""Initial weights from files that PyTorch, safetensors, h5py and transformers wrote are read to the bit.

weights_interop_test.py LOAD_WEIGHTS_PROGRAM

Every load is done on one rank and on three that each read their ranges, and on three for which rank 0 reads.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

try:
    import h5py
    import numpy as np
    import safetensors.torch
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

PROGRAM = None
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
OTHERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


def sample(dtype, *shape):
    if dtype.is_floating_point:
        return (torch.randn(shape, dtype=torch.float64) * 3).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 100, shape).to(dtype)


def all_types():
    tensors = {f"layer.{str(dtype)[6:]}": sample(dtype, 5, 3, 2) for dtype in FLOATS + OTHERS}
    return tensors | {"scalar": sample(torch.float32), "empty": sample(torch.float32, 0, 4)}


def bits(tensor):
    """The elements' bytes, row-major."""
    plain = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach()).reshape(-1)
    return plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b""


class Reader:
    def __init__(self, folder):
        self.folder = folder

    def run(self, source, model, ranks, rank0=False, ties=()):
        """`model`: names to tensors of the wanted types and shapes. Returns the process and the bytes that came."""
        with open(self.folder + "/model.txt", "w") as file:
            for name, tensor in model.items():
                print(name, str(tensor.dtype)[6:], *tensor.shape, file=file)
            for alias, name in ties:
                print(alias, "=", name, file=file)
        output = self.folder + "/output"
        done = subprocess.run([PROGRAM, self.folder + "/model.txt", source, str(ranks), output] + ["rank0"] * rank0,
                              capture_output=True, text=True)
        if done.returncode:
            return done, None
        with open(output, "rb") as file:
            return done, file.read()


class WeightsInterop(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.folder = tempfile.mkdtemp(prefix="shoal_weights_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.file = self.folder + "/weights"
        self.reader = Reader(self.folder)

    def check(self, source, expected, ties=(), ways=((1, False), (3, False), (3, True))):
        """All of `expected` comes, to the bit. Returns what the report says."""
        wanted = b"".join(bits(tensor) for tensor in expected.values())
        for ranks, rank0 in ways:
            done, got = self.reader.run(source, expected, ranks, rank0, ties)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(got == wanted, f"other bytes on {ranks} ranks, rank0={rank0}: {done.stdout}")
        return done.stdout

    def check_refused(self, source, model, *words, ties=()):
        for ranks, rank0 in ((1, False), (3, False), (3, True)):
            done, _ = self.reader.run(source, model, ranks, rank0, ties)
            self.assertEqual(done.returncode, 1, done.stdout)
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    # The three kinds of files, and what may stand in them.

    def test_safetensors(self):
        tensors = all_types()
        safetensors.torch.save_file(tensors, self.file, metadata={"format": "pt"})
        self.check(self.file, tensors)

    def test_torch_save(self):
        for protocol in (2, 4, 5):
            tensors = all_types()
            torch.save(tensors, self.file, pickle_protocol=protocol)
            self.check(self.file, tensors)

    def test_torch_save_of_a_module(self):
        module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
        torch.save(module.state_dict(), self.file)  # an OrderedDict with attributes
        self.check(self.file, module.state_dict())
        torch.save(dict(module.named_parameters()) | dict(module.named_buffers()), self.file)  # Parameters
        self.check(self.file, module.state_dict())

    def test_torch_save_of_views(self):
        base = sample(torch.float32, 40, 30)
        views = {"transposed": base.t(), "rows": base[3:7], "columns": base[:, 5:9], "steps": base[::3, ::2],
                 "expanded": base[:, :1].expand(40, 6), "diagonal": base.diagonal(),
                 "last": sample(torch.float16, 3, 4, 5, 6).to(memory_format=torch.channels_last),
                 "permuted": sample(torch.bfloat16, 3, 4, 5).permute(2, 0, 1), "one": base[7:8, :1].t()}
        torch.save(views, self.file)
        self.check(self.file, views)

    def test_training_checkpoint(self):
        module = torch.nn.Linear(4, 3)
        optimizer = torch.optim.Adam(module.parameters())
        module(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        torch.save({"model": module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "best": None},
                   self.file)
        self.assertIn("those under 'model'", self.check(self.file, module.state_dict()))

    def test_hdf5(self):
        tensors = {name: t for name, t in all_types().items() if t.dtype != torch.bfloat16}
        with h5py.File(self.file, "w") as file:
            for name, tensor in tensors.items():
                file[name.replace(".", "/")] = tensor.numpy()
        self.check(self.file, tensors)

    def test_hdf5_of_all_layouts(self):
        weight = sample(torch.float32, 37, 23)
        with h5py.File(self.file, "w", userblock_size=1024) as file:
            file.create_dataset("chunks", data=weight.numpy(), chunks=(8, 5), compression="gzip", shuffle=True)
            file.create_dataset("group/big", data=weight.numpy(), dtype=">f4")
            file.create_dataset("group/ints", data=np.arange(7), dtype=">i2")
            file["link"] = h5py.SoftLink("/chunks")
            file["hard"] = file["group/big"]
        self.check(self.file, {"chunks": weight, "group.big": weight, "group.ints": torch.arange(7).short(),
                               "link": weight, "hard": weight})

    # Types are converted as Tensor.to() does.

    def test_conversions(self):
        special = torch.tensor([0.0, -0.0, 1.0, 65504, 65520, 1e38, -1e39, 1e-7, 6e-8, 1e-40, 3.1415926535, float("inf"),
                                1.0009765625, 1.00390625, 1 + 2.0**-9, 1 + 2.0**-12 + 2.0**-30], dtype=torch.float64)
        tensors = {str(dtype)[6:]: torch.cat([special, sample(torch.float64, 200)]).to(dtype) for dtype in FLOATS}
        safetensors.torch.save_file(tensors, self.file)
        for dtype in FLOATS:
            self.check(self.file, {name: tensor.to(dtype) for name, tensor in tensors.items()})
        self.check_refused(self.file, tensors | {"float16": tensors["float16"].short()}, "of another shape or type",
                           "'float16' is float16 [216] in the file and int16 [216] in the model")

    # What transformers saves.

    def gpt2(self, **options):
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=61, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=None,
            eos_token_id=None, **options))

    @staticmethod
    def tensors_of(model):
        """A built-in model's state: each tensor once; the tied names."""
        names = dict(model.named_parameters()) | dict(model.named_buffers())
        state = {name: tensor for name, tensor in names.items() if name in model.state_dict()}
        ties = [(name, next(first for first in state if state[first].data_ptr() == tensor.data_ptr()))
                for name, tensor in model.state_dict().items() if name not in state]
        return state, ties

    def save(self, model, **options):
        model.save_pretrained(self.folder + "/model", **options)
        return self.folder + "/model"

    def test_gpt2(self):
        model = self.gpt2()
        state, ties = self.tensors_of(model)
        self.assertEqual(ties, [("lm_head.weight", "transformer.wte.weight")])
        folder = self.save(model)
        self.check(folder, state, ties)
        base, _ = self.tensors_of(model.transformer)
        self.assertIn("have 'transformer.' in front", self.check(folder, base))
        untied = state | {"lm_head.weight": model.transformer.wte.weight}
        self.assertIn("'lm_head.weight' takes the values of", self.check(folder, untied))
        self.assertIn("lack 'transformer.' in front", self.check(self.save(model.transformer), state, ties))

    def test_gpt2_with_an_untied_head(self):
        model = self.gpt2(tie_word_embeddings=False)
        state, ties = self.tensors_of(model)
        self.assertEqual(ties, [])
        folder = self.save(model)
        self.check(folder, state)
        tied = {name: tensor for name, tensor in state.items() if name != "lm_head.weight"}
        self.check_refused(folder, tied, "differ", "--untied-head")
        self.check_refused(folder, tied, "differ", ties=[("lm_head.weight", "transformer.wte.weight")])

    def test_old_gpt2_file(self):
        """As on the hub: pytorch_model.bin of the base model, with the masks as buffers."""
        model = self.gpt2()
        old = {name: tensor for name, tensor in model.transformer.state_dict().items()}
        for layer in range(2):
            old[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 16, 16).tril()
            old[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
        os.mkdir(self.folder + "/old")
        torch.save(old, self.folder + "/old/pytorch_model.bin")
        state, ties = self.tensors_of(model)
        self.assertIn("4 buffers left out", self.check(self.folder + "/old", state, ties))

    def test_sharded_llama(self):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=32)).to(torch.bfloat16)
        state, ties = self.tensors_of(model)
        self.assertEqual(ties, [])
        folder = self.save(model, max_shard_size="20kB")
        self.assertTrue(os.path.exists(folder + "/model.safetensors.index.json"))
        self.assertNotIn(", 1 files", self.check(folder, state))
        self.check(folder, {name: tensor.float() for name, tensor in state.items()})
        os.remove(glob.glob(folder + "/*-00002-of-*")[0])
        self.check_refused(folder, state, "model-00002-of-", "not there")

    def test_sharded_bin(self):
        model = self.gpt2()
        state, ties = self.tensors_of(model)
        names = sorted(state)
        parts = {"pytorch_model-00001-of-00002.bin": names[:7], "pytorch_model-00002-of-00002.bin": names[7:]}
        for part, held in parts.items():
            torch.save({name: state[name] for name in held}, f"{self.folder}/{part}")
        with open(self.folder + "/pytorch_model.bin.index.json", "w") as file:
            json.dump({"metadata": {}, "weight_map": {name: part for part, held in parts.items() for name in held}}, file)
        self.assertIn("torch.save, 2 files", self.check(self.folder, state, ties))

    def test_bert(self):
        model = transformers.BertForMaskedLM(transformers.BertConfig(
            vocab_size=53, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
            max_position_embeddings=20))
        state, ties = self.tensors_of(model)
        folder = self.save(model)
        self.check(folder, state, ties)
        first = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
                 for name, tensor in model.state_dict().items()}
        first["bert.embeddings.position_ids"] = torch.arange(20).reshape(1, 20)
        torch.save(first, self.file)
        self.assertIn("'gamma' and 'beta'", self.check(self.file, state, ties))

    # What must not be read.

    def test_nothing_is_executed(self):
        class Evil:
            def __reduce__(self):
                return (os.system, (f"touch {marker}",))
        marker = self.folder + "/executed"
        torch.save({"w": torch.ones(2), "x": Evil()}, self.file)
        self.check_refused(self.file, {"w": torch.ones(2)}, "'posix.system'", "state_dict()")
        self.assertFalse(os.path.exists(marker))
        torch.save(torch.nn.Linear(2, 2), self.file)
        self.check_refused(self.file, {"w": torch.ones(2)}, "'torch.nn.modules.linear.Linear'")

    def test_other_files(self):
        model = {"w": torch.ones(2, 3)}
        torch.save(model, self.file, _use_new_zipfile_serialization=False)
        self.check_refused(self.file, model, "before PyTorch 1.6")
        torch.jit.script(torch.nn.Linear(2, 2)).save(self.file)
        self.check_refused(self.file, model, "--model-script")
        torch.save([1, 2], self.file)
        self.check_refused(self.file, model, "no dictionary")
        torch.save({"w": torch.ones(2, 3, dtype=torch.complex64)}, self.file)
        self.check_refused(self.file, model, "'w' (it is in a torch.ComplexFloatStorage)")
        torch.save(model, self.folder + "/plain.pt")
        with zipfile.ZipFile(self.folder + "/plain.pt") as plain, zipfile.ZipFile(
                self.file, "w", zipfile.ZIP_DEFLATED) as packed:
            for name in plain.namelist():
                packed.writestr(name, plain.read(name))
        self.check_refused(self.file, model, "compressed")
        safetensors.torch.save_file({"w": torch.ones(2, 3, dtype=torch.uint16)}, self.file)
        self.check_refused(self.file, model, "'w' (it has the element type U16)")

    def test_hdf5_that_leads_elsewhere(self):
        model = {"w": torch.ones(6)}
        with h5py.File(self.folder + "/other", "w") as file:
            file["w"] = np.ones(6, np.float32)
        for make, word in ((lambda f: f.__setitem__("w", h5py.ExternalLink("other", "/w")), "another file"),
                           (lambda f: f.__setitem__("w", h5py.SoftLink("/nowhere")), "link to nothing"),
                           (lambda f: f.create_dataset("w", (6,), "f4", external=[("other", 0, 24)]), "other files"),
                           (lambda f: f.create_dataset("w", data=np.array([b"text"])), "element type")):
            with h5py.File(self.file, "w") as file:
                make(file)
            self.check_refused(self.file, model, "'w' (it ", word)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    transformers.utils.logging.disable_progress_bar()
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
