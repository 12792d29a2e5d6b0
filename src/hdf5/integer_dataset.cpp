#include "hdf5/integer_dataset.h"

#include "core/check.h"

namespace shoal::hdf5 {
namespace {

constexpr std::size_t kChunkCacheBytes = 64 << 20;  // decompressed chunks that stay in memory; HDF5's own is 1 MiB
constexpr std::size_t kChunkCacheSlots = 12421;     // a prime, some hundred times the chunks that may be there

int dimensions_of(const std::string& subject, hid_t dataset) {
  const DataspaceHandle space(call("H5Dget_space", subject, H5Dget_space, dataset));
  return call("H5Sget_simple_extent_ndims", subject, H5Sget_simple_extent_ndims, space.get());
}

bool is_integer_row(const std::string& subject, hid_t dataset) {
  const DatatypeHandle type(call("H5Dget_type", subject, H5Dget_type, dataset));
  return call("H5Tget_class", subject, H5Tget_class, type.get()) == H5T_INTEGER && dimensions_of(subject, dataset) == 1;
}

std::string link_name(const std::string& subject, hid_t group, hsize_t index) {
  const auto length = [&](char* into, std::size_t bytes) {
    return call("H5Lget_name_by_idx", subject, H5Lget_name_by_idx, group, ".", H5_INDEX_NAME, H5_ITER_INC, index, into,
                bytes, H5P_DEFAULT);
  };
  std::string name(static_cast<std::size_t>(length(nullptr, 0)), '\0');
  length(name.data(), name.size() + 1);
  return name;
}

// Only what lies in the file itself, reached by hard links, so that no file is visited without end.
bool is_hard_link(const std::string& subject, hid_t group, const std::string& name) {
  H5L_info_t info;
  call("H5Lget_info", subject, H5Lget_info, group, name.c_str(), &info, H5P_DEFAULT);
  return info.type == H5L_TYPE_HARD;
}

void collect(const std::string& file, hid_t group, const std::string& path, int depth,
             std::vector<std::string>& names) {
  constexpr int kDeepest = 32;  // hard links can make groups contain themselves
  SHOAL_CHECK(depth <= kDeepest, Hdf5Error, "{}: groups deeper than {}", file, kDeepest);
  H5G_info_t info;
  call("H5Gget_info", file, H5Gget_info, group, &info);
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    const std::string name = link_name(file, group, i);
    if (!is_hard_link(file, group, name)) continue;
    const std::string whole = path + "/" + name, subject = file + ": " + whole;
    const hid_t id = call("H5Oopen", subject, H5Oopen, group, name.c_str(), H5P_DEFAULT);
    const auto lock = lock_library();
    if (H5Iget_type(id) == H5I_GROUP) {
      const GroupHandle inner(id);
      collect(file, inner.get(), whole, depth + 1, names);
    } else if (H5Iget_type(id) == H5I_DATASET) {
      const DatasetHandle dataset(id);
      if (is_integer_row(subject, dataset.get())) names.push_back(whole);
    } else {
      const DatatypeHandle other(id);
    }
  }
}

DatasetHandle open_dataset(const File& file, const std::string& subject, const std::string& name) {
  const PropertyListHandle access(call("H5Pcreate", subject, H5Pcreate, H5P_DATASET_ACCESS));
  call("H5Pset_chunk_cache", subject, H5Pset_chunk_cache, access.get(), kChunkCacheSlots, kChunkCacheBytes, 0.75);
  return DatasetHandle(call("H5Dopen2", subject, H5Dopen2, file.id(), name.c_str(), access.get()));
}

}  // namespace

std::vector<std::string> integer_datasets(const std::filesystem::path& path) {
  const File file = File::open_for_reading(path);
  const GroupHandle root(call("H5Gopen2", file.path(), H5Gopen2, file.id(), "/", H5P_DEFAULT));
  std::vector<std::string> names;
  collect(file.path(), root.get(), "", 0, names);
  return names;
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
