#!/usr/bin/env python3
"""The modulefiles of an installed prefix, loaded by Lmod and by Environment Modules: what they set, and that unloading
takes it back. modules_test.py CMAKE BUILD_FOLDER VERSION MODULE_SYSTEMS_FOLDER

Debian's packages of the two exclude each other. One that is not installed is looked for in MODULE_SYSTEMS_FOLDER, where
.ci/packages unpacks it. Where one is found nowhere its part is skipped with a line; without both the exit code is 77."""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

CMAKE, BUILD, VERSION, SYSTEMS = sys.argv[1:5]
SKIPPED = 77


def first(*patterns):
    return next((path for pattern in patterns for path in sorted(glob.glob(pattern))), None)


def lmod():
    command = first("/usr/share/lmod/lmod/libexec/lmod", f"{SYSTEMS}/usr/share/lmod/lmod/libexec/lmod")
    return [command, "bash"] if command else None


def environment_modules():
    script = first("/usr/lib/*/modulecmd.tcl", f"{SYSTEMS}/usr/lib/*/modulecmd.tcl")
    return ["tclsh", script, "bash"] if script else None


class Shell:
    """A module system with its state, which is the environment."""

    def __init__(self, command, folder):
        self.command = command
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"),
                            "MODULEPATH": folder, "LMOD_PAGER": "none", "LC_ALL": "C.UTF-8"}

    def module(self, *arguments):
        """Runs `module ARGUMENTS`, keeps what it changes, and returns what it says."""
        code = subprocess.run([*self.command, *arguments], env=self.environment, capture_output=True, text=True,
                              timeout=60)
        after = subprocess.run(["bash", "-c", code.stdout + "\nenv -0"], env=self.environment, capture_output=True,
                               timeout=60)
        pairs = after.stdout.decode().split("\0")
        self.environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        return code.stdout + code.stderr

    def get(self, name):
        return self.environment.get(name, "")


class ModulesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.prefix = os.path.join(cls.scratch.name, "prefix")  # not the one that the tree was configured with
        subprocess.run([CMAKE, "--install", BUILD, "--component", "site", "--prefix", cls.prefix], check=True,
                       capture_output=True, timeout=60)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def folder(self, language):
        return os.path.join(self.prefix, "share/shoal/modulefiles", language)

    def check(self, command, language):
        if command is None:
            self.skipTest("not installed here; .ci/packages brings it")
        shell = Shell(command, self.folder(language))
        before = dict(shell.environment)
        for name in (f"shoal/{VERSION}", "shoal"):
            said = shell.module("load", name)
            self.assertEqual(shell.get("SHOAL_ROOT"), self.prefix, said)
            self.assertEqual(shell.get("SHOAL_VERSION"), VERSION)
            self.assertEqual(shell.get("PATH").split(":")[0], f"{self.prefix}/bin")
            self.assertEqual(shell.get("CMAKE_PREFIX_PATH"), self.prefix)
            self.assertTrue(os.access(f"{shell.get('SHOAL_SLURM_DIR')}/train.sbatch", os.X_OK), shell.environment)
            self.assertIn(f"shoal/{VERSION}", shell.get("LOADEDMODULES"))
            self.assertEqual(shell.get("SLURM_PMIX_FENCE"), "ring", shell.environment)
            said = shell.module("unload", "shoal")
            for variable in ("SLURM_PMIX_FENCE", "SHOAL_ROOT", "SHOAL_VERSION", "SHOAL_SLURM_DIR", "CMAKE_PREFIX_PATH"):
                self.assertNotIn(variable, shell.environment, said)
            self.assertEqual(shell.get("PATH"), before["PATH"])
        for verb in ("whatis", "help"):
            said = shell.module(verb, f"shoal/{VERSION}")
            self.assertIn(VERSION, said)
            self.assertRegex(said, r"Built with:? LibTorch \d+\.\d+.*, MPI: .*\d\.\d.*, HDF5 \d+\.\d+")

    def test_lmod_loads_the_lua_file(self):
        self.check(lmod(), "lua")

    def test_lmod_loads_the_tcl_file(self):
        self.check(lmod(), "tcl")

    def test_environment_modules_load_the_tcl_file(self):
        self.check(environment_modules(), "tcl")

    def test_two_versions_exclude_each_other(self):
        path = os.path.join(self.folder("tcl"), "shoal")
        with open(os.path.join(path, VERSION)) as one, open(os.path.join(path, "9.9.9"), "w") as other:
            other.write(one.read().replace(VERSION, "9.9.9"))
        self.addCleanup(os.remove, os.path.join(path, "9.9.9"))
        if environment_modules() is None:
            self.skipTest("not installed here; .ci/packages brings it")
        shell = Shell(environment_modules(), self.folder("tcl"))
        shell.module("load", f"shoal/{VERSION}")
        said = shell.module("load", "shoal/9.9.9")
        self.assertEqual(shell.get("SHOAL_VERSION"), VERSION, said)
        self.assertRegex(said, "(?i)conflict")

    def test_nothing_is_left_to_fill_in(self):
        for path in glob.glob(self.prefix + "/share/shoal/modulefiles/*/shoal/*"):
            with open(path) as file:
                self.assertNotIn("@", file.read(), path)


if __name__ == "__main__":
    if lmod() is None and environment_modules() is None:
        print("skipped: neither Lmod nor Environment Modules is here; .ci/packages brings both")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
