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


def in_a_job(script, srun='echo "SRUN $*"', squeue="", **environment):
    """Runs lines of bash after job.sh as in a job, with other lines in place of srun, by default an echo, and squeue."""
    with tempfile.TemporaryDirectory() as scratch:
        for name, lines in ("srun", srun), ("squeue", squeue):
            program = pathlib.Path(scratch, name)
            program.write_text(f"#!/bin/bash\n{lines}\n")
            program.chmod(0o755)
        path = f"{scratch}:{os.environ['PATH']}"
        result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, cwd=scratch, env={
            "PATH": path, "SLURM_JOB_ID": "7", "JOB": f"{FOLDER}/job.sh", "SCRATCH": scratch, **environment})
    return result.returncode, result.stdout + result.stderr


def het_launch(script, srun, **environment):
    """The same after het.sh, with a squeue that knows of a step while there is $SCRATCH/step."""
    start = f'mpi=pmix; site=; look_every=0.2; . "$JOB"; . {FOLDER}/het.sh; '
    return in_a_job(start + script, srun, '[[ ! -e $SCRATCH/step ]] || echo 8.0; echo 7.batch', **environment)


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
                                 FOLDER / "het.sh", *JOBS, *tools], capture_output=True, text=True, timeout=120)
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
                self.assertRegex(tail, r"(?m)^ *launch(_het)? ")
                self.assertNotRegex(tail, r"\bsrun\b", "only launch calls srun")

    def test_srun_ends_with_its_first_failure(self):
        code, text = in_a_job('mpi=pmix; site=; . "$JOB"; launch a "b c"', SLURM_CPUS_PER_TASK="3")
        self.assertEqual(code, 0, text)
        self.assertIn("SRUN --kill-on-bad-exit=1 --wait=60 --mpi=pmix --cpus-per-task=3 a b c", text)

    def test_mpi_init_waits_for_all_nodes(self):
        fence = 'site=; . "$JOB"; launch a; echo "FENCE ${SLURM_PMIX_FENCE:-none}"'
        self.assertIn("FENCE ring", in_a_job(f"mpi=pmix; {fence}")[1])
        self.assertIn("FENCE ring", in_a_job(f"mpi=pmix_v4; {fence}")[1])
        self.assertIn("FENCE none", in_a_job(f"mpi=pmi2; {fence}")[1])
        self.assertIn("FENCE tree", in_a_job(f"mpi=pmix; {fence}", SLURM_PMIX_FENCE="tree")[1])

    def test_a_heterogeneous_step_has_the_cpus_of_each_component(self):
        cpus = {"SLURM_CPUS_PER_TASK_HET_GROUP_0": "2", "SLURM_CPUS_PER_TASK_HET_GROUP_2": "5"}
        code, text = het_launch("launch_het 0,2 program a", 'echo "${@//$\'\\n\'/ }"', **cpus)
        self.assertEqual(code, 0, text)
        common = r"--kill-on-bad-exit=1 --wait=60 --mpi=pmix --cpus-per-task=%s --het-group=%s "
        for number, value in ("0", "2"), ("2", "5"):
            self.assertRegex(text, common % (value, number) + f"--export=ALL,SLURM_CPUS_PER_TASK={value} bash -c ")
        self.assertEqual(len(re.findall(r"task \S+ program a(?: :|$)", text, re.M)), 2, text)

    def test_an_srun_that_does_not_end_after_its_tasks_is_killed(self):
        # The first component's tasks run one after the other; then srun stays, though the step is no more.
        stuck = '''touch "$SCRATCH/step"
            while [[ $1 == --* ]]; do shift; done
            command=(); while [[ $1 != : ]]; do command+=("$1"); shift; done
            for SLURM_PROCID in 0 1 2; do export SLURM_PROCID; "${command[@]}"; done
            rm "$SCRATCH/step"; exec sleep 100'''
        for codes, expected in ("0 0 0", 0), ("75 75 75", 75), ("0 0 20", 20), ("0 9 3", 9):
            program = f'c=({codes}); exit "${{c[SLURM_PROCID]}}"'
            code, text = het_launch(f"launch_het 0,1 bash -c '{program}'; echo CODE $?; ls -A", stuck)
            self.assertIn(f"CODE {expected}\n", text)
            self.assertIn("it was killed", text)
            self.assertNotIn(".shoal-job", text.split("CODE")[1])

    def test_an_srun_that_ends_is_believed(self):
        code, text = het_launch("launch_het 0,1 a", 'touch "$SCRATCH/step"; sleep 1; exit 3')
        self.assertEqual(code, 3, text)
        code, text = het_launch("launch_het 0,1 a", "sleep 1; exit 4")  # waits for nodes, and has no step yet
        self.assertEqual(code, 4, text)
        code, text = het_launch("rm $SCRATCH/squeue; launch_het 0,1 a", "sleep 1; exit 5")
        self.assertEqual(code, 5, text)

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
