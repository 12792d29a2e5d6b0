#include "hdf5/file.h"

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

}  // namespace

File File::create(const std::filesystem::path& path) {
  const PropertyListHandle access = access_properties(path.string());
  FileHandle handle(call("H5Fcreate", path.string(), H5Fcreate, path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access.get()));
  return {std::move(handle), path.string()};
}

File File::open_for_reading(const std::filesystem::path& path) {
  const PropertyListHandle access = access_properties(path.string());
  FileHandle handle(call("H5Fopen", path.string(), H5Fopen, path.c_str(), H5F_ACC_RDONLY, access.get()));
  return {std::move(handle), path.string()};
}

bool File::contains(const std::string& object) const {
  // H5Lexists fails, rather than says no, where a group on the way is missing.
  for (std::size_t slash = object.find('/', 1);; slash = object.find('/', slash + 1)) {
    const std::string prefix = object.substr(0, slash);
    if (call("H5Lexists", path_, H5Lexists, id(), prefix.c_str(), H5P_DEFAULT) == 0) return false;
    if (slash == std::string::npos) return true;
  }
}

void File::add_hard_link(const std::string& existing, const std::string& name) {
  const PropertyListHandle links = link_creation_properties();
  call("H5Lcreate_hard", path_ + ": " + name, H5Lcreate_hard, id(), existing.c_str(), id(), name.c_str(), links.get(),
       H5P_DEFAULT);
}

void File::close() { call("H5Fclose", path_, H5Fclose, handle_.release()); }

PropertyListHandle link_creation_properties() {
  const auto lock = lock_library();
  PropertyListHandle list(call("H5Pcreate", "link properties", H5Pcreate, H5P_LINK_CREATE));
  call("H5Pset_create_intermediate_group", "link properties", H5Pset_create_intermediate_group, list.get(), 1u);
  call("H5Pset_char_encoding", "link properties", H5Pset_char_encoding, list.get(), H5T_CSET_UTF8);
  return list;
}

}  // namespace shoal::hdf5
