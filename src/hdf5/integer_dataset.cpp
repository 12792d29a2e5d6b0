#include "hdf5/integer_dataset.h"

#include "core/check.h"
#include "hdf5/any_dataset.h"

namespace shoal::hdf5 {
namespace {

constexpr std::size_t kChunkCacheBytes = 64 << 20;  // decompressed chunks that stay in memory; HDF5's own is 1 MiB
constexpr std::size_t kChunkCacheSlots = 12421;     // a prime, some hundred times the chunks that may be there

bool is_integer_row(const std::string& subject, hid_t dataset) {
  const DatatypeHandle type(call("H5Dget_type", subject, H5Dget_type, dataset));
  const DataspaceHandle space(call("H5Dget_space", subject, H5Dget_space, dataset));
  return call("H5Tget_class", subject, H5Tget_class, type.get()) == H5T_INTEGER &&
         call("H5Sget_simple_extent_ndims", subject, H5Sget_simple_extent_ndims, space.get()) == 1;
}

DatasetHandle open_dataset(const File& file, const std::string& subject, const std::string& name) {
  const auto lock = lock_library();
  const PropertyListHandle access(call("H5Pcreate", subject, H5Pcreate, H5P_DATASET_ACCESS));
  call("H5Pset_chunk_cache", subject, H5Pset_chunk_cache, access.get(), kChunkCacheSlots, kChunkCacheBytes, 0.75);
  return DatasetHandle(call("H5Dopen2", subject, H5Dopen2, file.id(), name.c_str(), access.get()));
}

}  // namespace

std::vector<std::string> integer_datasets(const std::filesystem::path& path) {
  const File file = File::open_for_reading(path);
  std::vector<std::string> names;
  for (const AnyDataset& dataset : find_datasets(file)) {
    if (dataset.placement.shape.size() != 1) continue;  // none is known where the elements are in other files
    const std::string subject = file.path() + ": " + dataset.path;
    const DatasetHandle handle(call("H5Dopen2", subject, H5Dopen2, file.id(), dataset.path.c_str(), H5P_DEFAULT));
    if (is_integer_row(subject, handle.get())) names.push_back(dataset.path);
  }
  return names;
}

Placement create_integers(File& file, const std::string& name, std::int64_t element_bytes, std::int64_t count) {
  const auto lock = lock_library();
  const DatatypeHandle type(call("H5Tcopy", name, H5Tcopy, H5T_STD_U64LE));
  call("H5Tset_size", name, H5Tset_size, type.get(), static_cast<std::size_t>(element_bytes));
  return create_contiguous(file, name, type.get(), {count});
}

IntegerDataset::IntegerDataset(const std::filesystem::path& path, const std::string& name)
    : file_(File::open_for_reading(path)),
      subject_(file_.path() + ": " + name),
      handle_(open_dataset(file_, subject_, name)) {
  SHOAL_CHECK(is_integer_row(subject_, handle_.get()), Hdf5Error, "{} is no row of integers", subject_);
  const DataspaceHandle space(call("H5Dget_space", subject_, H5Dget_space, handle_.get()));
  const DatatypeHandle type(call("H5Dget_type", subject_, H5Dget_type, handle_.get()));
  const auto lock = lock_library();
  size_ = H5Sget_simple_extent_npoints(space.get());
  element_bytes_ = static_cast<std::int64_t>(H5Tget_size(type.get()));
  is_signed_ = H5Tget_sign(type.get()) != H5T_SGN_NONE;
  is_little_endian_ = H5Tget_order(type.get()) == H5T_ORDER_LE;
  const haddr_t offset = H5Dget_offset(handle_.get());
  H5Eclear2(H5E_DEFAULT);  // chunked or compact data: HDF5 counts the question as an error
  if (offset != HADDR_UNDEF) file_offset_ = static_cast<std::int64_t>(offset);
}

void IntegerDataset::read(std::int64_t begin, std::span<std::int64_t> into) const {
  if (into.empty()) return;
  const hsize_t start = static_cast<hsize_t>(begin), count = into.size();
  const DataspaceHandle space(call("H5Dget_space", subject_, H5Dget_space, handle_.get()));
  call("H5Sselect_hyperslab", subject_, H5Sselect_hyperslab, space.get(), H5S_SELECT_SET, &start,
       static_cast<const hsize_t*>(nullptr), &count, static_cast<const hsize_t*>(nullptr));
  const DataspaceHandle memory(
      call("H5Screate_simple", subject_, H5Screate_simple, 1, &count, static_cast<const hsize_t*>(nullptr)));
  const auto lock = lock_library();
  call("H5Dread", subject_, H5Dread, handle_.get(), H5T_NATIVE_INT64, memory.get(), space.get(), H5P_DEFAULT,
       static_cast<void*>(into.data()));
}

}  // namespace shoal::hdf5
