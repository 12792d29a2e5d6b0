"""Exports of large tensors: several processes write one output together, as under srun, and exports that are killed at any
time go on, by as many processes or by another number; the output is the same.

export_processes_test.py SHOAL_CKPT MAKE_CHECKPOINT
"""
import glob
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SHOAL_CKPT = MAKE = None
MEGABYTES = 400


class ExportProcesses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="shoal_export_", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        subprocess.run([MAKE, cls.folder + "/ckpt", "1", "3", "0", str(MEGABYTES)], check=True, stdout=subprocess.DEVNULL)
        cls.whole = cls.folder + "/whole.pt"
        subprocess.run([SHOAL_CKPT, "export", cls.folder + "/ckpt", "--output", cls.whole], check=True,
                       stdout=subprocess.DEVNULL)

    def setUp(self):
        self.start = 0
        self.addCleanup(lambda: [os.remove(path) for path in glob.glob(self.folder + "/out.pt*")])

    def processes(self, count):
        """As srun -n COUNT starts them."""
        self.start += 1
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        for index in range(count):
            step = {"SLURM_JOB_ID": "12", "SLURM_STEP_ID": str(self.start), "SLURM_STEP_NUM_TASKS": str(count),
                    "SLURM_PROCID": str(index)} if count > 1 else {}
            yield subprocess.Popen([SHOAL_CKPT, "export", self.folder + "/ckpt", "--output", self.folder + "/out.pt",
                                    "--workers", "1"], env=clean | step, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)

    def finish(self, count):
        done = [(process.communicate(timeout=60), process.returncode) for process in list(self.processes(count))]
        for (_, complaint), code in done:
            self.assertEqual(code, 0, complaint)
        self.assertEqual(sum("out.pt: 2 tensors" in out for (out, _), _ in done), 1)  # one of them says it
        subprocess.run(["cmp", self.whole, self.folder + "/out.pt"], check=True)
        self.assertEqual(glob.glob(self.folder + "/out.pt*"), [self.folder + "/out.pt"])
        os.remove(self.folder + "/out.pt")
        return "had been copied before" in "".join(complaint for (_, complaint), _ in done)

    def test_several_processes(self):
        for count in (2, 5):
            self.finish(count)

    def test_killed_ones_go_on(self):
        choose = random.Random(2)
        went_on = 0
        for trial in range(5):
            running = list(self.processes(choose.choice((1, 3))))
            time.sleep(choose.uniform(0.05, 0.6))
            for process in running:
                process.kill()
                process.communicate()
            if os.path.exists(self.folder + "/out.pt"):
                os.remove(self.folder + "/out.pt")
            went_on += self.finish(choose.choice((1, 2)))
        print(f"{went_on} of 5 found something finished", file=sys.stderr)

    def test_one_that_fails_is_told_of(self):
        """Its shard is damaged: the checksum of a region that several have read is compared by process 0."""
        shard = sorted(glob.glob(self.folder + "/ckpt/*/shards/*"))[1]
        with open(shard, "r+b", buffering=0) as file:
            file.seek(os.path.getsize(shard) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
            running = list(self.processes(3))
            complaints = [process.communicate(timeout=60)[1] for process in running]
            file.seek(-1, os.SEEK_CUR)
            file.write(byte)
        self.assertNotEqual(running[0].returncode, 0)
        self.assertIn(os.path.basename(shard), complaints[0])
        self.assertFalse(os.path.exists(self.folder + "/out.pt"))


if __name__ == "__main__":
    SHOAL_CKPT, MAKE = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
