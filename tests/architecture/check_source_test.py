#!/usr/bin/env python3
"""The checker finds each kind of offence where it was planted, and none in a tree that is in order."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_source  # noqa: E402


class CheckSource(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("src/core/error.h", "#pragma once\n#include <fmt/core.h>\n")
        self.write("src/shard/dtype.h", '#pragma once\n#include "core/error.h"\n')
        self.write("src/fsdp/unit.h", '#pragma once\n#include <ATen/core/Tensor.h>\n\n#include "shard/dtype.h"\n')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def offences(self):
        return list(check_source.offences(self.root))

    def assert_one(self, place, reason):
        found = self.offences()
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(place + ": "), found[0])
        self.assertIn(reason, found[0])

    def test_order_is_accepted(self):
        self.assertEqual(self.offences(), [])

    def test_upward_include(self):
        self.write("src/core/error.cpp", '#include "core/error.h"\n\n#include "shard/dtype.h"\n')
        self.assert_one("src/core/error.cpp:3", "layer core must not include shard")

    def test_siblings(self):
        self.write("src/checkpoint/writer.cpp", '#include "fsdp/unit.h"\n')
        self.assert_one("src/checkpoint/writer.cpp:1", "layer checkpoint must not include fsdp")

    def test_neighbours_that_may_meet(self):
        self.write("src/hdf5/file.cpp", '#include "shard/dtype.h"\n')
        self.assertEqual(self.offences(), [])
        self.write("src/hdf5/file.cpp", '#include "launch/mpi_session.h"\n')
        self.assert_one("src/hdf5/file.cpp:1", "layer hdf5 must not include launch")

    def test_relative_include(self):
        self.write("src/shard/dtype.cpp", '#include "dtype.h"\n')
        self.assert_one("src/shard/dtype.cpp:1", "does not start with a layer")

    def test_libraries_at_home(self):
        self.write("src/checkpoint/writer.cpp", "#include <torch/torch.h>\n")
        self.assert_one("src/checkpoint/writer.cpp:1", "must not use LibTorch")
        self.write("src/checkpoint/writer.cpp", "#include <hdf5.h>\n")
        self.assert_one("src/checkpoint/writer.cpp:1", "must not use HDF5")
        self.write("src/checkpoint/writer.cpp", "#include <mpi.h>\n")
        self.assert_one("src/checkpoint/writer.cpp:1", "must not use MPI")

    def test_internals(self):
        self.write("src/fsdp/torch_internals.cpp", "void f(c10::StorageImpl*);\n")
        self.write("src/fsdp/flat.cpp", '// A StorageImpl is named here only.\nauto text = "DispatchKey";\n')
        self.assertEqual(self.offences(), [])
        self.write("src/fsdp/flat.cpp", "int a;\nvoid f(c10::DispatchKey key);\n")
        self.assert_one("src/fsdp/flat.cpp:2", "DispatchKey belongs in")

    def test_sizes(self):
        self.write("src/core/long.h", "#pragma once\n" + "int f();\n" * 149)
        self.assertEqual(self.offences(), [])
        self.write("src/core/long.h", "#pragma once\n" + "int f();\n" * 150)
        self.assert_one("src/core/long.h:151", "151 lines, where 150")

    def test_long_function(self):
        body = "  work();\n"
        self.write("src/core/a.cpp", "namespace shoal {\n\nvoid f(int a,\n       int b) {\n" + 39 * body + "}\n\n}\n")
        self.assertEqual(self.offences(), [])
        self.write("src/core/a.cpp", "namespace shoal {\n\nvoid f() {\n" + 41 * body + "}\n\n}\n")
        self.assert_one("src/core/a.cpp:3", "a function of 41 lines")

    def test_classes_are_no_functions(self):
        self.write("src/core/a.cpp", "class A {\n" + 60 * "  int f();\n" + "};\n")
        self.assertEqual(self.offences(), [])

    def test_unknown_layer(self):
        self.write("src/utils/misc.cpp", "int a;\n")
        self.assert_one("src/utils/misc.cpp:1", "'utils' is no layer")

    def test_links(self):
        self.write("docs/a.md", "see [b](b.md#part), [the web](https://example.org) and [here](#top)\n")
        self.write("docs/b.md", "see [a](a.md) and [the source](../src/core)\n")
        self.assertEqual(self.offences(), [])
        self.write("docs/c.md", "\nsee [d](d.md)\n")
        self.assert_one("docs/c.md:2", "a link to 'd.md'")

    def test_layers_are_told(self):
        self.write("README.md", "[core](src/core), [shard](src/shard) and [fsdp](src/fsdp)\n")
        self.write("docs/architecture.md", "`core`, `shard` and `fsdp`\n")
        self.assertEqual(self.offences(), [])
        self.write("README.md", "[core](src/core) and [shard](src/shard)\n")
        self.assert_one("README.md:1", "nothing is said of src/fsdp")
        self.write("README.md", "[core](src/core), [shard](src/shard) and [fsdp](src/fsdp)\n")
        self.write("docs/architecture.md", "`core`, fsdp and `shard`\n")
        self.assert_one("docs/architecture.md:1", "nothing is said of src/fsdp")

    def test_plain_headers(self):
        self.write("src/fsdp/policy.h", '#pragma once\n#include "fsdp/unit.h"\n')
        self.assertEqual(check_source.plain_headers(self.root), ["core/error.h", "shard/dtype.h"])


if __name__ == "__main__":
    unittest.main()
