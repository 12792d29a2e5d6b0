// An HDF5 file on the serial driver, without file locks: they fail on many parallel file systems, and Shoal's own
// protocol keeps writers apart.
#pragma once

#include <filesystem>
#include <string>

#include "hdf5/handle.h"

namespace shoal::hdf5 {

class File {
 public:
  // A new file, in a format that HDF5 1.10 and later read. Hdf5Error where `path` exists.
  static File create(const std::filesystem::path& path);
  static File open_for_reading(const std::filesystem::path& path);

  hid_t id() const { return handle_.get(); }
  const std::string& path() const { return path_; }
  bool contains(const std::string& object) const;  // an absolute path; every group on the way is looked up
  // A second name for an object of this file, as good as the first.
  void add_hard_link(const std::string& existing, const std::string& name);
  // Writes out what HDF5 still holds. Hdf5Error where that fails; the destructor would not tell.
  void close();

 private:
  File(FileHandle handle, std::string path) : handle_(std::move(handle)), path_(std::move(path)) {}

  FileHandle handle_;
  std::string path_;
};

// Link creation: groups on the way are made, names are UTF-8.
PropertyListHandle link_creation_properties();

}  // namespace shoal::hdf5
