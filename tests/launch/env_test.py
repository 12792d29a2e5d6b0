#!/usr/bin/env python3
"""env_test.py PROGRAM: what shoal-env tells in several environments, and its exit codes."""
import json
import os
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
STEP = {
    "SLURM_JOB_ID": "41", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NODELIST": "n[08,10]", "SLURM_STEP_TASKS_PER_NODE": "2,1", "SLURM_NTASKS": "8", "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0", "SLURM_NODEID": "1", "SLURM_GTIDS": "2", "SLURMD_NODENAME": "n10", "PMIX_RANK": "2",
}


# Nothing of this process's environment, but for what a sanitizer wants to know.
ALWAYS = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}
BYTES = {os.fsencode(name): os.fsencode(value) for name, value in ALWAYS.items()}


def run(arguments=(), environment=None):
    return subprocess.run([PROGRAM, *arguments], env={**ALWAYS, **(environment or {})}, capture_output=True, text=True,
                          timeout=60)


def line_with(text, variable):
    return next(line for line in text.splitlines() if variable in line)


class Env(unittest.TestCase):
    def test_without_slurm(self):
        done = run()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("no job of Slurm\n"), done.stdout)
        self.assertIn("not set: SLURM_STEP_NUM_TASKS, SLURM_NTASKS, SLURM_NPROCS", done.stdout)

    def test_values_and_where_they_are_from(self):
        done = run(environment={**STEP, "SHOAL_SEED": "7"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("step 0 of job 41, started by srun: task 2 of 3 on n10\n"), done.stdout)
        self.assertRegex(line_with(done.stdout, "SLURM_STEP_NUM_TASKS"), r"^tasks +3 +SLURM_STEP_NUM_TASKS$")
        self.assertRegex(line_with(done.stdout, "SLURM_STEP_NODELIST"), r"^hosts +n\[08,10\] +SLURM_STEP_NODELIST$")
        self.assertRegex(line_with(done.stdout, "SHOAL_SEED"), r"^ +7 +SHOAL_SEED$")

    def test_json(self):
        done = run(["--json"], STEP)
        self.assertEqual(done.returncode, 0, done.stderr)
        told = json.loads(done.stdout)
        self.assertEqual((told["launcher"], told["pmi"], told["job"]), ("srun", "PMIx", "41"))
        self.assertEqual(told["hosts"], ["n08", "n10"])
        self.assertEqual(told["tasks_per_node"], [2, 1])
        self.assertGreaterEqual(told["machine_cpus"], len(told["cpus"]))
        by_name = {row["name"]: row for row in told["values"]}
        self.assertEqual((by_name["tasks"]["value"], by_name["tasks"]["variable"]), ("3", "SLURM_STEP_NUM_TASKS"))
        self.assertEqual((by_name["restarts"]["value"], by_name["restarts"]["variable"]), (None, None))
        self.assertEqual(by_name["restarts"]["looked_at"], ["SLURM_RESTART_COUNT"])
        # The text tells the same values in the same order.
        lines = run(environment=STEP).stdout.splitlines()[4:]
        self.assertEqual([row["name"] for row in told["values"]],
                         [line.split("  ")[0] for line in lines[: len(told["values"])]])

    def test_malformed_variables(self):
        bad = {**STEP, "SLURM_STEP_NODELIST": "n[3-1]", "SLURM_NTASKS": "eight"}
        done = run(environment=bad)
        self.assertEqual(done.returncode, 2)
        self.assertIn("SLURM_STEP_NODELIST: character 3 of 'n[3-1]': the range 3-1 runs backwards", done.stderr)
        self.assertIn("SLURM_NTASKS: character 1 of 'eight': a number is expected here", done.stderr)
        self.assertIn("n[3-1]", done.stdout)
        done = run(["--json"], bad)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(json.loads(done.stdout)["faults"]), 2)

    def test_any_bytes(self):
        done = subprocess.run([PROGRAM, "--json"],
                              env={**BYTES, b"SLURM_JOB_NAME": b"\xff\x01\"", b"SLURM_JOB_ID": b"1"},
                              capture_output=True, timeout=60, check=True)
        json.loads(done.stdout)
        done = subprocess.run([PROGRAM], env={**BYTES, b"SLURM_JOB_NAME": b"a\nb\xff", b"SLURM_JOB_ID": b"1"},
                              capture_output=True, timeout=60, check=True)
        self.assertIn(b"a?b?", done.stdout)

    def test_expand_and_compress(self):
        done = run(["--expand", "n[08,10-11],x"])
        self.assertEqual((done.returncode, done.stdout), (0, "n08\nn10\nn11\nx\n"))
        self.assertEqual(run(["--expand", ""]).stdout, "")
        done = run(["--compress", "n08", "n10", "n11", "x"])
        self.assertEqual((done.returncode, done.stdout), (0, "n[08,10-11],x\n"))

    def test_usage(self):
        for arguments, words in ([["--expand", "n["], "character 3 of 'n['"], [["--compress", "a,b"], "'a,b'"],
                                 [["--jsn"], "did you mean '--json'?"], [["--frobnicate"], "see shoal env --help"],
                                 [["--json", "--expand", "a"], "give one of"]):
            done = run(arguments)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn(words, done.stderr)
        self.assertIn("--expand", run(["--help"]).stdout)


if __name__ == "__main__":
    unittest.main()
