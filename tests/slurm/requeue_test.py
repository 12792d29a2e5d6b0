#!/usr/bin/env python3
"""Jobs that are stopped and go on: by a signal, by preemption, as a chain, cancelled."""
import cluster
from cluster import run


class RequeueTest(cluster.LiveTest):
    def requeued(self, *train, **options):
        """A job that puts itself back into the queue, once it has begun to train."""
        job = self.train("requeue.sbatch", train=[*self.endless(), "--requeue", "on-signal", *train], **options)
        job.wait_for_step(20)
        return job

    def test_a_signal_saves_and_requeues_and_the_weights_are_those_of_a_run_without(self):
        size = {"nodes": 2, "ntasks_per_node": 1}
        job = self.requeued(**size)
        run("scancel", "--signal=USR1", job.number)
        last = self.end_after_requeue(job)
        straight = self.train(checkpoints="straight", train=["--max-steps", last], **size)
        self.assertEqual(job.wait_for_end(), "COMPLETED", job.log())
        self.assertEqual(job.restarts, 1)
        first, second = self.attempts()
        self.assertEqual((first["exit_code"], first["requeued"], second["exit_code"]), (75, True, 0))
        self.assertEqual((second["start_step"], second["end_step"]), (first["end_step"], last))
        self.assertEqual(straight.wait_for_end(), "COMPLETED", straight.log())
        self.assert_same_weights(self.folder / "straight/gpt2-tiny.h5", self.folder / "ck/gpt2-tiny.h5")

    def preempted(self, partition):
        job = self.requeued("--checkpoint-every", "10", partition=partition, nodes=1, ntasks_per_node=2, nodelist="n1")
        job.wait_for_log(r"saved \S*step_0*20\b")
        urgent = run("sbatch", "--parsable", "--partition=urgent", "--nodelist=n1", "--exclusive",
                     "--output=urgent.log", "--wrap=sleep 1", cwd=self.folder).output.strip()
        self.jobs.append(cluster.Job(urgent, self.folder))
        last = self.end_after_requeue(job)
        self.assertEqual(self.jobs[-1].wait_for_end(), "COMPLETED")
        self.assertEqual(job.wait_for_end(), "COMPLETED", job.log())
        self.assertEqual(job.restarts, 1)
        first, second = self.attempts()
        self.assertGreaterEqual(second["start_step"], 20)
        self.assertEqual(second["end_step"], last)
        return first, second

    def test_preemption_with_grace_saves_first(self):
        first, second = self.preempted("graceful")
        self.assertEqual((first["exit_code"], first["requeued"]), (75, True))
        self.assertEqual(second["start_step"], first["end_step"])

    def test_preemption_without_grace_goes_on_from_the_last_checkpoint(self):
        self.preempted("preemptible")

    def test_a_cancelled_job_is_gone_and_stays_so(self):
        job = self.requeued(nodes=2, ntasks_per_node=1)
        job.cancel()
        self.assertEqual(job.wait_for_end(30), "CANCELLED", job.log())
        cluster.wait_until(lambda: not any(cluster.pids_of_ranks(name, job) for name in ("n1", "n2", "n3", "n4")),
                           "the end of its ranks", 15)
        self.assertEqual((job.state, job.restarts), ("CANCELLED", 0))

    def test_links_of_a_chain_stop_where_the_run_is_done(self):
        size = {"nodes": 1, "ntasks_per_node": 2, "train": self.endless()}
        chain = self.train("chain.sbatch", array="1-4%1", output="chain-%A_%a.log", **size)
        chain.wait_for_step(20)
        # The next link starts at once. It has what this one would do in 5 s: more than that does before it has heard.
        last = self.end_at(max(chain.steps_told()) + max(100, int(5 * chain.steps_a_second())))
        # Of a task of an array scancel reaches srun as well, unless the step is named.
        run("scancel", "--signal=USR1", f"{chain.number}_1.0")
        chain.wait_for_log("the run is done: cancels the links that wait")
        ended = {"COMPLETED", "CANCELLED"}
        cluster.wait_until(lambda: set(chain.states_of_tasks().values()) <= ended,
                           lambda: f"{chain.states_of_tasks()}\n{chain.log()}", 60)
        self.assertEqual([chain.states_of_tasks()[link] for link in ("1", "2")], ["COMPLETED"] * 2)
        self.assertIn("CANCELLED", chain.states_of_tasks().values())
        self.assertEqual([attempt["exit_code"] for attempt in self.attempts()], [75, 0])
        self.assertEqual(self.steps_of(self.folder / "ck")[-1], last)
        late = self.train("chain.sbatch", **size)
        self.assertEqual(late.wait_for_end(), "COMPLETED", late.log())
        self.assertIn("nothing is left for this link", late.log())
        self.assertEqual(len(self.attempts()), 2)


if __name__ == "__main__":
    cluster.main()
