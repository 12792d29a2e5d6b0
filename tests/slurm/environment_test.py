#!/usr/bin/env python3
"""What shoal env reads in every kind of shell and step that Slurm has, host lists against scontrol, and where shoal train
says that its ranks are."""
import json
import random
import re

import cluster
from cluster import PROGRAMS, TINY, run

ENV = [PROGRAMS / "shoal", "env"]


def by_label(output):
    """What each task said, of srun --label. Slurm speaks too, without a label."""
    said = {}
    for label, line in re.findall(r"(?m)^ *(\d+): ?(.*)$", output):
        said[label] = said.get(label, "") + line + "\n"
    return said


def told(output):
    """The JSON document in it."""
    return json.JSONDecoder().raw_decode(output, output.index("{"))[0]


def told_by_tasks(output):
    return {label: told(text) for label, text in by_label(output).items()}


def value(document, name):
    return next(row["value"] for row in document["values"] if row["name"] == name)


def variable(document, name):
    return next(row["variable"] for row in document["values"] if row["name"] == name)


class EnvironmentTest(cluster.LiveTest):
    def test_tasks_of_a_step_with_uneven_nodes(self):
        ranks = told_by_tasks(run("srun", "--label", "--nodes=3", "--ntasks=4", "--exclude=n4", "--distribution=block", *ENV,
                         "--json").output)
        self.assertEqual(sorted(ranks), ["0", "1", "2", "3"])
        for rank, document in ranks.items():
            self.assertEqual(value(document, "task (rank)"), rank)
            self.assertEqual((document["launcher"], document["pmi"], document["faults"]), ("srun", "PMIx", []))
            self.assertEqual(document["hosts"], ["n1", "n2", "n3"])
            self.assertEqual(document["tasks_per_node"], [2, 1, 1])
            self.assertEqual(variable(document, "tasks"), "SLURM_STEP_NUM_TASKS")
            self.assertEqual(document["host"], ["n1", "n1", "n2", "n3"][int(rank)])

    def test_the_interactive_step_has_one_task(self):
        # As salloc starts its shell on a node where the site has LaunchParameters=use_interactive_step.
        output = run("salloc", "--nodes=2", "--ntasks=4", "srun", "--interactive", "--preserve-env", "--mpi=none", "bash",
                     "-c", f"echo the job has $SLURM_NTASKS; {PROGRAMS}/shoal env --json; "
                     f"{PROGRAMS}/shoal train --help >/dev/null; echo train ends with $?").output
        self.assertIn("the job has 4", output)
        document = told(output)
        self.assertEqual(document["context"], "the interactive step of salloc")
        self.assertEqual((value(document, "tasks"), document["faults"]), ("1", []))
        self.assertIn("mpirun -n RANKS", output)  # Open MPI would abort
        self.assertIn("train ends with 6", output)

    def test_shells_of_batch_scripts_and_salloc(self):
        script = self.folder / "batch"
        script.write_text(f"#!/bin/bash\n{PROGRAMS}/shoal env --json\n")
        output = self.folder / "batch.log"
        run("sbatch", "--wait", "--nodes=2", "--ntasks=4", "--array=7", f"--output={output}", script)
        document = told(output.read_text())
        self.assertEqual((document["context"], document["faults"]), ("the batch shell", []))
        self.assertRegex(document["job"], r"^\d+_7$")
        document = told(run("salloc", "--nodes=1", "--ntasks=2", *ENV, "--json").output)
        self.assertEqual((document["context"], value(document, "tasks")), ("the shell of salloc", "2"))

    def test_heterogeneous_steps(self):
        # With PMIx, tasks that end without MPI leave srun hanging in Slurm 22.05.
        output = run("salloc", "--nodes=1", "--ntasks=1", ":", "--nodes=1", "--ntasks=2", "srun", "--label", "--mpi=none",
                     "--het-group=0,1", *ENV, "--json").output
        ranks = told_by_tasks(output)
        self.assertEqual(sorted(ranks), ["0", "1", "2"])
        for document in ranks.values():
            self.assertEqual((value(document, "tasks"), document["tasks_per_node"]), ("3", [1, 2]))
            self.assertEqual(document["faults"], [])

    def test_a_step_that_lost_its_number(self):
        result = run("srun", "--ntasks=2", "env", "-u", "SLURM_STEP_ID", "-u", "SLURM_STEPID", PROGRAMS / "shoal", "train",
                     *TINY, check=False)
        self.assertEqual(result.returncode, 2, result.output)
        self.assertIn("SLURM_STEP_ID is not set", result.output)

    def test_host_lists_are_those_of_scontrol(self):
        draw = random.Random(11)

        def ranges():
            first, width = draw.randrange(90), draw.randrange(1, 4)
            return f"{first:0{width}}" + (f"-{first + draw.randrange(9):0{width}}" if draw.random() < 0.7 else "")

        for _ in range(40):
            items = [draw.choice(["n", "rack-1-", "gpu"]) + "".join(
                "[" + ",".join(ranges() for _ in range(draw.randrange(1, 3))) + "]" + draw.choice(["c", "-", "s"])
                for _ in range(draw.randrange(3))) + "[" + ranges() + "]" for _ in range(draw.randrange(1, 4))]
            hosts = ",".join(items)
            self.assertEqual(run(*ENV, "--expand", hosts).output, run("scontrol", "show", "hostnames", hosts).output, hosts)

    def test_the_table_is_where_srun_put_the_ranks(self):
        for distribution in ("block", "cyclic"):
            where = ["--nodes=3", "--ntasks=4", "--nodelist=n[1-3]", f"--distribution={distribution}"]
            said = by_label(run("srun", "--label", *where, "hostname").output)
            put = {label: text.strip() for label, text in said.items()}
            runs = self.folder / distribution
            output = run("srun", *where, PROGRAMS / "shoal", "train", *TINY, "--max-steps", "2", "--checkpoint-dir",
                         runs / "ck", "--run-dir", runs / "run").output
            self.assertIn("placement: 4 ranks on 3 nodes", output)
            told_ranks = json.loads((runs / "run/placement.attempt-000001.json").read_text())["ranks"]
            self.assertEqual({str(rank["rank"]): rank["host"] for rank in told_ranks}, put, output)
            # Nodes are numbered as their first ranks come.
            hosts = list(dict.fromkeys(put[str(rank)] for rank in range(4)))
            self.assertEqual([rank["node"] for rank in told_ranks], [hosts.index(rank["host"]) for rank in told_ranks])
            for host in hosts:
                local = [rank["local_rank"] for rank in told_ranks if rank["host"] == host]
                self.assertEqual(local, list(range(len(local))))


if __name__ == "__main__":
    cluster.main()
