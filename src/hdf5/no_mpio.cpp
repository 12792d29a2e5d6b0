// Where Shoal is built with an HDF5 without MPI.
#include "core/error.h"
#include "hdf5/call.h"
#include "hdf5/mpio.h"

namespace shoal::hdf5 {

struct MpioFile::Open {};

bool has_mpio() noexcept { return false; }

void require_mpio(const std::string& option) {
  throw OptionError(
      "{}: this build has HDF5 {} without MPI: leave the option out, or install a parallel HDF5 (Debian: "
      "libhdf5-openmpi-dev; module or Spack: hdf5+mpi) and configure with -DSHOAL_PARALLEL_HDF5=ON",
      option, library_version());
}

void make_file_with_hints(const std::filesystem::path& path, const MpioHints&) {
  require_mpio("writing " + path.string() + " by all ranks at once");
}

MpioFile::MpioFile(const std::filesystem::path& path, MPI_Comm, const MpioHints&) {
  require_mpio("writing " + path.string() + " by all ranks at once");
}

MpioFile::~MpioFile() = default;
void MpioFile::write(const std::string& dataset, DType, std::span<const Hyperslab>, const void*) {
  require_mpio("writing " + dataset + " by all ranks at once");
}
bool MpioFile::all_collective() const { return false; }
void MpioFile::close() {}

}  // namespace shoal::hdf5
