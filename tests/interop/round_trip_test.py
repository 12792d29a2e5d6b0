"""HDF5 ↔ safetensors ↔ torch.save ↔ torch.distributed.checkpoint, by way of a checkpoint: every bit, name and shape comes back.

round_trip_test.py SHOAL_CKPT MAKE_FROM_DESCRIPTION

States of every element type, shape and name are exported, imported from what was exported, and so on around; PyTorch
writes and reads the directories of torch.distributed.checkpoint.
"""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import h5py
    import numpy as np
    import safetensors.torch
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
    from conversion_samples import DTYPES, NAMES, SHAPES, random_tensor, read_hdf5, same_bits, save
except ImportError as error:
    print(f"skipped: {sys.executable} has no {error.name}; scripts/setup.sh --interop installs it")
    sys.exit(77)

SHOAL_CKPT = MAKE = None
READERS = {"h5": read_hdf5, "safetensors": safetensors.torch.load_file, "pt": lambda path: torch.load(path, weights_only=True)}
warnings.filterwarnings("ignore", message=".*process_group.*|.*torch.distributed.*|.*single process.*")


class RoundTrip(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shoal_round_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.generator = torch.Generator().manual_seed(5)
        self.count = 0

    def path(self, suffix=""):
        self.count += 1
        return f"{self.folder}/{self.count}{suffix}"

    def run_ckpt(self, *arguments, code=0):
        done = subprocess.run([SHOAL_CKPT, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def imported(self, source, *options):
        output = self.path()
        self.run_ckpt("import", source, "--output", output, *options)
        return output

    def exported(self, checkpoint, suffix, *options):
        output = self.path("." + suffix)
        self.run_ckpt("export", checkpoint, "--output", output, *options)
        return output

    def expect(self, found, expected, what):
        self.assertEqual(set(found), set(expected), what)
        for name, tensor in expected.items():
            self.assertTrue(same_bits(found[name], tensor), f"{what}: {name[:40]} {tensor.dtype} {tuple(tensor.shape)}")

    def states(self):
        yield {f"{dtype}.{i}".replace("torch.", ""): random_tensor(dtype, shape, self.generator)
               for dtype in DTYPES for i, shape in enumerate(SHAPES)}
        choose = random.Random(7)
        for _ in range(2):
            yield {name: random_tensor(choose.choice(DTYPES), choose.choice(SHAPES), self.generator) for name in NAMES}

    def test_from_each_format_to_each(self):
        for state in self.states():
            save(MAKE, self.folder, state)
            for start in READERS:
                first = self.exported(self.folder + "/ckpt", start)
                checkpoint = self.imported(first, "--ranks", "3")
                for end, read in READERS.items():
                    self.expect(read(self.exported(checkpoint, end)), state, f"{start} → {end}")

    def test_by_way_of_torch_distributed_checkpoint(self):
        for state in self.states():
            directory = self.path()
            dcp.save(state, checkpoint_id=directory, no_dist=True)
            checkpoint = self.imported(directory, "--ranks", "2")
            for end, read in READERS.items():
                self.expect(read(self.exported(checkpoint, end)), state, f"DCP → {end}")
            again, whole = self.path(), self.path(".pt")
            torch_save_to_dcp(self.exported(checkpoint, "pt"), again)
            dcp_to_torch_save(again, whole)
            self.expect(torch.load(whole, weights_only=True), state, "DCP → pt → DCP")
            self.expect(torch.load(self.exported(self.imported(again), "pt"), weights_only=True), state, "… → pt")

    def test_import_selects_and_renames(self):
        state = {f"h.{i}.{kind}": random_tensor(torch.float32, (2, 3), self.generator) for i in range(3) for kind in "wb"}
        source = self.path(".pt")
        torch.save({"model": state, "complex": None}, source)
        chosen = ["--select", "h.*.w", "--select", "h.2.b", "--rename", "h.**=blocks.**"]
        expected = {f"blocks.{name[2:]}": state[name] for name in ("h.0.w", "h.1.w", "h.2.w", "h.2.b")}
        self.expect(READERS["pt"](self.exported(self.imported(source, *chosen), "pt")), expected, "chosen")
        rules = self.path(".rules")
        with open(rules, "w") as file:
            file.write("h\\.(\\d+)\\.w -> weight.$1\n")
        found = READERS["pt"](self.exported(self.imported(source, "--rename", rules, "--select", "**.w"), "pt"))
        self.expect(found, {f"weight.{i}": state[f"h.{i}.w"] for i in range(3)}, "by rules")
        for options, said in ((["--select", "nothing"], "--select 'nothing'"), (["--rename", "h.*.w=x.*.w", "--rename",
                              "h.0.b=x.1.w"], "the one name 'x.1.w'"), (["--rename", "x"], "neither OLD=NEW nor a file")):
            self.assertIn(said, self.run_ckpt("import", source, "--output", self.path(), *options, code=2).stderr)
        text = self.run_ckpt("import", source, "--output", self.path(), "--dry-run", *chosen).stdout
        for said in ("model/blocks.2.b", "float32", "2 x 3", "memory: "):
            self.assertIn(said, text)

    def test_the_optimizer_goes_with_its_parameter(self):
        net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 2))
        optimizer = torch.optim.AdamW(net.named_parameters())
        net(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        source = self.path(".pt")
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, source)
        checkpoint = self.imported(source, "--select", "1.**", "--rename", "1.**=head.**")
        with h5py.File(self.exported(checkpoint, "h5", "--with-optimizer")) as file:
            self.assertEqual({name for name in file if name != "optimizer"}, {"head.weight", "head.bias"})
            for i, name in ((2, "head.weight"), (3, "head.bias")):
                found = torch.from_numpy(np.array(file["optimizer/exp_avg/" + name]))
                self.assertTrue(same_bits(found, optimizer.state_dict()["state"][i]["exp_avg"]))
            self.assertEqual(len(file["optimizer/exp_avg"]), 2)

    def test_complex_numbers_are_refused_by_name(self):
        state = {"fine": torch.ones(2), "wave.phase": torch.ones(2, dtype=torch.complex64)}
        sources = {"pt": self.path(".pt"), "safetensors": self.path(".safetensors"), "dcp": self.path(), "h5": self.path(".h5")}
        torch.save(state, sources["pt"])
        safetensors.torch.save_file(state, sources["safetensors"])
        dcp.save(state, checkpoint_id=sources["dcp"], no_dist=True)
        with h5py.File(sources["h5"], "w") as file:
            for name, tensor in state.items():
                file[name] = tensor.numpy()
        for form, source in sources.items():
            complaint = self.run_ckpt("import", source, "--output", self.path(), code=4).stderr
            self.assertIn("wave.phase", complaint, form)
            checkpoint = self.imported(source, "--select", "fine")
            self.expect(READERS["pt"](self.exported(checkpoint, "pt")), {"fine": state["fine"]}, form)


if __name__ == "__main__":
    SHOAL_CKPT, MAKE = sys.argv[1:3]
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main(argv=sys.argv[:1])
