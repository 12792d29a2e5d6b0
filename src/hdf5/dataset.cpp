#include "hdf5/dataset.h"

#include "hdf5/datatype.h"

namespace shoal::hdf5 {
namespace {

DataspaceHandle make_dataspace(const std::string& subject, const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return DataspaceHandle(call("H5Screate", subject, H5Screate, H5S_SCALAR));
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  return DataspaceHandle(call("H5Screate_simple", subject, H5Screate_simple, static_cast<int>(extents.size()),
                              extents.data(), static_cast<const hsize_t*>(nullptr)));
}

PropertyListHandle creation_properties(const std::string& subject) {
  const auto lock = lock_library();
  PropertyListHandle list(call("H5Pcreate", subject, H5Pcreate, H5P_DATASET_CREATE));
  call("H5Pset_layout", subject, H5Pset_layout, list.get(), H5D_CONTIGUOUS);
  call("H5Pset_alloc_time", subject, H5Pset_alloc_time, list.get(), H5D_ALLOC_TIME_EARLY);
  call("H5Pset_fill_time", subject, H5Pset_fill_time, list.get(), H5D_FILL_TIME_NEVER);
  call("H5Pset_obj_track_times", subject, H5Pset_obj_track_times, list.get(), hbool_t{0});
  return list;
}

std::int64_t file_offset(hid_t dataset) {
  const auto lock = lock_library();
  const haddr_t offset = H5Dget_offset(dataset);
  H5Eclear2(H5E_DEFAULT);  // chunked or compact data: HDF5 counts the question as an error
  return offset == HADDR_UNDEF ? -1 : static_cast<std::int64_t>(offset);
}

std::vector<std::int64_t> shape_of(const std::string& subject, hid_t dataset) {
  const DataspaceHandle space(call("H5Dget_space", subject, H5Dget_space, dataset));
  const int rank = call("H5Sget_simple_extent_ndims", subject, H5Sget_simple_extent_ndims, space.get());
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  call("H5Sget_simple_extent_dims", subject, H5Sget_simple_extent_dims, space.get(), extents.data(),
       static_cast<hsize_t*>(nullptr));
  return {extents.begin(), extents.end()};
}

Placement placement_of(const std::string& subject, hid_t dataset) {
  const DatatypeHandle type(call("H5Dget_type", subject, H5Dget_type, dataset));
  Placement placement;
  placement.shape = shape_of(subject, dataset);
  {
    const auto lock = lock_library();
    placement.element_bytes = static_cast<std::int64_t>(H5Tget_size(type.get()));
  }
  placement.dtype = dtype_of(type.get());
  placement.file_offset = file_offset(dataset);
  return placement;
}

}  // namespace

std::int64_t Placement::numel() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

Placement create_contiguous(File& file, const std::string& name, hid_t type, const std::vector<std::int64_t>& shape) {
  const std::string subject = file.path() + ": " + name;
  file.make_groups_above(name);
  const PropertyListHandle links = link_creation_properties();
  const PropertyListHandle creation = creation_properties(subject);
  const DataspaceHandle space = make_dataspace(subject, shape);
  const DatasetHandle dataset(call("H5Dcreate2", subject, H5Dcreate2, file.id(), name.c_str(), type, space.get(),
                                   links.get(), creation.get(), H5P_DEFAULT));
  return placement_of(subject, dataset.get());
}

Placement find_dataset(const File& file, const std::string& name) {
  const std::string subject = file.path() + ": " + name;
  const DatasetHandle dataset(call("H5Dopen2", subject, H5Dopen2, file.id(), name.c_str(), H5P_DEFAULT));
  return placement_of(subject, dataset.get());
}

}  // namespace shoal::hdf5
