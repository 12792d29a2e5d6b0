#!/usr/bin/env python3
"""The commands of docs/migrating.md, run as they stand there.

migrating_test.py REPOSITORY PROGRAM_FOLDER LAUNCHER…      ("mpiexec -n")

Blocks of bash are run in one folder, one after the other; those behind <!-- file: NAME --> are written there first; a
block of text is found in the output of the command before it. srun starts two ranks.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

repository, programs, *launcher = sys.argv[1:]
BLOCK = re.compile(r"(?:<!-- file: (?P<file>\S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```\n", re.DOTALL)


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


class Migrating(unittest.TestCase):
    def run_block(self, text, folder):
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{programs}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-ec", text], cwd=folder, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, f"{text}\n{done.stdout}{done.stderr}")
        self.assertIn("run time", done.stdout)
        return done.stdout + done.stderr

    def test_commands(self):
        document = (pathlib.Path(repository) / "docs/migrating.md").read_text()
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "tests").symlink_to(pathlib.Path(repository) / "tests")
            (folder / "bin").mkdir()
            start = " ".join(launcher)
            program(folder / "bin/mpirun", f'#!/bin/sh\n[ "$1" = -n ] && shift\nexec {start} "$@"\n')
            program(folder / "bin/srun", f'#!/bin/sh\nexec {start} 2 "$@"\n')
            commands, output = 0, ""
            for block in BLOCK.finditer(document):
                if block["file"]:
                    (folder / block["file"]).write_text(block["text"])
                elif block["language"] == "bash":
                    output = self.run_block(block["text"], folder)
                    commands += 1
                elif block["language"] == "text":
                    self.assertIn(block["text"].strip(), output)
            self.assertEqual(commands, 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
