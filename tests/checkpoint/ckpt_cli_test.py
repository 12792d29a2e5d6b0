"""shoal-ckpt as its users see it: what it prints, what it exits with, what it leaves behind.

ckpt_cli_test.py SHOAL_CKPT MAKE_CHECKPOINT
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

USAGE, CHECKPOINT, IO = 2, 4, 5
SHOAL_CKPT = MAKE_CHECKPOINT = None


class CkptCli(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="shoal_cli_")
        self.addCleanup(shutil.rmtree, self.folder)
        self.ckpt = self.folder + "/ckpt"
        for step in (5, 10):
            made = subprocess.run([MAKE_CHECKPOINT, self.ckpt, str(step), "3", str(step)], capture_output=True,
                                  text=True, check=True)
            self.newest = made.stdout.strip()

    def run_ckpt(self, *arguments, code=0):
        done = subprocess.run([SHOAL_CKPT, *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def complaint(self, *arguments, code):
        done = self.run_ckpt(*arguments, code=code)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr

    def shard(self, rank):
        folder = self.newest + "/shards"
        return [f"{folder}/{name}" for name in sorted(os.listdir(folder))][rank]

    def flip(self, path, offset):
        with open(path, "r+b") as file:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 4]))

    def test_help(self):
        self.assertIn("consolidate", self.run_ckpt("--help").stdout)
        for verb in ("list", "inspect", "verify", "consolidate"):
            self.assertIn(f"shoal ckpt {verb}", self.run_ckpt(verb, "--help").stdout)

    def test_wrong_usage_is_named(self):
        self.assertIn("verb is missing", self.complaint(code=USAGE))
        self.assertIn("'lst'", self.complaint("lst", self.ckpt, code=USAGE))
        self.assertIn("--jsn", self.complaint("list", self.ckpt, "--jsn", code=USAGE))
        self.assertIn("--js", self.complaint("list", self.ckpt, "--js", code=USAGE))
        self.assertIn("path is missing", self.complaint("verify", code=USAGE))
        self.complaint("list", self.ckpt, "another", code=USAGE)
        self.assertIn("--output", self.complaint("consolidate", self.ckpt, code=USAGE))
        self.assertIn("--format", self.complaint("consolidate", self.ckpt, "--output", "x.bz", code=USAGE))
        self.assertIn("onnx", self.complaint("consolidate", self.ckpt, "--output", "x.h5", "--format", "onnx", code=USAGE))

    def test_list(self):
        lines = self.run_ckpt("list", self.ckpt).stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["checkpoint", "step_00000010", "step_00000005"])
        listed = json.loads(self.run_ckpt("list", self.ckpt, "--json").stdout)
        self.assertEqual([item["step"] for item in listed], [10, 5])
        self.assertTrue(all(item["complete"] and item["ranks"] == 3 for item in listed))
        self.assertEqual(len(json.loads(self.run_ckpt("list", self.newest, "--json").stdout)), 1)

    def test_list_names_damage(self):
        os.remove(self.newest + "/COMMIT")
        self.assertIn("COMMIT", self.run_ckpt("list", self.ckpt).stdout.splitlines()[1])

    def test_inspect(self):
        text = self.run_ckpt("inspect", self.ckpt).stdout
        for part in ("step 10, 3 ranks", "model/conv1.weight", "7 x 3 x 3 x 3", "bfloat16", "model/tied", '"lr": 0.1'):
            self.assertIn(part, text)
        shown = json.loads(self.run_ckpt("inspect", self.newest, "--json").stdout)
        self.assertEqual(shown["tensors"][0], {"name": "model/conv1.weight", "dtype": "float32", "shape": [7, 3, 3, 3],
                                               "unit": "root", "unit_offset": 0, "shard_numel": 67})
        self.assertEqual(shown["training_state"]["rng"], [1, 2, 2**64 - 1])

    def test_verify_sound(self):
        self.assertIn("sound", self.run_ckpt("verify", self.ckpt).stdout.splitlines()[-1])
        report = json.loads(self.run_ckpt("verify", self.ckpt, "--json").stdout)
        self.assertTrue(report["sound"])
        self.assertEqual(len(report["files"]), 3)

    def test_verify_names_every_damage(self):
        for rank in (0, 2):
            with open(self.shard(rank), "rb") as file:
                data = file.read()
            self.flip(self.shard(rank), data.rindex(bytes(1)) // 2)
        os.truncate(self.shard(1), 100)
        done = self.run_ckpt("verify", self.ckpt, code=CHECKPOINT)
        self.assertIn("_rank_00001.h5 has 100 bytes", done.stdout)
        report = json.loads(self.run_ckpt("verify", self.ckpt, "--json", code=CHECKPOINT).stdout)
        self.assertFalse(report["sound"])

    def test_damage_ends_with_4_and_leaves_no_output(self):
        os.truncate(self.shard(1), 100)
        for suffix in ("h5", "pt"):
            text = self.complaint("consolidate", self.ckpt, "--output", f"{self.folder}/out.{suffix}", code=CHECKPOINT)
            self.assertIn("_rank_00001.h5", text)
        self.flip(self.newest + "/manifest.json", 50)
        for verb in ("inspect", "verify"):
            self.assertIn("manifest.json", self.complaint(verb, self.ckpt, code=CHECKPOINT))
        self.assertEqual(os.listdir(self.folder), ["ckpt"])

    def test_no_checkpoint_there(self):
        self.assertIn("/missing", self.complaint("list", self.folder + "/missing", code=CHECKPOINT))
        self.assertIn("no checkpoint", self.complaint("verify", self.folder, code=CHECKPOINT))

    def test_consolidate(self):
        for suffix in ("h5", "pt"):
            output = f"{self.folder}/out.{suffix}"
            self.assertIn("tensors", self.run_ckpt("consolidate", self.ckpt, "--output", output).stdout)
            with open(output, "rb") as file:
                first = file.read()
            self.assertIn("--force", self.complaint("consolidate", self.ckpt, "--output", output, code=USAGE))
            self.run_ckpt("consolidate", self.ckpt, "--output", output, "--force")
            with open(output, "rb") as file:
                self.assertEqual(file.read(), first)
        self.assertEqual(sorted(os.listdir(self.folder)), ["ckpt", "out.h5", "out.pt"])
        self.complaint("consolidate", self.ckpt, "--output", self.folder + "/no/out.h5", code=IO)


if __name__ == "__main__":
    SHOAL_CKPT, MAKE_CHECKPOINT = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
