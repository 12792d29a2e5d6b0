"""Exports of more than 4 GiB, and of one tensor of more than 4 GiB, as Python's libraries read them: ZIP64, offsets past 2^32.

large_files_test.py SHOAL_CKPT MAKE_FROM_DESCRIPTION

The state is sparse, so that it takes little room: zeros but for known elements at both ends, around 2^32 bytes and in
between. Every element is compared, whole tensors at a time or in pieces.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

try:
    import h5py
    import numpy as np
    import safetensors
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

SHOAL_CKPT = MAKE = None
GIB = 1 << 30
PIECE = 16 << 20  # elements
BIG = 4 * GIB + 12  # bytes of the large tensor
TENSORS = {"a.first": (np.dtype("f4"), (5,)), "big": (np.dtype("f4"), (BIG // 4,)), "half.big": (np.dtype("i2"), (3, GIB // 6)),
           "z.last": (np.dtype("i8"), (7,))}


def elements_of(name):
    """{place: value}; all others are zero."""
    dtype, shape = TENSORS[name]
    numel = int(np.prod(shape))
    places = {0, numel - 1, numel // 2, numel // 3}
    if name == "big":
        places |= {GIB - 1, GIB, GIB + 1, 8 * PIECE - 1}
    return {place: 1 + i for i, place in enumerate(sorted(places))}


class LargeFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal_large_")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        described, offset = [], 0
        with open(cls.folder + "/state.bin", "wb") as file:
            for name, (dtype, shape) in TENSORS.items():
                cut = dtype.kind == "f"
                described.append({"name": "model/" + name, "dtype": dtype.name, "shape": list(shape), "offset": offset,
                                  "unit": "f" if cut else ""})
                for place, value in elements_of(name).items():
                    file.seek(offset + place * dtype.itemsize)
                    file.write(dtype.type(value).tobytes())
                offset += int(np.prod(shape)) * dtype.itemsize
        with open(cls.folder + "/state", "w") as file:
            json.dump({"step": 7, "ranks": 3, "training_state": {}, "tensors": described, "aliases": []}, file)
        subprocess.run([MAKE, cls.folder + "/ckpt", cls.folder + "/state"], check=True, stdout=subprocess.DEVNULL)

    def export(self, source, suffix):
        path = f"{self.folder}/out.{suffix}"
        subprocess.run([SHOAL_CKPT, "export", source, "--output", path], check=True, stdout=subprocess.DEVNULL)
        self.addCleanup(pathlib.Path(path).unlink, missing_ok=True)  # the same name may be exported to twice
        self.assertGreater(os.path.getsize(path), 4 * GIB)
        self.assertLess(os.stat(path).st_blocks * 512, GIB)  # holes stay holes
        return path

    def expect(self, name, pieces):
        """`pieces`: the flattened tensor's elements, one array after the other."""
        expected, begin = elements_of(name), 0
        for piece in pieces:
            for place in np.flatnonzero(piece):
                self.assertEqual(piece[place], expected.pop(begin + int(place), None), (name, begin + place))
            begin += piece.size
        self.assertEqual((begin, expected), (int(np.prod(TENSORS[name][1])), {}), name)

    def expect_arrays(self, arrays):
        for name, (dtype, shape) in TENSORS.items():
            self.assertEqual((arrays[name].dtype, arrays[name].shape), (dtype, shape))
            flat = arrays[name].reshape(-1)
            self.expect(name, (flat[i:i + PIECE] for i in range(0, flat.size, PIECE)))

    def test_torch_maps_it(self):
        path = self.export(self.folder + "/ckpt", "pt")
        state = torch.load(path, weights_only=True, mmap=True)
        self.expect_arrays({name: tensor.numpy() for name, tensor in state.items()})
        self.assertIsNone(zipfile.ZipFile(path).testzip())  # CRC-32 of every entry

    def test_safetensors_and_back(self):
        path = self.export(self.folder + "/ckpt", "safetensors")

        def check():
            with safetensors.safe_open(path, "np") as file:
                for name, (_, shape) in TENSORS.items():
                    rows = file.get_slice(name)
                    self.assertEqual(tuple(rows.get_shape()), shape)
                    step = PIECE if len(shape) == 1 else 1
                    self.expect(name, (rows[i:min(i + step, shape[0])].reshape(-1) for i in range(0, shape[0], step)))

        check()
        imported = self.folder + "/imported"
        subprocess.run([SHOAL_CKPT, "import", path, "--output", imported, "--ranks", "2"], check=True,
                       stdout=subprocess.DEVNULL)
        first = path + ".first"
        os.rename(path, first)
        self.addCleanup(os.remove, first)
        self.assertEqual(self.export(imported, "safetensors"), path)
        subprocess.run(["cmp", first, path], check=True)

    def test_h5py(self):
        with h5py.File(self.export(self.folder + "/ckpt", "h5")) as file:
            for name, (dtype, shape) in TENSORS.items():
                self.assertEqual((file[name].dtype, file[name].shape), (dtype, shape))
                step = PIECE if len(shape) == 1 else 1
                self.expect(name, (file[name][i:i + step].reshape(-1) for i in range(0, shape[0], step)))

    def test_numpy(self):
        with np.load(self.export(self.folder + "/ckpt", "npz")) as arrays:
            self.assertEqual(set(arrays.files), set(TENSORS))
            for name in ("a.first", "half.big", "z.last"):
                self.expect(name, [arrays[name].reshape(-1)])
            with arrays.zip.open("big.npy") as file:  # of 4 GiB: not at once
                self.assertEqual(np.lib.format.read_magic(file), (1, 0))
                self.assertEqual(np.lib.format.read_array_header_1_0(file), (TENSORS["big"][1], False, np.dtype("f4")))
                self.expect("big", (np.frombuffer(data, "f4") for data in iter(lambda: file.read(PIECE), b"")))


if __name__ == "__main__":
    SHOAL_CKPT, MAKE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
