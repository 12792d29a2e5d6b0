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

DIFFERENT, USAGE, CHECKPOINT, IO = 1, 2, 4, 5
VERBS = ("list", "inspect", "verify", "diff", "export", "consolidate", "view", "reshard", "prune", "repair")
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
        for verb in VERBS:
            self.assertIn(f"  {verb} ", self.run_ckpt("--help").stdout)
            text = self.run_ckpt(verb, "--help").stdout
            self.assertTrue(text.startswith(f"shoal ckpt {verb} "), text)
            self.assertIn(f"Example:\n  shoal ckpt {verb} ", text)

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
        self.assertIn("second path is missing", self.complaint("diff", self.ckpt, code=USAGE))
        self.complaint("diff", self.ckpt, self.ckpt, self.ckpt, code=USAGE)
        self.assertIn("--workers 0", self.complaint("verify", self.ckpt, "--workers", "0", code=USAGE))
        self.assertIn("--keep", self.complaint("prune", self.ckpt, code=USAGE))
        self.assertIn("--keep 0", self.complaint("prune", self.ckpt, "--keep", "0", code=USAGE))
        self.assertIn("--keep-every 0", self.complaint("prune", self.ckpt, "--keep-every", "0", code=USAGE))
        for verb in ("prune", "repair"):
            options = ["--keep", "1"] if verb == "prune" else []
            self.assertIn("is one checkpoint", self.complaint(verb, self.newest, *options, code=USAGE))
        self.assertIn("--ranks", self.complaint("reshard", self.ckpt, "--output", "x", code=USAGE))
        self.assertIn("--output", self.complaint("reshard", self.ckpt, "--ranks", "2", code=USAGE))

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
        # The tree: 'optimizer' holds 'exp_avg', which holds the moments of 'conv1'.
        tree = [line for line in text.splitlines() if line.split()[1:2] in (["1"], ["2"], ["3"], ["16"])]
        self.assertIn("model 16 333 1.03 KiB", [" ".join(line.split()) for line in tree])
        self.assertTrue(any(line.startswith("    conv1 ") and line.split()[1] == "2" for line in tree), text)
        shown = json.loads(self.run_ckpt("inspect", self.newest, "--json").stdout)
        self.assertEqual(shown["tensors"][0], {"name": "model/conv1.weight", "dtype": "float32", "shape": [7, 3, 3, 3],
                                               "bytes": 756, "shards": 3, "unit": "root", "unit_offset": 0, "shard_numel": 67})
        self.assertEqual(shown["training_state"]["rng"], [1, 2, 2**64 - 1])

    def test_verify_sound(self):
        self.assertIn("sound", self.run_ckpt("verify", self.ckpt).stdout.splitlines()[-1])
        report = json.loads(self.run_ckpt("verify", self.ckpt, "--json").stdout)
        self.assertTrue(report["sound"])
        self.assertEqual([file["rank"] for file in report["files"]], [0, 1, 2])
        self.assertGreater(report["megabytes_per_second"], 0)
        for workers in ("1", "7"):
            self.assertIn("MB/s", self.run_ckpt("verify", self.ckpt, "--workers", workers).stdout.splitlines()[-1])

    def test_verify_names_every_damage(self):
        for rank in (0, 2):
            with open(self.shard(rank), "rb") as file:
                data = file.read()
            self.flip(self.shard(rank), data.rindex(bytes(1)) // 2)
        os.truncate(self.shard(1), 100)
        done = self.run_ckpt("verify", self.ckpt, code=CHECKPOINT)
        self.assertIn("_rank_00001.h5 has 100 bytes", done.stdout)
        self.assertIn("rank 1: ", done.stdout)
        report = json.loads(self.run_ckpt("verify", self.ckpt, "--json", code=CHECKPOINT).stdout)
        self.assertFalse(report["sound"])

    def test_verify_names_tensor_rank_and_region(self):
        with open(self.shard(1), "rb") as file:
            data = file.read()
        for offset in range(1000, len(data), 40):
            self.flip(self.shard(1), offset)
            done = subprocess.run([SHOAL_CKPT, "verify", self.ckpt, "--json"], capture_output=True, text=True)
            self.flip(self.shard(1), offset)
            problems = json.loads(done.stdout)["files"][1]["problems"] if done.returncode == CHECKPOINT else []
            wanted = "_rank_00001.h5: tensor 'model/conv1.weight', elements 67 to 133"
            if problems and wanted in problems[0]["text"]:
                self.assertEqual(problems[0]["tensor"], "model/conv1.weight")
                self.assertEqual((problems[0]["first_element"], problems[0]["elements"], problems[0]["shard"]), (67, 67, 1))
                return
        self.fail("no flipped bit met the tensor")

    def test_diff(self):
        older, other = self.ckpt + "/step_00000005", self.folder + "/other"
        made = subprocess.run([MAKE_CHECKPOINT, other, "11", "7", "10"], capture_output=True, check=True)
        self.assertEqual(made.returncode, 0)
        self.assertIn("equal: 20 of 20 tensors", self.run_ckpt("diff", self.ckpt, other).stdout)
        text = self.run_ckpt("diff", self.ckpt, older, code=DIFFERENT).stdout
        self.assertIn("different: ", text)
        self.assertIn("189 of 189 elements", text)
        self.assertNotIn("model/empty", text)
        self.assertIn("model/empty", self.run_ckpt("diff", self.ckpt, older, "--all", code=DIFFERENT).stdout)
        report = json.loads(self.run_ckpt("diff", self.ckpt, older, "--json", code=DIFFERENT).stdout)
        self.assertFalse(report["equal"])
        self.assertEqual((report["a"]["step"], report["b"]["step"]), (10, 5))
        states = {tensor["name"]: tensor["state"] for tensor in report["tensors"]}
        self.assertEqual((states["model/conv1.weight"], states["model/empty"]), ("different", "equal"))
        os.truncate(self.shard(1), 100)
        self.complaint("diff", self.ckpt, older, code=CHECKPOINT)

    def test_reshard(self):
        output = self.folder + "/two"
        self.assertIn("from 3 to 2 ranks", self.run_ckpt("reshard", self.ckpt, "--ranks", "2", "--output", output).stdout)
        self.assertEqual(json.loads(self.run_ckpt("list", output, "--json").stdout)[0]["ranks"], 2)
        self.run_ckpt("diff", self.ckpt, output)
        self.assertIn("not empty", self.complaint("reshard", self.ckpt, "--ranks", "2", "--output", output, code=USAGE))
        self.complaint("reshard", self.ckpt, "--ranks", "2", "--output", self.ckpt, code=USAGE)
        self.assertIn("_rank", str(os.listdir(output + "/step_00000010/shards")))

    def test_prune(self):
        subprocess.run([MAKE_CHECKPOINT, self.ckpt, "15", "3", "15"], capture_output=True, check=True)
        would = self.run_ckpt("prune", self.ckpt, "--keep", "1", "--keep-every", "5", "--dry-run").stdout
        self.assertIn("nothing to delete", would)
        would = self.run_ckpt("prune", self.ckpt, "--keep", "1", "--dry-run").stdout
        self.assertIn("2 would be deleted", would)
        self.assertEqual(len(os.listdir(self.ckpt)), 3)
        would = json.loads(self.run_ckpt("prune", self.ckpt, "--keep", "1", "--dry-run", "--json").stdout)
        fates = [(entry["step"], entry["fate"]) for entry in would["checkpoints"]]
        self.assertEqual(fates, [(15, "kept"), (10, "removed"), (5, "removed")])
        self.assertEqual((would["dry_run"], would["verified"]), (True, self.ckpt + "/step_00000015"))
        self.assertTrue(all(entry["bytes"] > 1000 for entry in would["checkpoints"]), would)
        done = self.run_ckpt("prune", self.ckpt, "--keep", "1", "--keep-every", "10").stdout
        self.assertIn("step_00000015 verifies", done)
        self.assertEqual(sorted(os.listdir(self.ckpt)), ["step_00000010", "step_00000015"])

    def test_repair(self):
        self.assertIn("nothing to repair", self.run_ckpt("repair", self.ckpt).stdout)
        os.truncate(self.shard(1), 100)
        self.assertIn("would be renamed", self.run_ckpt("repair", self.ckpt, "--dry-run").stdout)
        self.assertEqual(sorted(os.listdir(self.ckpt)), ["step_00000005", "step_00000010"])
        would = json.loads(self.run_ckpt("repair", self.ckpt, "--dry-run", "--json").stdout)
        self.assertEqual(would["newest_sound"], self.ckpt + "/step_00000005")
        self.assertEqual([entry["path"] for entry in would["damaged"]], [self.newest])
        self.assertIn("has 100 bytes", would["damaged"][0]["problem"])
        done = self.run_ckpt("repair", self.ckpt).stdout
        self.assertIn("_rank_00001.h5 has 100 bytes", done)
        self.assertIn("step_00000005: sound; the next start resumes from it", done)
        evidence, latest, sound = sorted(os.listdir(self.ckpt))
        self.assertTrue(evidence.startswith("damaged_step_00000010."), evidence)
        self.assertEqual((latest, sound), ("latest", "step_00000005"))
        self.assertEqual(len(json.loads(self.run_ckpt("list", self.ckpt, "--json").stdout)), 1)
        nothing = json.loads(self.run_ckpt("repair", self.ckpt, "--json").stdout)
        self.assertEqual((nothing["damaged"], nothing["dry_run"]), ([], False))
        os.remove(self.ckpt + "/step_00000005/COMMIT")
        self.assertIn("none of the 1", self.complaint("repair", self.ckpt, code=CHECKPOINT))

    def test_view(self):
        text = self.run_ckpt("view", self.ckpt).stdout
        self.assertIn("model.h5: 16 tensors in 3 shard files", text)
        self.assertIn("19 tensors", self.run_ckpt("view", self.newest, "--with-optimizer").stdout)
        self.assertEqual(sorted(os.listdir(self.newest)), ["COMMIT", "manifest.json", "model.h5", "shards"])
        # Shoal goes on without it, whatever becomes of it.
        with open(self.newest + "/model.h5", "wb") as file:
            file.write(b"none")
        self.run_ckpt("verify", self.ckpt)
        self.run_ckpt("prune", self.ckpt, "--keep", "1")
        self.run_ckpt("view", self.ckpt)

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
