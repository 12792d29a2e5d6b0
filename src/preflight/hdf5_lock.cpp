#include "preflight/hdf5_lock.h"

#include "hdf5/locking.h"

namespace shoal::preflight {

Record try_hdf5_lock(const std::filesystem::path& path) {
  Record record{.code = ExitCode::io};
  try {
    hdf5::write_file_with_lock(path);
  } catch (const hdf5::Hdf5Error& error) {
    record.verdict = Verdict::warn;
    record.found = std::string("HDF5 cannot lock its files: ") + error.what();
    record.advice = "Shoal needs no locks; for other programs set HDF5_USE_FILE_LOCKING=FALSE";
  }
  return record;
}

}  // namespace shoal::preflight
