#!/usr/bin/env python3
"""The scripts of slurm/ without a Slurm: shellcheck finds nothing, users edit between two marks and nowhere else, srun
is called as it must be, and site profiles are read as data. scripts_test.py FOLDER"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(sys.argv[1]).resolve()
JOBS = sorted(FOLDER.glob("*.sbatch"))
SITES = sorted((FOLDER / "sites").glob("*.conf"))


def in_a_job(script, **environment):
    """Runs lines of bash after job.sh as in a job, with srun replaced by echo."""
    with tempfile.TemporaryDirectory() as scratch:
        srun = pathlib.Path(scratch, "srun")
        srun.write_text('#!/bin/sh\necho "SRUN $*"\n')
        srun.chmod(0o755)
        path = f"{scratch}:{os.environ['PATH']}"
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, env={
            "PATH": path, "SLURM_JOB_ID": "7", "JOB": f"{FOLDER}/job.sh", **environment})
    return result.returncode, result.stdout + result.stderr


class ScriptsTest(unittest.TestCase):
    def test_there_is_one_for_each_purpose(self):
        names = {path.stem for path in JOBS}
        self.assertEqual(names, {"train", "requeue", "chain", "het", "resume", "preflight", "convert"})
        readme = (FOLDER / "README.md").read_text()
        for path in [*JOBS, *SITES]:
            self.assertIn(path.name, readme)

    def test_shellcheck_finds_nothing(self):
        if shutil.which("shellcheck") is None:
            self.skipTest("shellcheck is not installed")
        tools = [path for path in (FOLDER / "sandbox").iterdir() if not path.name.endswith(".sh")]
        result = subprocess.run(["shellcheck", "--external-sources", "--source-path=SCRIPTDIR", FOLDER / "job.sh",
                                 *JOBS, *tools], capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_users_edit_between_the_marks(self):
        for path in JOBS:
            head, rest = re.split(r"(?m)^# ---- edit from here.*\n", path.read_text())
            edit, tail = re.split(r"(?m)^# ---- to here.*\n", rest)
            with self.subTest(path.name):
                self.assertTrue(all(line.startswith("#") for line in head.splitlines()), head)
                self.assertIn("#SBATCH --open-mode=append", edit)
                self.assertNotIn("#SBATCH", tail)
                self.assertNotRegex(edit, r"--signal=B:")
                self.assertRegex(edit, r"(?m)^site=")
                self.assertRegex(path.read_text(), r"(?m)^mpi=")
                self.assertRegex(tail, r"(?m)^ *launch ")
                self.assertNotRegex(tail, r"\bsrun\b", "only launch calls srun")

    def test_srun_ends_with_its_first_failure(self):
        code, text = in_a_job('mpi=pmix; site=; . "$JOB"; launch a "b c"', SLURM_CPUS_PER_TASK="3")
        self.assertEqual(code, 0, text)
        self.assertIn("SRUN --kill-on-bad-exit=1 --wait=60 --mpi=pmix --cpus-per-task=3 a b c", text)

    def test_a_script_outside_of_a_job_says_so(self):
        code, text = in_a_job('mpi=pmix; site=; . "$JOB"', SLURM_JOB_ID="")
        self.assertEqual(code, 2)
        self.assertIn("submit it by sbatch", text)

    def test_profiles_are_exported_and_printed(self):
        for path in SITES:
            with self.subTest(path.name):
                code, text = in_a_job(f'mpi=pmix; site={path.stem}; . "$JOB"; env')
                self.assertEqual(code, 0, text)
                pairs = re.findall(r"(?m)^([A-Z_a-z0-9]+)=(.*)$", path.read_text())
                self.assertTrue(pairs)
                for name, value in pairs:
                    self.assertIn(f"site {path.stem}: {name}={value}\n", text)
                    self.assertIn(f"\n{name}={value}\n", text)

    def test_what_the_user_set_stays(self):
        code, text = in_a_job('mpi=pmix; site=infiniband; . "$JOB"; env', NCCL_NET="Socket")
        self.assertEqual(code, 0, text)
        self.assertIn("NCCL_NET=Socket (was set before)", text)
        self.assertIn("\nNCCL_NET=Socket\n", text)

    def test_a_profile_is_not_run(self):
        with tempfile.TemporaryDirectory() as scratch:
            profile = pathlib.Path(scratch, "own.conf")
            profile.write_text("# a comment\n\nA_VALUE=$(touch ran) `touch ran` with blanks")
            code, text = in_a_job(f'cd {scratch}; mpi=pmix; site={profile}; . "$JOB"; env')
            self.assertEqual(code, 0, text)
            self.assertIn("\nA_VALUE=$(touch ran) `touch ran` with blanks\n", text)
            self.assertFalse(pathlib.Path(scratch, "ran").exists())
            profile.write_text("touch ran\n")
            code, text = in_a_job(f'cd {scratch}; mpi=pmix; site={profile}; . "$JOB"; echo went on')
            self.assertEqual(code, 2)
            self.assertIn("'touch ran'", text)
            self.assertNotIn("went on", text)

    def test_a_profile_that_is_not_there_is_an_error_that_lists_them(self):
        code, text = in_a_job('mpi=pmix; site=nowhere; . "$JOB"; echo went on')
        self.assertEqual(code, 2)
        for path in SITES:
            self.assertIn(path.name, text)
        self.assertNotIn("went on", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
