#include "hdf5/locking.h"

#include "hdf5/handle.h"

namespace shoal::hdf5 {

void write_file_with_lock(const std::filesystem::path& path) {
  const auto lock = lock_library();
  const std::string name = path.string();
  const PropertyListHandle access(call("H5Pcreate", name, H5Pcreate, H5P_FILE_ACCESS));
#if H5_VERSION_GE(1, 10, 7)
  call("H5Pset_file_locking", name, H5Pset_file_locking, access.get(), hbool_t{1}, hbool_t{0});
#endif
  {
    const FileHandle made(
        call("H5Fcreate", name, H5Fcreate, path.c_str(), H5F_ACC_TRUNC, hid_t{H5P_DEFAULT}, access.get()));
  }
  const FileHandle read(call("H5Fopen", name, H5Fopen, path.c_str(), H5F_ACC_RDONLY, access.get()));
}

}  // namespace shoal::hdf5
