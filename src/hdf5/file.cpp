#include "hdf5/file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "core/file_io.h"

namespace shoal::hdf5 {
namespace {

// Datasets of this size or more start on a page, so that readers may map them and writers may bypass the cache.
constexpr hsize_t kAlignedBytes = 64 << 10;
constexpr hsize_t kAlignment = 4 << 10;

PropertyListHandle access_properties(const std::string& path) {
  const auto lock = lock_library();
  PropertyListHandle list(call("H5Pcreate", path, H5Pcreate, H5P_FILE_ACCESS));
  call("H5Pset_libver_bounds", path, H5Pset_libver_bounds, list.get(), H5F_LIBVER_V18, H5F_LIBVER_V110);
  call("H5Pset_alignment", path, H5Pset_alignment, list.get(), kAlignedBytes, kAlignment);
  call("H5Pset_fclose_degree", path, H5Pset_fclose_degree, list.get(), H5F_CLOSE_STRONG);
#if H5_VERSION_GE(1, 10, 7)
  call("H5Pset_file_locking", path, H5Pset_file_locking, list.get(), hbool_t{0}, hbool_t{1});
#endif
  return list;
}

// HDF5 does not always tell why it could not open a file.
template <typename Open>
FileHandle open_within_limits(const std::string& path, const Open& open) {
  try {
    return FileHandle(open());
  } catch (const Hdf5Error&) {
    check_descriptors_left(path);
    throw;
  }
}

// No times in the file: the same contents give the same bytes. `kind`: H5P_FILE_CREATE or H5P_GROUP_CREATE.
PropertyListHandle creation_properties(const std::string& subject, hid_t kind) {
  PropertyListHandle list(call("H5Pcreate", subject, H5Pcreate, kind));
  call("H5Pset_obj_track_times", subject, H5Pset_obj_track_times, list.get(), hbool_t{0});
  return list;
}

}  // namespace

void MemoryFileTraits::close(int descriptor) noexcept { ::close(descriptor); }

File File::create_in_memory(const std::string& name) {
  UniqueHandle<MemoryFileTraits> memory(::memfd_create("shoal-hdf5", MFD_CLOEXEC));
  if (!memory) throw_io_error("make a file in memory for", name, errno);
  const std::string location = fmt::format("/proc/self/fd/{}", memory.get());
  const PropertyListHandle access = access_properties(name);
  // The default driver asks for the real path of the name, which a file in memory has not; this one does not.
  call("H5Pset_fapl_stdio", name, H5Pset_fapl_stdio, access.get());
  const auto lock = lock_library();
  const PropertyListHandle creation = creation_properties(name, H5P_FILE_CREATE);
  File file(open_within_limits(name,
                               [&] {
                                 return call("H5Fcreate", name, H5Fcreate, location.c_str(), H5F_ACC_TRUNC,
                                             creation.get(), access.get());
                               }),
            name);
  file.memory_ = std::move(memory);
  return file;
}

File File::open_for_reading(const std::filesystem::path& path) {
  const auto lock = lock_library();  // H5F_ACC_RDONLY is a call into the library as well
  const PropertyListHandle access = access_properties(path.string());
  FileHandle handle = open_within_limits(path.string(), [&] {
    return call("H5Fopen", path.string(), H5Fopen, path.c_str(), H5F_ACC_RDONLY, access.get());
  });
  return {std::move(handle), path.string()};
}

void File::make_groups_above(const std::string& name) {
  const auto lock = lock_library();
  for (std::size_t slash = name.find('/', 1); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    const std::string group = name.substr(0, slash);
    if (call("H5Lexists", path_, H5Lexists, id(), group.c_str(), H5P_DEFAULT) > 0) continue;
    const PropertyListHandle creation = creation_properties(path_, H5P_GROUP_CREATE);
    GroupHandle(call("H5Gcreate2", path_ + ": " + group, H5Gcreate2, id(), group.c_str(),
                     link_creation_properties().get(), creation.get(), H5P_DEFAULT));
  }
}

void File::add_hard_link(const std::string& existing, const std::string& name) {
  make_groups_above(name);
  const PropertyListHandle links = link_creation_properties();
  call("H5Lcreate_hard", path_ + ": " + name, H5Lcreate_hard, id(), existing.c_str(), id(), name.c_str(), links.get(),
       H5P_DEFAULT);
}

std::int64_t File::close_into(const Write& write) {
  call("H5Fclose", path_, H5Fclose, handle_.release());
  const off_t size = ::lseek(memory_.get(), 0, SEEK_END);
  std::vector<char> buffer(64 << 10);
  off_t begin = 0;
  while (begin < size && (begin = ::lseek(memory_.get(), begin, SEEK_DATA)) >= 0) {
    const off_t end = ::lseek(memory_.get(), begin, SEEK_HOLE);
    while (begin < end) {
      const auto wanted = std::min(buffer.size(), static_cast<std::size_t>(end - begin));
      const ssize_t got = ::pread(memory_.get(), buffer.data(), wanted, begin);
      if (got <= 0)
        throw Hdf5Error("{}: cannot read the file in memory: {}", path_, std::generic_category().message(errno));
      write(begin, buffer.data(), static_cast<std::size_t>(got));
      begin += got;
    }
  }
  memory_.reset();
  return size;
}

PropertyListHandle link_creation_properties() {
  const auto lock = lock_library();
  PropertyListHandle list(call("H5Pcreate", "link properties", H5Pcreate, H5P_LINK_CREATE));
  call("H5Pset_char_encoding", "link properties", H5Pset_char_encoding, list.get(), H5T_CSET_UTF8);
  return list;
}

}  // namespace shoal::hdf5
