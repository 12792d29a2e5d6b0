#!/usr/bin/env python3
"""All ranks write one file at once (--output-driver mpio): four nodes, each with a mount of its own of a parallel file
system. Without an HDF5 with MPI in the build the program is left out, and the others say what is missing."""
import os
import shutil
import subprocess
import unittest

import cluster
from cluster import PROGRAMS, STATE, TINY, run

NODES = 4


def has_mpio():
    if not (PROGRAMS / "shoal-train").exists():
        return False
    tried = subprocess.run([PROGRAMS / "shoal", "train", *TINY, "--output-driver", "mpio", "--dry-run"],
                           capture_output=True, text=True, env=cluster.environment(), check=False)
    return "without MPI" not in tried.stderr + tried.stdout


class OutputDriverTest(cluster.LiveTest):
    def setUp(self):
        super().setUp()
        if shutil.which("glusterd") is None or not (STATE / "volume").exists():
            self.skipTest("the sandbox has no GlusterFS volume: packages or /dev/fuse are missing")
        self.volume = STATE / "volume" / self.folder.name

    def srun(self, *words):
        return run("srun", f"--nodes={NODES}", f"--ntasks={NODES}", "--ntasks-per-node=1", *words, cwd=self.folder,
                   timeout=300)

    def on_volume(self, *command):
        """As node 4 sees it."""
        return cluster.on_node("n4", *command)

    @unittest.skipUnless(has_mpio(), "no shoal-train in this build, or without MPI-IO; see --output-driver")
    def test_training_ends_with_a_file_by_all_nodes(self):
        self.on_volume("mkdir", self.volume)
        self.addCleanup(self.on_volume, "rm", "-rf", self.volume)
        output = self.srun(PROGRAMS / "shoal", "train", *TINY, "--max-steps", "10", "--checkpoint-dir",
                           self.volume / "ck", "--output", self.volume / "all.h5", "--output-driver", "mpio").output
        self.assertIn(f"wrote {self.volume}/all.h5", output)
        self.on_volume(PROGRAMS / "shoal", "ckpt", "export", self.volume / "ck", "--output", self.volume / "one.h5")
        self.on_volume("cmp", self.volume / "all.h5", self.volume / "one.h5")
        self.assertIn("fuse.glusterfs", self.on_volume("findmnt", "--noheadings", "--target", self.volume))
        self.assertFalse(os.listdir(STATE / "volume"), "it was written beside the volume, not on it")

    def test_cases_of_one_machine_on_four_nodes(self):
        """Uneven and empty shards, element types, damage, a full disk: collective_export_test."""
        program = PROGRAMS.parent / "tests/collective_export_test"
        if not program.exists():
            self.skipTest(f"{program} is not built")
        self.on_volume("mkdir", self.volume)
        self.addCleanup(self.on_volume, "rm", "-rf", self.volume)
        output = self.srun("env", f"SHOAL_SHARED_FOLDER={self.volume}", program).output
        self.assertIn("[  PASSED  ]", output)


if __name__ == "__main__":
    cluster.main()
