// An HDF5 file on the serial driver, without file locks: they fail on many parallel file systems, and Shoal's own
// protocol keeps writers apart.
//
// New files are laid out in memory and written by the caller. HDF5 does not survive a failing write: after a full disk
// it may end the whole process when that exits (seen with 1.10.8). So it never writes to a disk; data that are to
// follow it past HDF5 (dataset.h) take no memory, since the file in memory has holes where they will be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "hdf5/handle.h"

namespace shoal::hdf5 {

struct MemoryFileTraits {
  using Handle = int;  // a descriptor
  static int invalid() noexcept { return -1; }
  static void close(int descriptor) noexcept;
};

class File {
 public:
  // Gets what is not a hole of a new file, piece by piece in ascending order: offset and bytes in the file.
  using Write = std::function<void(std::int64_t offset, const void* data, std::size_t bytes)>;

  // A new file, in a format that HDF5 1.10 and later read. `name` is for messages.
  static File create_in_memory(const std::string& name);
  static File open_for_reading(const std::filesystem::path& path);

  hid_t id() const { return handle_.get(); }
  const std::string& path() const { return path_; }
  // Makes the groups on the way to `name`, an absolute path, where they are missing.
  void make_groups_above(const std::string& name);
  // A second name for an object of this file, as good as the first.
  void add_hard_link(const std::string& existing, const std::string& name);
  // Ends a file made in memory, once, and hands it out. Returns its size in bytes: what comes after the last piece is
  // a hole too. Throws what `write` throws.
  std::int64_t close_into(const Write& write);

 private:
  File(FileHandle handle, std::string path) : handle_(std::move(handle)), path_(std::move(path)) {}

  UniqueHandle<MemoryFileTraits> memory_;
  FileHandle handle_;
  std::string path_;
};

PropertyListHandle link_creation_properties();  // names are UTF-8

}  // namespace shoal::hdf5
