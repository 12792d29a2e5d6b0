#!/usr/bin/env python3
"""What takes Slurm most of a minute to notice, all at once: a node that dies, one that falls off the network while its
ranks run on, and the end of a job's time."""
import re
import shutil

import cluster
from cluster import node, run

EVERY = 20  # steps from checkpoint to checkpoint


class LostNodesTest(cluster.LiveTest):
    def setUp(self):
        super().setUp()
        # The job that is to lose its network goes to n4 without asking for it, so that it may go elsewhere later.
        run("scontrol", "update", "nodename=n[1-3]", "weight=10")

    def end_jobs(self):
        run("scontrol", "update", "nodename=n[1-3]", "weight=1")
        node("join", "n4")
        for name in ("n3", "n4"):  # a node that starts anew is in order at once; Slurm looks at others now and then
            if run(cluster.SANDBOX / "shell", name, "true", check=False).returncode == 0:
                node("crash", name)
            node("start", name)
        super().end_jobs()

    def start(self):
        """The jobs of this test, all of which are training."""
        endless = ["--max-steps", "1000000", "--checkpoint-every", str(EVERY)]
        three = {"exclude": "n4", "train": endless}
        self.cut_off = self.train(nodes=1, ntasks_per_node=2, checkpoints="cut", train=endless, requeue="")
        # As many nodes as there are, with srun's default of one task each.
        self.requeued = self.train(checkpoints="requeued", requeue="", nodes="2-3", ntasks_per_node=None, **three)
        self.resumed = self.train("resume.sbatch", checkpoints="resumed", nodes=3, ntasks_per_node=1, **three)
        one = {"nodes": 1, "ntasks_per_node": 1, "nodelist": "n1", "time": "00:01:00", "signal": None}
        # Its own clock knows the limit by squeue, which the other does not find.
        self.by_clock = self.train("requeue.sbatch", checkpoints="clock", **one,
                                   train=[*endless, "--requeue", "on-deadline", "--time-margin", "25"])
        self.timed = self.train(checkpoints="timed", train=endless, lines=[self.path_without("squeue")], **one)
        for job in self.jobs:
            job.wait_for_log(r"saved \S*step_0*\d+")  # what the next start is to go on from
        self.assertEqual(self.cut_off.show()["NodeList"], "n4")
        self.assertEqual(self.requeued.show()["NodeList"], "n[1-3]")

    def path_without(self, program):
        """A line for a job script, after which there is all that a job script calls but this program."""
        tools = self.folder / "tools"
        tools.mkdir()
        for name in {"dirname", "srun", "sleep", "squeue"} - {program}:
            (tools / name).symlink_to(shutil.which(name))
        return f"PATH={tools}:{cluster.PROGRAMS}"

    def test_lost_nodes_and_time(self):
        self.start()
        node("cut", "n4")
        self.step_of_cut = max(self.cut_off.steps_told())
        node("crash", "n3")
        with self.subTest("a job on a dead node is requeued, and goes on with the ranks that are left"):
            self.requeued.wait_for_log(r"start 2\n", 90)
            self.requeued.wait_for_log(r"2 ranks, ")
            self.goes_on(self.requeued)
        with self.subTest("a job that outlives a node goes on within its allocation"):
            self.resumed.wait_for_log("start 2 of 5 on 2 nodes: n1,n2", 90)
            self.resumed.wait_for_log(r"2 ranks, ")
            self.goes_on(self.resumed)
        with self.subTest("ranks that Slurm lost run on, and leave the checkpoints to their successors"):
            self.check_fencing()
        with self.subTest("a job that knows when its time ends saves before, and requeues itself"):
            self.by_clock.wait_for_log(r"start 2\n", 150)
            first = self.attempts("clock")[0]
            self.assertEqual((first["exit_code"], first["requeued"]), (75, True), first)
            self.assertGreaterEqual(self.by_clock.restarts, 1)  # more where the others took long: it goes on as it began
            self.by_clock.cancel()
        with self.subTest("SIGTERM at the end of the time is enough to save"):
            self.assertEqual(self.timed.wait_for_end(150), "TIMEOUT", self.timed.log())
            self.assertRegex(self.timed.log(), "stopped .*after step")

    def goes_on(self, job):
        """From a checkpoint of the first start, and further than that."""
        resumed = job.wait_for_log(r"(?s)start 2.*?resumed from [^\n]*: step (\d+)")
        at = int(resumed.group(1))
        self.assertGreater(at, 0)
        job.wait_for_log(rf"(?s)start 2.*saved \S*step_0*(?!{at}\b)\d+")

    def check_fencing(self):
        self.cut_off.wait_for_log(r"start 2\n", 90)
        self.assertNotEqual(self.cut_off.show()["NodeList"], "n4")
        self.goes_on(self.cut_off)
        cluster.wait_until(lambda: not cluster.pids_of_ranks("n4", self.cut_off), "the end of the old ranks", 60)
        old, new = self.attempts("cut")
        self.assertEqual((old["host"], old["exit_code"]), ("n4", 22), old)
        self.assertGreater(old["end_step"], self.step_of_cut, "the ranks on the node without network did not run on")
        # Nothing was committed by the old attempt after the new one began, and none of it twice.
        saved = [int(step) for step in re.findall(r"saved \S*step_0*(\d+)", self.cut_off.log())]
        self.assertEqual(saved, sorted(set(saved)), "a step was saved twice, or by both")
        # One that the old attempt committed just before, and that it was cut off from telling of, may lie between.
        self.assertIn(new["start_step"] - old["end_step"], (0, EVERY), (old, new))


if __name__ == "__main__":
    cluster.main()
