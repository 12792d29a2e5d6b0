#include "hdf5/virtual_dataset.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "hdf5/datatype.h"

namespace shoal::hdf5 {
namespace {

const hsize_t* const kNone = nullptr;

// '%' begins a format in the names of sources.
std::string literal(const std::string& name) {
  std::string escaped;
  for (const char c : name) escaped.append(c == '%' ? 2 : 1, c);
  return escaped;
}

// Little-endian, for the first size_of(dtype) bytes.
std::array<unsigned char, 8> fill_bytes(DType dtype) {
  switch (dtype) {
    case DType::float64: return {0, 0, 0, 0, 0, 0, 0xF8, 0x7F};
    case DType::float32: return {0, 0, 0xC0, 0x7F};
    case DType::float16: return {0, 0x7E};
    case DType::bfloat16: return {0xC0, 0x7F};
    case DType::float8_e4m3fn: return {0x7F};
    case DType::float8_e5m2: return {0x7E};
    case DType::int64: return {0, 0, 0, 0, 0, 0, 0, 0x80};
    case DType::int32: return {0, 0, 0, 0x80};
    case DType::int16: return {0, 0x80};
    case DType::int8: return {0x80};
    case DType::uint8: return {0xFF};
    case DType::boolean: return {0};
  }
  throw InternalError("element type {} has no fill value", static_cast<int>(dtype));
}

DataspaceHandle space_of(const std::string& subject, const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return DataspaceHandle(call("H5Screate", subject, H5Screate, H5S_SCALAR));
  const std::vector<hsize_t> extents(shape.begin(), shape.end());
  return DataspaceHandle(
      call("H5Screate_simple", subject, H5Screate_simple, static_cast<int>(extents.size()), extents.data(), kNone));
}

void select_box(const std::string& subject, hid_t space, const std::vector<std::int64_t>& start,
                const std::vector<std::int64_t>& count) {
  if (start.empty()) return;  // a scalar is all selected
  const std::vector<hsize_t> from(start.begin(), start.end()), extent(count.begin(), count.end());
  call("H5Sselect_hyperslab", subject, H5Sselect_hyperslab, space, H5S_SELECT_SET, from.data(), kNone, extent.data(),
       kNone);
}

std::int64_t numel_of(const MappedBox& box) {
  std::int64_t numel = 1;
  for (const std::int64_t extent : box.count) numel *= extent;
  return numel;
}

void map(const std::string& subject, hid_t creation, hid_t whole, const MappedBox& box) {
  select_box(subject, whole, box.start, box.count);
  const DataspaceHandle source = space_of(subject, {box.source_numel});
  select_box(subject, source.get(), {box.source_begin}, {numel_of(box)});
  call("H5Pset_virtual", subject, H5Pset_virtual, creation, whole, literal(box.file).c_str(),
       literal(box.dataset).c_str(), source.get());
}

PropertyListHandle creation_properties(const std::string& subject, DType dtype, hid_t type) {
  const auto lock = lock_library();
  PropertyListHandle list(call("H5Pcreate", subject, H5Pcreate, H5P_DATASET_CREATE));
  call("H5Pset_obj_track_times", subject, H5Pset_obj_track_times, list.get(), hbool_t{0});
  call("H5Pset_fill_value", subject, H5Pset_fill_value, list.get(), type,
       static_cast<const void*>(fill_bytes(dtype).data()));
  return list;
}

}  // namespace

void create_virtual(File& file, const std::string& name, DType dtype, const std::vector<std::int64_t>& shape,
                    const std::vector<MappedBox>& boxes) {
  const std::string subject = file.path() + ": " + name;
  file.make_groups_above(name);
  const DatatypeHandle type = file_type(dtype);
  const PropertyListHandle creation = creation_properties(subject, dtype, type.get());
  const DataspaceHandle whole = space_of(subject, shape);
  for (const MappedBox& box : boxes) map(subject, creation.get(), whole.get(), box);
  call("H5Sselect_all", subject, H5Sselect_all, whole.get());
  const PropertyListHandle links = link_creation_properties();
  const DatasetHandle dataset(call("H5Dcreate2", subject, H5Dcreate2, file.id(), name.c_str(), type.get(), whole.get(),
                                   links.get(), creation.get(), H5P_DEFAULT));
}

}  // namespace shoal::hdf5
