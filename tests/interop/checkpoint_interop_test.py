"""h5py and PyTorch read our files and find every value that was saved.

checkpoint_interop_test.py SHOAL_CKPT MAKE_CHECKPOINT

The values are those of tests/checkpoint/sample_state.h, computed here a second time.
"""
import glob
import json
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import numpy as np
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

SHOAL_CKPT = MAKE_CHECKPOINT = None
SALT = 5
ALIAS = {"tied": "conv1.weight"}
MODEL = {
    "conv1.weight": (torch.float32, (7, 3, 3, 3)), "conv1.bias": (torch.float32, (7,)),
    "a/b%c": (torch.float32, (2, 2)), "half": (torch.float16, (13,)), "brain": (torch.bfloat16, (5, 11)),
    "double": (torch.float64, (3, 1)),
    "eight": (torch.float8_e4m3fn, (19,)), "eight2": (torch.float8_e5m2, (3, 2)), "scalar": (torch.float32, ()), "empty": (torch.float32, (0, 4)),
    "count": (torch.int64, ()), "i32": (torch.int32, (5,)), "i16": (torch.int16, (6,)), "i8": (torch.int8, (7,)),
    "u8": (torch.uint8, (8,)), "mask": (torch.bool, (3, 3)),
}
OPTIMIZER = {
    "exp_avg/conv1.weight": (torch.float32, (7, 3, 3, 3)), "exp_avg/conv1.bias": (torch.float32, (7,)),
    "step/conv1.bias": (torch.float32, (1,)),
}
WORD = 2**64 - 1


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def hash_combine(a, b):
    return mix64(a ^ mix64(b))


def hash_string(text):
    h = 0xCBF29CE484222325
    for c in text.encode():
        h = ((h ^ c) * 0x100000001B3) & WORD
    return mix64(h)


def expected(name, dtype, shape):
    """The tensor `name` ("model/…") as sample_state() fills it."""
    numel = int(np.prod(shape, dtype=np.int64))
    seed = hash_combine(SALT, hash_string(name))
    mask = 1 if dtype == torch.bool else 0x3F
    raw = bytes(hash_combine(seed, i) & 0xFF & mask for i in range(numel * dtype.itemsize))
    if not raw:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape)


def escape(name):
    return name.replace("%", "%25").replace("/", "%2F")


def as_numpy(tensor):
    if tensor.dtype.itemsize == 1 and tensor.dtype.is_floating_point:  # HDF5 and NumPy have no such type
        return tensor.view(torch.uint8).numpy()
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


class CheckpointInterop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal_interop_")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.ckpt = subprocess.run([MAKE_CHECKPOINT, cls.folder + "/ckpt", "7", "3", str(SALT)], capture_output=True,
                                  text=True, check=True).stdout.strip()
        for output, options in (("out.h5", ["--with-optimizer"]), ("out.pt", [])):
            subprocess.run([SHOAL_CKPT, "consolidate", cls.folder + "/ckpt", "--output", cls.folder + "/" + output,
                            *options], check=True, stdout=subprocess.DEVNULL)

    def check_dataset(self, dataset, tensor):
        self.assertEqual(dataset.shape, tuple(tensor.shape))
        np.testing.assert_array_equal(np.asarray(dataset[()]), as_numpy(tensor))

    def test_h5py_reads_the_consolidated_file(self):
        with h5py.File(self.folder + "/out.h5") as file:
            for name, (dtype, shape) in MODEL.items():
                with self.subTest(name):
                    self.check_dataset(file[escape(name)], expected("model/" + name, dtype, shape))
            for name, (dtype, shape) in OPTIMIZER.items():
                with self.subTest(name):
                    self.check_dataset(file["optimizer/" + name], expected("optimizer/" + name, dtype, shape))
            self.assertEqual(file["mask"].dtype, np.bool_)
            self.assertEqual(file["half"].dtype, np.float16)
            self.assertEqual(file["tied"], file["conv1.weight"])
            self.assertEqual(set(file), {escape(name) for name in MODEL} | set(ALIAS) | {"optimizer"})
            self.assertEqual(file.attrs["step"], 7)
            self.assertEqual(json.loads(file.attrs["training_state"])["lr"], 0.1)

    def test_h5py_reads_the_shards(self):
        with open(self.ckpt + "/manifest.json") as file:
            manifest = json.load(file)
        pieces = {tensor["name"]: [] for tensor in manifest["tensors"]}
        for rank, entry in enumerate(manifest["files"]):
            with h5py.File(f"{self.ckpt}/{entry['name']}") as file:
                self.assertEqual(file.attrs["checkpoint"], manifest["checkpoint"].encode())
                self.assertEqual((file.attrs["file"], file.attrs["files"], file.attrs["step"]), (rank, 3, 7))
                self.assertEqual(file["regions"].shape, (entry["regions"], 4))
                for tensor, begin, count, _ in file["regions"][()]:
                    name = manifest["tensors"][tensor]["name"]
                    group, parameter = name.split("/", 1) if name.startswith("model/") else name.rsplit("/", 1)
                    values = file[f"{group}/{escape(parameter)}"][()]
                    self.assertEqual(len(values), count)
                    pieces[name].append((begin, values))
        for prefix, tensors in (("model/", MODEL), ("optimizer/", OPTIMIZER)):
            for name, (dtype, shape) in tensors.items():
                with self.subTest(name):
                    parts = [values for _, values in sorted(pieces[prefix + name], key=lambda piece: piece[0])]
                    whole = np.concatenate(parts) if parts else np.empty(0)
                    np.testing.assert_array_equal(whole, as_numpy(expected(prefix + name, dtype, shape)).reshape(-1))

    def test_no_other_files_are_written(self):
        self.assertEqual(sorted(glob.glob(self.ckpt + "/**", recursive=True)),
                         sorted([self.ckpt + "/", self.ckpt + "/COMMIT", self.ckpt + "/manifest.json",
                                 self.ckpt + "/shards"] + glob.glob(self.ckpt + "/shards/*_rank_0000[012].h5")))

    def check_state_dict(self, state):
        self.assertEqual(list(state), list(MODEL) + list(ALIAS))
        for name, (dtype, shape) in MODEL.items():
            with self.subTest(name):
                self.assertEqual(state[name].dtype, dtype)
                self.assertEqual(tuple(state[name].shape), shape)
                self.assertTrue(state[name].is_contiguous())
                self.assertTrue(torch.equal(state[name], expected("model/" + name, dtype, shape)))

    def test_torch_loads_the_state_dict(self):
        state = torch.load(self.folder + "/out.pt", weights_only=True)
        self.check_state_dict(state)
        self.assertEqual(state["tied"].data_ptr(), state["conv1.weight"].data_ptr())

    def test_torch_maps_the_state_dict(self):
        self.check_state_dict(torch.load(self.folder + "/out.pt", weights_only=True, mmap=True))

    def test_unzip_agrees(self):
        import zipfile
        with zipfile.ZipFile(self.folder + "/out.pt") as archive:
            self.assertIsNone(archive.testzip())
            self.assertEqual(archive.read("archive/byteorder"), b"little")

    def test_a_module_takes_it(self):
        state = torch.load(self.folder + "/out.pt", weights_only=True)
        convolution = torch.nn.Conv2d(3, 7, 3)
        convolution.load_state_dict({name[6:]: state[name] for name in state if name.startswith("conv1.")})
        self.assertTrue(torch.equal(convolution.weight, state["conv1.weight"]))


if __name__ == "__main__":
    SHOAL_CKPT, MAKE_CHECKPOINT = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
