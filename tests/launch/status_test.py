#!/usr/bin/env python3
"""shoal-status from outside: text, JSON, errors, and that it needs no library of a job.

status_test.py SHOAL_STATUS
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop(1)
UNWANTED = re.compile(r"lib(torch|c10|mpi|open-(rte|pal)|cuda|cudart|nccl|slurm|hdf5)", re.IGNORECASE)


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=30)


class Status(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.directory = pathlib.Path(self.folder.name) / "run"
        (self.directory / "attempts").mkdir(parents=True)
        common = {"job": "100_7", "chain": "100", "host": "n1", "process": 1, "ranks": 8}
        self.write("attempts/000001.json", {
            **common, "attempt": 1, "restart_count": 0, "started": 1000000000, "state": "running", "start_step": 0,
            "end_step": 20, "reason": "", "requeued": False})
        self.write("attempts/000002.json", {
            **common, "attempt": 2, "restart_count": 1, "started": 1000000500, "state": "running", "start_step": 20,
            "reason": "", "requeued": False})
        self.write("first_failure.attempt-000001.json", {
            "attempt": 1, "rank": 3, "host": "n2", "gpu": "GPU-1234", "time": 1000000400, "reason": "lost its network",
            "exit_code": 6})
        self.status = {
            "attempt": 2, "job": "100_7", "state": "running", "phase": "training", "step": 30, "total_steps": 100,
            "epoch": 1, "loss": 0.25, "samples_per_second": 128.0, "seconds_per_step": 0.5,
            "last_checkpoint": "/c/step_00000020", "last_checkpoint_step": 20, "last_checkpoint_time": time.time() - 61,
            "host": "n1", "ranks": 8, "updated": time.time(), "deadline": time.time() + 3600}
        self.write("status.json", self.status)

    def write(self, name, value):
        (self.directory / name).write_text(json.dumps(value))

    def test_people_read_it(self):
        for path in (self.directory, self.directory.parent):
            got = run(path)
            self.assertEqual((got.returncode, got.stderr), (0, ""))
            for pattern in (r"state +running \(training\)", r"attempt +2, job 100_7, 8 ranks, rank 0 on n1",
                            r"step +30 of 100 \(30.0 %\), 1 epochs done, loss 0.25",
                            r"rate +128 samples/s, 0.5 s a step", r"remaining +about 00:00:35",
                            r"time limit +in (01:00:00|00:59:5\d)", r"checkpoint +/c/step_00000020, 00:01:0\d ago",
                            r"\n1 +2001-09-09 01:46:40 +100_7 +n1 +8 +0 +20 +running",
                            r"first failure of attempt 1: rank 3 on n2, GPU GPU-1234, 2001-09-09 01:53:20 UTC: lost its "
                            r"network \(exit code 6\)"):
                self.assertRegex(got.stdout, pattern)

    def test_programs_read_it(self):
        got = json.loads(run(self.directory, "--json").stdout)
        self.assertEqual((got["state"], got["status"]["step"], got["seconds_left"]), ("running", 30, 35.0))
        self.assertEqual([a["attempt"] for a in got["attempts"]], [1, 2])
        self.assertEqual(got["first_failures"][0]["rank"], 3)

    def test_a_failure_that_no_rank_could_tell_of(self):
        self.write("first_failure.attempt-000001.json", {
            "attempt": 1, "rank": -1, "host": "", "gpu": "", "time": 1000000400, "exit_code": -1,
            "reason": "left no word of its end; last seen: rank 0 in forward"})
        self.assertIn("\nattempt 1 left no word of its end; last seen: rank 0 in forward\n", run(self.directory).stdout)

    def test_silence(self):
        self.status["updated"] -= 50
        self.write("status.json", self.status)
        self.assertIn("running", run(self.directory).stdout)
        self.assertRegex(run(self.directory, "--stale-after", 40).stdout, r"state +stale: no word for 5\d s")

    def test_it_follows_no_slurm_and_no_path(self):
        got = subprocess.run([PROGRAM, self.directory], capture_output=True, text=True, timeout=30, env={"PATH": ""})
        self.assertEqual(got.returncode, 0, got.stderr)

    def test_errors(self):
        for arguments, code, words in (((), 2, "the run directory is missing"), (("--jsn",), 2, "'--json'?"),
                                       (("--frobnicate",), 2, "see shoal status --help"),
                                       ((self.directory / "attempts",), 5, "is no run directory"),
                                       (("/nonexistent",), 5, "is no run directory"),
                                       ((self.directory, "other"), 2, "shoal status")):
            got = run(*arguments)
            self.assertEqual(got.returncode, code, got.stderr)
            self.assertIn(words, got.stderr)

    def test_login_node(self):
        listing = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
        self.assertEqual([line for line in listing.splitlines() if UNWANTED.search(line.split("=>")[0])], [])


if __name__ == "__main__":
    unittest.main()
