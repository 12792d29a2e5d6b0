#!/usr/bin/env python3
"""placement_program_test.py TRAIN XML MPIEXEC...: where shoal train says that its ranks are, on a computer that hwloc
reads from XML, and what it makes of Slurm's environment before it starts MPI."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TRAIN, XML, *MPIEXEC = sys.argv[1:]
ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ["--model", "gpt2-tiny", "--layers", "1", "--heads", "2", "--hidden-size", "16", "--vocab-size", "256",
        "--max-positions", "16", "--sequence-length", "16", "--tokenizer", "bytes", "--data", ROOT / "LICENSE",
        "--batch-size", "2", "--max-steps", "1", "--checkpoint-dir", "none", "--device", "cpu"]


class Placement(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="shoal-placement-")
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def train(self, *options, ranks=None, environment=None):
        launcher = [] if ranks is None else [*MPIEXEC, str(ranks)]
        two_sockets = {"HWLOC_XMLFILE": XML, "HWLOC_THISSYSTEM": "1"}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PMI"))}
        command = [*launcher, TRAIN, *TINY, *options]
        return subprocess.run([str(word) for word in command], env={**kept, **two_sockets, **(environment or {})},
                              cwd=self.folder, capture_output=True, text=True, timeout=100)

    def test_table_and_json(self):
        done = self.train("--run-dir", self.folder / "run", ranks=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"placement: 2 ranks on 1 node\n.*ranks +hosts +local +GPU +NUMA +CPUs\n"
                                      r".* 0-1 +\S+ +0-1 +- +0 +\d")
        placement = json.loads((self.folder / "run/placement.attempt-000001.json").read_text())
        self.assertEqual([(rank["rank"], rank["node"], rank["local_rank"], rank["gpu"], rank["machine_cpus"])
                          for rank in placement["ranks"]], [(0, 0, 0, None, 4), (1, 0, 1, None, 4)])

    def test_quiet(self):
        done = self.train("--quiet", ranks=2)
        self.assertEqual((done.returncode, "placement:" in done.stderr), (0, False), done.stderr)

    def test_too_few_cpus(self):
        free = len(os.sched_getaffinity(0) & {0, 1, 2, 3})  # those of them that the computer in the XML has
        if free not in (1, 2, 3):
            self.skipTest("this process may use none of the four CPUs in the XML, or all of them")
        done = self.train("--quiet", ranks=free + 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"share {free} of their node's 4 logical CPUs", done.stderr)

    def test_damaged_environment(self):
        step = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "two", "SLURM_PROCID": "0"}
        done = self.train(environment=step)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("SLURM_STEP_NUM_TASKS: character 1 of 'two'", done.stderr)

    def test_no_process_manager(self):
        step = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "0"}
        done = self.train(environment=step)
        self.assertEqual(done.returncode, 6, done.stderr)
        self.assertIn("srun --mpi=list", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_srun_was_forgotten(self):
        done = self.train("--quiet", environment={"SLURM_JOB_ID": "1", "SLURM_NTASKS": "8", "SLURM_PROCID": "0"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("one rank in the batch shell, which has room for 8 tasks (SLURM_NTASKS)", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
