"""h5py and h5dump see whole tensors in the view of a sharded checkpoint, and see what is missing.

checkpoint_view_test.py SHOAL_CKPT MAKE_CHECKPOINT [H5DUMP]

The oracle is the consolidated file, which checkpoint_interop_test.py compares with what was saved.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import h5py
    import numpy as np
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

SHOAL_CKPT = MAKE_CHECKPOINT = H5DUMP = None
FILL = {"i": lambda dtype: np.iinfo(dtype).min, "u": lambda dtype: np.iinfo(dtype).max, "b": lambda dtype: False}
NAN = {"eight": 0x7F, "eight2": 0x7E}  # floats of 8 bits, which h5py reads as bytes


def datasets(file):
    found = {}
    file.visititems(lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None)
    return found


def raw(array):
    return np.ascontiguousarray(array).tobytes()


class CheckpointView(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shoal_view_")
        self.addCleanup(shutil.rmtree, self.folder)

    def make(self, ranks, *options, name="ckpt"):
        folder = f"{self.folder}/{name}_{ranks}"
        path = subprocess.run([MAKE_CHECKPOINT, folder, "7", str(ranks), "5"], capture_output=True, text=True,
                              check=True).stdout.strip()
        self.ckpt("view", folder, *options)
        return path

    def ckpt(self, *arguments):
        subprocess.run([SHOAL_CKPT, *arguments], check=True, stdout=subprocess.DEVNULL)

    def whole(self, path):
        self.ckpt("consolidate", path, "--output", self.folder + "/whole.h5", "--with-optimizer", "--force")
        with h5py.File(self.folder + "/whole.h5") as file:
            return {name: (item.shape, item.dtype, item[()]) for name, item in datasets(file).items()}

    def expect_whole(self, path, whole):
        with h5py.File(path + "/model.h5") as view:
            self.assertEqual(set(datasets(view)), set(whole))
            for name, (shape, dtype, values) in whole.items():
                with self.subTest(name):
                    self.assertEqual((view[name].shape, view[name].dtype), (shape, dtype))
                    self.assertEqual(raw(view[name][()]), raw(values))

    # 40 ranks: most of them hold nothing of most tensors, and their shards cut through rows.
    def test_whole_tensors_of_any_number_of_ranks(self):
        whole = None
        for ranks in (1, 2, 3, 5, 8, 40):
            path = self.make(ranks, "--with-optimizer")
            whole = whole or self.whole(path)
            self.expect_whole(path, whole)

    def test_parts_of_tensors(self):
        path = self.make(5)
        whole = self.whole(path)["conv1.weight"][2]
        with h5py.File(path + "/model.h5") as view:
            for part in (np.s_[3], np.s_[2:6, 1], np.s_[:, :, 1:, 0], np.s_[6, 2, 2, 2], np.s_[::2, ::2]):
                self.assertEqual(raw(view["conv1.weight"][part]), raw(whole[part]))

    def test_attributes_and_names(self):
        path = self.make(3)
        with h5py.File(path + "/model.h5") as view:
            self.assertEqual(view.attrs["format"], b"shoal-view")
            self.assertEqual(view.attrs["requires_files"], 3)
            self.assertEqual(view.attrs["step"], 7)
            identity = view.attrs["checkpoint"].decode()
            self.assertEqual(view["tied"], view["conv1.weight"])
            self.assertTrue(view["conv1.weight"].is_virtual)
            self.assertNotIn("optimizer", view)
            for source in view["conv1.weight"].virtual_sources():
                self.assertRegex(source.file_name, f"^shards/{identity}_rank_0000[012].h5$")
        self.assertEqual(len(glob.glob(f"{path}/shards/{identity}_rank_*.h5")), 3)

    def test_what_is_missing_shows(self):
        path = self.make(3, "--with-optimizer")
        whole = self.whole(path)
        for rank in (2, 0):  # with rank 0 go the tensors that are not cut
            os.rename(glob.glob(f"{path}/shards/*_rank_0000{rank}.h5")[0], f"{self.folder}/gone_{rank}.h5")
            with h5py.File(path + "/model.h5") as view:
                for name, (shape, dtype, values) in whole.items():
                    seen = view[name][()]
                    differing = np.asarray(seen != values)
                    with self.subTest(name=name, rank=rank):
                        if dtype.kind == "f":
                            self.assertTrue(np.all(np.isnan(np.asarray(seen)[differing])))
                        else:
                            self.assertTrue(np.all(np.asarray(seen)[differing] == NAN.get(name, FILL[dtype.kind](dtype))))
                missing = np.isnan(view["conv1.weight"][()])
                self.assertTrue(0 < missing.sum() < missing.size or rank == 0)
            if rank == 2:
                # Elements of ranks 0 and 1 are still there: 67 each.
                self.assertEqual(int(missing.sum()), 7 * 27 - 2 * 67)
        with h5py.File(path + "/model.h5") as view:
            self.assertTrue(np.isnan(view["scalar"][()]))
            self.assertEqual(view["i32"][0], np.iinfo(np.int32).min)
            self.assertFalse(view["mask"][()].any())

    # Neither the folder of work nor a prefix leads to the shards of another checkpoint: their names are others.
    def test_no_other_checkpoint_is_shown(self):
        path, other = self.make(3), self.make(3, name="other")
        whole = self.whole(path)
        script = ("import h5py, sys; f = h5py.File(sys.argv[1]);"
                  "sys.stdout.buffer.write(f['conv1.weight'][()].tobytes())")
        for prefix in (None, other):
            environment = {**os.environ, **({"HDF5_VDS_PREFIX": prefix} if prefix else {})}
            seen = subprocess.run([sys.executable, "-c", script, path + "/model.h5"], cwd=other, env=environment,
                                  stdout=subprocess.PIPE, check=True).stdout
            self.assertEqual(seen, raw(whole["conv1.weight"][2]))

    def test_it_follows_its_checkpoint(self):
        path = self.make(3, "--with-optimizer")
        whole = self.whole(path)
        moved = self.folder + "/elsewhere"
        shutil.move(path, moved)
        self.expect_whole(moved, whole)

    def test_h5dump_agrees(self):
        if not H5DUMP:
            self.skipTest("there is no h5dump")
        path = self.make(5, "--with-optimizer")
        self.ckpt("consolidate", path, "--output", self.folder + "/whole.h5", "--with-optimizer")
        for name in ("conv1.weight", "half", "brain", "scalar", "mask", "u8", "a%2Fb%25c", "optimizer/exp_avg/conv1.bias"):
            texts = []
            for file in (path + "/model.h5", self.folder + "/whole.h5"):
                done = subprocess.run([H5DUMP, "-d", "/" + name, file], capture_output=True, text=True, check=True)
                self.assertEqual(done.stderr, "")
                texts.append(done.stdout.split("\n", 1)[1])
            with self.subTest(name):
                self.assertEqual(texts[0], texts[1])


if __name__ == "__main__":
    SHOAL_CKPT, MAKE_CHECKPOINT = sys.argv[1:3]
    H5DUMP = sys.argv[3] if len(sys.argv) > 3 and os.path.exists(sys.argv[3]) else None
    unittest.main(argv=sys.argv[:1])
