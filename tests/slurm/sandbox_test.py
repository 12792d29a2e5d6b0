#!/usr/bin/env python3
"""The sandbox as a tool: what its commands do and refuse, that two do not meet, and that nothing is stopped which it
did not start."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import cluster
from cluster import SANDBOX, STATE, node, on_node, run


def tool(name, *arguments, folder=STATE):
    """A command of slurm/sandbox on the sandbox in `folder`."""
    return subprocess.run([SANDBOX / name, *arguments], capture_output=True, text=True, timeout=150,
                          env={**os.environ, "SHOAL_SANDBOX_DIR": str(folder)})


def running(folder=STATE):
    """The processes that it has started, with the time of their start."""
    return sorted((folder / "processes").read_text().split("\n"))


class SandboxTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="shoal-sandbox-")
        self.addCleanup(scratch.cleanup)
        self.other = pathlib.Path(scratch.name, "other")
        self.addCleanup(lambda: tool("down", "--purge", folder=self.other))

    def check_first_is_well(self):
        status = tool("status")
        self.assertEqual(status.returncode, 0, status.stdout + status.stderr)

    def test_two_do_not_meet_and_down_stops_what_up_started(self):
        before = running()
        up = tool("up", "--nodes", "2", folder=self.other)
        self.assertEqual(up.returncode, 0, up.stdout + up.stderr)
        names = tool("shell", "host", "srun", "--nodes=2", "hostname", folder=self.other).stdout.split()
        self.assertEqual(sorted(names), ["n1", "n2"])
        # A process whose pid once was the sandbox's: another start time.
        stranger = subprocess.Popen(["sleep", "300"])
        self.addCleanup(stranger.wait)
        self.addCleanup(stranger.kill)
        with open(self.other / "processes", "a") as file:
            file.write(f"{stranger.pid} 1 slurmctld\n")
        down = tool("down", "--purge", folder=self.other)
        self.assertEqual(down.returncode, 0, down.stdout + down.stderr)
        self.assertIsNone(stranger.poll(), "down has killed what it did not start")
        self.assertFalse(self.other.exists())
        self.assertEqual(running(), before)
        self.check_first_is_well()

    def test_a_start_that_fails_leaves_nothing(self):
        up = tool("up", "--nodes", "1", "--conf", "SelectType=select/nonsense", folder=self.other)
        self.assertEqual(up.returncode, 1, up.stdout)
        self.assertIn("slurmctld has ended", up.stderr)
        self.assertIn("select/nonsense", up.stderr)
        self.assertFalse((self.other / "settings").exists())
        listing = run("ps", "-eo", "args").output
        self.assertNotIn(str(self.other), listing)
        self.check_first_is_well()

    def test_mistakes_are_refused_and_named(self):
        for words, *arguments in (("--nodes wants", "up", "--nodes", "0"), ("unknown option", "up", "--fast"),
                                  ("KEY=VALUE", "up", "--conf", "nothing"), ("no node 'n9'", "shell", "n9", "true"),
                                  ("no node 'n9'", "node", "kill", "n9"), ("unknown option", "down", "all")):
            result = tool(*arguments)
            self.assertEqual(result.returncode, 2, f"{arguments}: {result.stderr}")
            self.assertIn(words, result.stderr)
        again = tool("up")
        self.assertEqual(again.returncode, 1)
        self.assertIn("there is already a sandbox", again.stderr)
        self.assertEqual(tool("status", folder=self.other).returncode, 3)
        self.check_first_is_well()

    def test_faults_on_demand(self):
        address = run("scontrol", "show", "node", "n2").output.split("NodeAddr=")[1].split()[0]
        knock = ["timeout", "2", "bash", "-c", f"</dev/tcp/{address}/17001"]
        on_node("n1", *knock)
        node("cut", "n2")
        self.assertEqual(tool("status").returncode, 1)
        with self.assertRaises(AssertionError):
            on_node("n1", *knock)
        node("join", "n2")
        cluster.wait_until(lambda: subprocess.run([SANDBOX / "shell", "n1", *knock]).returncode == 0, "n2 answers")
        node("kill", "n2")
        status = tool("status")
        self.assertEqual(status.returncode, 1)
        self.assertIn("slurmd of n2 does not run", status.stdout)
        node("start", "n2")
        node("crash", "n3")
        self.assertIn("node-n3 does not run", tool("status").stdout)
        node("start", "n3")
        self.check_first_is_well()
        self.assertEqual(run("srun", "--nodes=4", "true").returncode, 0)

    def test_nodes_have_their_own_names_memory_and_processes(self):
        self.assertEqual(on_node("n2", "hostname").strip(), "n2")
        on_node("n2", "touch", "/dev/shm/of-n2")
        self.assertNotIn("of-n2", on_node("n3", "ls", "/dev/shm"))
        on_node("n2", "rm", "/dev/shm/of-n2")
        self.assertIn("slurmd -N n2", on_node("n2", "ps", "ax"))
        self.assertNotIn("slurmd -N n1", on_node("n2", "ps", "ax"))
        self.assertIn(str(STATE), run(SANDBOX / "shell", "host", "printenv", "SLURM_CONF").output)


if __name__ == "__main__":
    cluster.main()
