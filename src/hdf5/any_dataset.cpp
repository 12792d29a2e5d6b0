#include "hdf5/any_dataset.h"

#include <exception>

#include "hdf5/datatype.h"

namespace shoal::hdf5 {
namespace {

using ObjectHandle = UniqueHandle<HandleTraits<H5Oclose>>;

struct Link {
  std::string path;
  bool external;
};

struct Walk {
  std::vector<Link> links;
  std::exception_ptr failure;  // no exception may pass through HDF5
};

herr_t note_link(hid_t, const char* name, const H5L_info_t* info, void* walk_pointer) {
  auto& walk = *static_cast<Walk*>(walk_pointer);
  try {
    walk.links.push_back({std::string("/") + name, info->type == H5L_TYPE_EXTERNAL});
    return 0;
  } catch (...) {
    walk.failure = std::current_exception();
    return -1;
  }
}

std::vector<Link> links_of(const File& file) {
  Walk walk;
  const auto lock = lock_library();
  const herr_t result = H5Lvisit(file.id(), H5_INDEX_NAME, H5_ITER_INC, note_link, &walk);
  if (walk.failure) std::rethrow_exception(walk.failure);
  if (result < 0) throw_error_stack("H5Lvisit", file.path());
  return std::move(walk.links);
}

// Of numbers in either byte order.
std::optional<DType> dtype_in_any_order(const std::string& subject, hid_t type) {
  const H5T_class_t kind = call("H5Tget_class", subject, H5Tget_class, type);
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) return std::nullopt;
  const DatatypeHandle copy(call("H5Tcopy", subject, H5Tcopy, type));
  call("H5Tset_order", subject, H5Tset_order, copy.get(), H5T_ORDER_LE);
  return dtype_of(copy.get());
}

// Elements in other files would be read from wherever the file says.
std::string problem_of(const std::string& subject, hid_t dataset) {
  const PropertyListHandle list(call("H5Dget_create_plist", subject, H5Dget_create_plist, dataset));
  if (call("H5Pget_layout", subject, H5Pget_layout, list.get()) == H5D_VIRTUAL) return "is a view of other files";
  if (call("H5Pget_external_count", subject, H5Pget_external_count, list.get()) > 0)
    return "has its elements in other files";
  const DataspaceHandle space(call("H5Dget_space", subject, H5Dget_space, dataset));
  const H5S_class_t kind = call("H5Sget_simple_extent_type", subject, H5Sget_simple_extent_type, space.get());
  return kind == H5S_NULL ? "has no elements" : "";
}

AnyDataset describe(const File& file, const std::string& path, hid_t dataset) {
  const std::string subject = file.path() + ": " + path;
  AnyDataset found{path, {}, problem_of(subject, dataset)};
  if (!found.problem.empty()) return found;
  found.placement = find_dataset(file, path);
  if (found.placement.dtype) return found;
  const DatatypeHandle type(call("H5Dget_type", subject, H5Dget_type, dataset));
  found.placement.dtype = dtype_in_any_order(subject, type.get());
  found.placement.file_offset = -1;
  if (!found.placement.dtype) found.problem = "has an element type that Shoal does not have";
  return found;
}

// Nothing for a group or a named type.
std::optional<AnyDataset> look_at(const File& file, const Link& link) {
  if (link.external) return AnyDataset{link.path, {}, "is a link to another file"};
  const auto lock = lock_library();
  const ObjectHandle object(H5Oopen(file.id(), link.path.c_str(), H5P_DEFAULT));
  if (!object) {
    H5Eclear2(H5E_DEFAULT);
    return AnyDataset{link.path, {}, "is a link to nothing"};
  }
  if (H5Iget_type(object.get()) != H5I_DATASET) return std::nullopt;
  return describe(file, link.path, object.get());
}

}  // namespace

std::vector<AnyDataset> find_datasets(const File& file) {
  std::vector<AnyDataset> datasets;
  for (const Link& link : links_of(file))
    if (auto found = look_at(file, link)) datasets.push_back(std::move(*found));
  return datasets;
}

void read_box(const File& file, const std::string& path, DType dtype, const std::vector<std::int64_t>& start,
              const std::vector<std::int64_t>& count, void* into) {
  const std::string subject = file.path() + ": " + path;
  const DatatypeHandle type = file_type(dtype);
  const DatasetHandle dataset(call("H5Dopen2", subject, H5Dopen2, file.id(), path.c_str(), H5P_DEFAULT));
  if (start.empty()) {
    call("H5Dread", subject, H5Dread, dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, into);
    return;
  }
  const std::vector<hsize_t> from(start.begin(), start.end()), extent(count.begin(), count.end());
  const DataspaceHandle all(call("H5Dget_space", subject, H5Dget_space, dataset.get()));
  call("H5Sselect_hyperslab", subject, H5Sselect_hyperslab, all.get(), H5S_SELECT_SET, from.data(),
       static_cast<const hsize_t*>(nullptr), extent.data(), static_cast<const hsize_t*>(nullptr));
  const DataspaceHandle memory(call("H5Screate_simple", subject, H5Screate_simple, static_cast<int>(extent.size()),
                                    extent.data(), static_cast<const hsize_t*>(nullptr)));
  call("H5Dread", subject, H5Dread, dataset.get(), type.get(), memory.get(), all.get(), H5P_DEFAULT, into);
}

}  // namespace shoal::hdf5
