// An HDF5 file into which all ranks of a job write at once: collective writes over MPI-IO. In mpio.cpp where Shoal is
// built with a parallel HDF5 (CMake: SHOAL_PARALLEL_HDF5), in no_mpio.cpp otherwise.
//
// The file has been laid out before, serially (file.h): HDF5 opens it and adds nothing, so that all it ever writes here
// are elements. Closing it writes no structure that could meet a full disk, and the bytes are those of a serial writer.
//
// MPI-IO knows no time limit: a rank that does not come leaves the others inside of a call. Where one of them fails,
// the others may be told, or may not: callers agree on the outcome and stay together in the calls until then.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shard/dtype.h"

namespace shoal::hdf5 {

bool has_mpio() noexcept;
// OptionError where there is none: `option` needs it, and how to get it.
void require_mpio(const std::string& option);

// Key and value of MPI_Info. What a library does not know it ignores.
using MpioHints = std::vector<std::pair<std::string, std::string>>;
// Of a file of that size, for Lustre: many stripes, since one writer a stripe is best.
MpioHints stripe_hints(std::int64_t file_bytes);

// For one rank. Makes `path`, empty, with the hints that hold for a file as long as it lives. IoError where it exists
// or cannot be made. Not collective: where the others do not see the file at once, MPI-IO would leave the ranks waiting
// for each other.
void make_file_with_hints(const std::filesystem::path& path, const MpioHints& hints);

// A part of a dataset with as many dimensions; none for a scalar.
struct Hyperslab {
  std::vector<std::int64_t> start, count;
};

class MpioFile {
 public:
  // Collective over `comm`. An existing file, which must have been synced or closed by whoever laid it out.
  MpioFile(const std::filesystem::path& path, MPI_Comm comm, const MpioHints& hints);
  ~MpioFile();  // collective
  MpioFile(const MpioFile&) = delete;
  MpioFile& operator=(const MpioFile&) = delete;

  // Collective, for a dataset with elements. This rank's part: `slabs` that do not overlap, in the order of the file,
  // whose elements lie one after the other at `data`; no slabs: nothing, but the rank is there. Hdf5Error on the ranks
  // that have seen a failure, all of which may go on with other calls.
  void write(const std::string& dataset, DType dtype, std::span<const Hyperslab> slabs, const void* data);
  // Whether MPI-IO has done all of them collectively, and not HDF5 rank by rank.
  bool all_collective() const;
  // Collective. Tells of a failure, which the destructor would not.
  void close();

 private:
  struct Open;
  std::unique_ptr<Open> open_;
};

}  // namespace shoal::hdf5
