#!/usr/bin/env python3
"""Jobs that go well: on several nodes, with uneven tasks, interactive, heterogeneous, beside each other, on a parallel
file system; and the mistake of the wrong MPI."""
import os
import re
import shutil

import cluster
from cluster import PROGRAMS, STATE, TINY, run

# What cmake builds of late_fence.cpp.
LATE_FENCE = os.environ.get("LATE_FENCE", PROGRAMS.parent / "tests/liblate_fence.so")


class LaunchTest(cluster.LiveTest):
    def srun(self, *words, steps=10, **options):
        """Straight from the submit host."""
        return run("srun", *words, PROGRAMS / "shoal", "train", *TINY, "--max-steps", steps,
                   "--checkpoint-dir", self.folder / "ck", cwd=self.folder, **options)

    def check_run(self, job, ranks, steps):
        self.assertEqual(job.wait_for_end(), "COMPLETED", job.log())
        self.assertIn(f"{ranks} ranks, ", job.log())
        self.assertIn(f"saved {self.folder}/ck/step_{steps:08d}", job.log())
        verified = run(PROGRAMS / "shoal", "ckpt", "verify", self.folder / "ck").output
        self.assertIn(f"{steps}", verified)

    def test_two_nodes_of_two_ranks_and_its_conversion(self):
        job = self.train(nodes=2, ntasks_per_node=2, train=["--max-steps", "20"])
        lines = [f"checkpoint={self.folder}/ck", f"output={self.folder}/one.h5", "site="]
        convert = self.submit("convert.sbatch", lines, options=[f"--dependency=afterok:{job.number}"], cpus_per_task=1)
        self.check_run(job, 4, 20)
        self.assertIn("site ethernet: NCCL_SOCKET_IFNAME=^docker,lo,veth", job.log())
        self.assertEqual(convert.wait_for_end(), "COMPLETED", convert.log())
        self.assert_same_weights(self.folder / "one.h5", self.folder / "ck/gpt2-tiny.h5")

    def test_uneven_tasks_on_three_nodes(self):
        job = self.train(nodes=3, ntasks=4, ntasks_per_node=None, train=["--max-steps", "20"],
                         **{"distribution": "block", "exclude": "n4"})
        self.check_run(job, 4, 20)

    def test_interactive_step_with_other_tasks_than_the_allocation(self):
        # SLURM_NTASKS is 4 in the shell of salloc, and the step has two.
        output = run("salloc", "--nodes=2", "--ntasks=4", "bash", "-c",
                     f"echo the shell has $SLURM_NTASKS; exec srun --nodes=1 --ntasks=2 {PROGRAMS}/shoal train "
                     f"{' '.join(TINY)} --max-steps 10 --checkpoint-dir {self.folder}/ck", cwd=self.folder).output
        self.assertIn("the shell has 4", output)
        self.assertIn("2 ranks, ", output)
        self.assertEqual(self.steps_of(self.folder / "ck"), [10])

    def test_heterogeneous_job_is_one_world(self):
        job = self.train("het.sbatch", nodes=None, ntasks_per_node=None, cpus_per_task=None,
                         train=["--max-steps", "20"],
                         parts=["--nodelist=n1 --ntasks=2", "--nodelist=n[2-3] --ntasks=2"])
        self.check_run(job, 4, 20)
        self.assertRegex(job.log(), r"the time limit strikes in \d+ s")

    def test_a_rank_that_is_late_in_mpi_init_is_waited_for(self):
        # By Slurm's default it is not: messages then come to a rank that cannot take them yet, and Open MPI crashes.
        lines = [f"export LD_PRELOAD={LATE_FENCE} LATE_FENCE_TASK=1", "unset SLURM_PMIX_FENCE"]
        job = self.train(nodes=2, ntasks_per_node=1, train=["--max-steps", "20"], lines=lines)
        self.check_run(job, 2, 20)

    def test_two_jobs_on_one_node(self):
        jobs = [self.train(nodes=1, ntasks_per_node=2, nodelist="n1", checkpoints=name,
                           train=["--max-steps", "20"]) for name in ("a", "b")]
        for job in jobs:
            self.assertEqual(job.wait_for_end(), "COMPLETED", job.log())
        self.assert_same_weights(self.folder / "a/gpt2-tiny.h5", self.folder / "b/gpt2-tiny.h5")

    def test_checkpoints_on_a_parallel_file_system(self):
        if shutil.which("glusterd") is None or not (STATE / "volume").exists():
            self.skipTest("the sandbox has no GlusterFS volume: packages or /dev/fuse are missing")
        volume = STATE / "volume" / self.folder.name
        job = self.train(nodes=3, ntasks_per_node=1, train=["--max-steps", "20"], checkpoints=volume)
        self.assertEqual(job.wait_for_end(), "COMPLETED", job.log())
        cluster.on_node("n4", PROGRAMS / "shoal", "ckpt", "verify", volume)
        self.assertIn("fuse.glusterfs", cluster.on_node("n4", "findmnt", "--noheadings", "--target", volume))
        self.assertFalse(os.listdir(STATE / "volume"), "it was written beside the volume, not on it")

    def test_preflight_of_the_allocation(self):
        job = self.submit("preflight.sbatch", [f"preflight=(--checkpoint-dir {self.folder}/ck --size 1)", "mpi=pmix",
                                               "site=ethernet"], nodes=3, ntasks_per_node=1, cpus_per_task=1)
        state, log = job.wait_for_end(), job.log()
        failed = re.findall(r"^(\S+) +fail ", log, re.MULTILINE)
        # The nodes share this machine's cores: how fast one of them is beside the others is chance.
        self.assertLessEqual(set(failed), {"clocks", "mpi.latency", "mpi.bandwidth", "fs.write", "fs.read"}, log)
        self.assertEqual(state, "FAILED" if failed else "COMPLETED", log)
        self.assertRegex(log, rf"preflight of 3 ranks on 3 hosts in .*: \d+ checks, {len(failed)} failed")

    def test_the_wrong_mpi_is_named(self):
        result = self.srun("--nodes=2", "--ntasks=4", "--mpi=none", check=False)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("srun --mpi=list", result.output)
        self.assertIn("--mpi=pmix", result.output)


if __name__ == "__main__":
    cluster.main()
