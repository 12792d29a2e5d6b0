#!/usr/bin/env python3
"""modules/spack/package.py against what CMake says: it is Python, asks for every package that CMake looks for, and sets
only variables that CMake knows. spack_test.py SOURCE_FOLDER"""
import ast
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv[1])
TREE = ast.parse((ROOT / "modules/spack/package.py").read_text())
CMAKE = "".join(path.read_text() for path in [ROOT / "CMakeLists.txt", *sorted(ROOT.glob("cmake/*.cmake"))])


def calls(*names):
    """The calls of these functions or methods, wherever they stand."""
    for node in ast.walk(TREE):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", None))
            if name in names:
                yield node


def base(spec):
    return re.match(r"[a-z0-9-]+", spec).group()


class SpackTest(unittest.TestCase):
    dependencies = [call.args[0].value for call in calls("depends_on")]

    def test_asks_for_what_cmake_looks_for(self):
        asked = {base(spec) for spec in self.dependencies}
        for name, spec in re.findall(r'^ *shoal_require\((\w+) (?:"[^"]*"|\S+) \S+ (\S+)', CMAKE, re.MULTILINE):
            wanted = {"openmpi": "mpi", "zlib": "zlib-api"}.get(base(spec), base(spec))  # virtual packages of Spack
            self.assertIn(wanted, asked, f"cmake/ShoalSystemPackages.cmake looks for {name}")

    def test_versions_are_those_of_cmake(self):
        cmake = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", CMAKE).group(1)
        self.assertIn(f"cmake@{cmake}:", self.dependencies)
        torch = re.search(r"^torch_version=(\d+\.\d+)", (ROOT / "scripts/setup.sh").read_text(), re.MULTILINE).group(1)
        self.assertIn(f"py-torch@{torch}:", self.dependencies)

    def test_sets_variables_that_cmake_knows(self):
        names = [call.args[0].value for call in calls("define", "define_from_variant")]
        self.assertIn("SHOAL_CUDA", names)
        for name in names:
            self.assertRegex(CMAKE, rf"(?:option|set)\({name} |\b{name}\b", name)

    def test_variants_that_are_used_exist(self):
        variants = {call.args[0].value for call in calls("variant")} | {"cuda", "cuda_arch"}  # CudaPackage's own
        for call in calls("define_from_variant"):
            self.assertIn(call.args[1].value, variants)
        for call in calls("depends_on", "conflicts"):
            for keyword in call.keywords:
                if keyword.arg == "when":
                    self.assertIn(keyword.value.value.lstrip("+~"), variants)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
