#!/usr/bin/env python3
"""Ranks that fail: one that is killed, one that stands still."""
import json
import time

import cluster
from cluster import run


class FailureTest(cluster.LiveTest):
    def running(self, *train, **options):
        """A job of four ranks on n1 and n2 that would not end by itself, and a rank of n2."""
        job = self.train(nodes=2, ntasks_per_node=2, nodelist="n[1-2]", train=["--max-steps", "100000", *train],
                         **options)
        job.wait_for_step(20)
        return job, cluster.pids_of_ranks("n2", job)[0]

    def first_failure(self):
        [record] = (self.folder / "ck/run").glob("first_failure.*.json")
        return json.loads(record.read_text())

    def rank_of(self, pid):
        """Of a process on n2."""
        command = f"tr '\\0' '\\n' </proc/{pid}/environ | sed -n s/^PMIX_RANK=//p"
        return int(cluster.on_node("n2", "bash", "-c", command))

    def ranks_left(self, job):
        return [pid for name in ("n1", "n2") for pid in cluster.pids_of_ranks(name, job)]

    def test_a_mistake_that_all_ranks_see_keeps_its_exit_code(self):
        # The first rank to end has srun send SIGTERM to the others, on which 143 would be the code of the job.
        job = self.train(nodes=3, ntasks_per_node=2, train=["--sequence-length-of-samples", "16"])
        self.assertEqual(job.wait_for_end(), "FAILED", job.log())
        self.assertEqual(job.exit_code, 2, job.log())
        self.assertEqual(job.log().count("error: unrecognised option '--sequence-length-of-samples'"), 1, job.log())

    def test_a_killed_rank_takes_the_step_down_and_is_named(self):
        job, pid = self.running()
        rank = self.rank_of(pid)
        killed = time.monotonic()
        cluster.on_node("n2", "kill", "-KILL", pid)
        cluster.wait_until(lambda: not self.ranks_left(job), "the end of all ranks", 30)
        self.assertLess(time.monotonic() - killed, 10)
        self.assertEqual(job.wait_for_end(), "FAILED", job.log())
        # 137 where Slurm was the first to end the others, 6 where a neighbour has seen it and aborted the job.
        self.assertIn(job.exit_code, (6, 137), job.log())
        # Slurm names it alone, or beside a neighbour that ended before Slurm had told of it ("tasks 2-3: Killed").
        self.assertRegex(job.log(), r"n2: tasks? [-,\d]+: Killed")
        failure = self.first_failure()
        self.assertEqual((failure["rank"], failure["host"], failure["attempt"]), (rank, "n2", 1), failure)
        told = run(cluster.PROGRAMS / "shoal", "status", self.folder / "ck").output
        self.assertRegex(told, rf"(?i)failed[\s\S]*rank {rank}\b", told)

    def test_a_rank_that_stands_still_is_named_by_the_watchdog(self):
        job, pid = self.running("--hang-timeout", "5")
        rank = self.rank_of(pid)
        stopped = time.monotonic()
        cluster.on_node("n2", "kill", "-STOP", pid)
        self.assertEqual(job.wait_for_end(60), "FAILED", job.log())
        self.assertLess(time.monotonic() - stopped, 30)
        # Ranks that have ended with 20 have Slurm kill those that have not come to it yet, on all nodes, and srun tells
        # the largest code of those it has seen: each of 20 and 137 can be the only one. The batch shell tells the same.
        self.assertIn(job.exit_code, (20, 137), job.log())
        self.assertRegex(job.log(), rf"shoal job: .*exit code {job.exit_code}\b")
        self.assertRegex(job.log(), rf"HANG: no progress for \d+ s \(--hang-timeout 5\): rank {rank} on host n2 ")
        self.assertEqual(self.first_failure()["rank"], rank)


if __name__ == "__main__":
    cluster.main()
