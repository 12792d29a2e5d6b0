# Shoal as a package of Spack. Put this file into packages/shoal/ of a repository of your own (spack repo create,
# spack repo add), and build the clone that you have:
#   spack develop --path CLONE shoal@main        in an environment of Spack
#   spack add shoal@main+cuda cuda_arch=90 && spack install
from spack.package import *


class Shoal(CMakePackage, CudaPackage):
    """FSDP training in C++ on LibTorch for Slurm clusters."""

    license("Apache-2.0")

    version("main")

    variant("tests", default=False, description="Build the tests")
    variant("benchmarks", default=False, description="Build the benchmarks")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")

    depends_on("mpi")
    depends_on("hdf5~mpi")
    depends_on("boost+program_options")
    depends_on("fmt")
    depends_on("spdlog")
    depends_on("nlohmann-json@3.10:")
    depends_on("yaml-cpp")
    depends_on("zlib-api")
    depends_on("isa-l")
    depends_on("hwloc")
    depends_on("googletest", when="+tests")
    # Its LibTorch is found by the CMAKE_PREFIX_PATH that Spack sets.
    depends_on("py-torch@2.11:", type=("build", "link", "run"))
    depends_on("py-torch+cuda", when="+cuda")
    depends_on("nccl", when="+cuda")

    conflicts("cuda_arch=none", when="+cuda", msg="name the GPUs: cuda_arch=90")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define("SHOAL_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define_from_variant("SHOAL_TESTS", "tests"),
            self.define_from_variant("SHOAL_BENCHMARKS", "benchmarks"),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args
