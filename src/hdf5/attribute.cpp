#include "hdf5/attribute.h"

#include <algorithm>

namespace shoal::hdf5 {
namespace {

std::string subject_of(const File& file, const std::string& name) { return file.path() + ": attribute " + name; }

// Of fixed length: it lies in the object header or, past 64 KiB, in the attributes' heap, both under HDF5's own
// checksums. Strings of variable length lie in a heap without, and damage there makes HDF5 1.10 crash.
DatatypeHandle string_type(std::size_t bytes) {
  const auto lock = lock_library();
  DatatypeHandle type(call("H5Tcopy", "string type", H5Tcopy, H5T_C_S1));
  call("H5Tset_size", "string type", H5Tset_size, type.get(), bytes);
  call("H5Tset_cset", "string type", H5Tset_cset, type.get(), H5T_CSET_UTF8);
  call("H5Tset_strpad", "string type", H5Tset_strpad, type.get(), H5T_STR_NULLPAD);
  return type;
}

void write_scalar(File& file, const std::string& name, hid_t file_type, hid_t memory_type, const void* value) {
  const std::string subject = subject_of(file, name);
  const DataspaceHandle space(call("H5Screate", subject, H5Screate, H5S_SCALAR));
  const AttributeHandle attribute(call("H5Acreate2", subject, H5Acreate2, file.id(), name.c_str(), file_type,
                                       space.get(), H5P_DEFAULT, H5P_DEFAULT));
  call("H5Awrite", subject, H5Awrite, attribute.get(), memory_type, value);
}

struct OpenAttribute {
  AttributeHandle attribute;
  std::size_t bytes;  // of its one element
};

OpenAttribute open_scalar(const File& file, const std::string& name, H5T_class_t wanted) {
  const std::string subject = subject_of(file, name);
  const auto lock = lock_library();
  AttributeHandle attribute(call("H5Aopen", subject, H5Aopen, file.id(), name.c_str(), H5P_DEFAULT));
  const DatatypeHandle type(call("H5Aget_type", subject, H5Aget_type, attribute.get()));
  const DataspaceHandle space(call("H5Aget_space", subject, H5Aget_space, attribute.get()));
  const bool fits = H5Tget_class(type.get()) == wanted && H5Tis_variable_str(type.get()) <= 0 &&
                    H5Sget_simple_extent_npoints(space.get()) == 1;
  if (!fits) throw Hdf5Error("{}: is not of the kind that Shoal writes", subject);
  return {std::move(attribute), H5Tget_size(type.get())};
}

void read_scalar(const File& file, const std::string& name, H5T_class_t wanted, hid_t memory_type, void* value) {
  const OpenAttribute opened = open_scalar(file, name, wanted);
  call("H5Aread", subject_of(file, name), H5Aread, opened.attribute.get(), memory_type, value);
}

}  // namespace

void write_attribute(File& file, const std::string& name, const std::string& value) {
  const DatatypeHandle type = string_type(std::max<std::size_t>(value.size(), 1));
  write_scalar(file, name, type.get(), type.get(), value.c_str());
}

void write_attribute(File& file, const std::string& name, std::int64_t value) {
  const auto lock = lock_library();
  write_scalar(file, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void write_attribute(File& file, const std::string& name, double value) {
  const auto lock = lock_library();
  write_scalar(file, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

std::string read_string_attribute(const File& file, const std::string& name) {
  constexpr std::size_t kMostBytes = 64 << 20;  // the file may be damaged
  const OpenAttribute opened = open_scalar(file, name, H5T_STRING);
  if (opened.bytes > kMostBytes) throw Hdf5Error("{}: has an impossible length", subject_of(file, name));
  std::string value(opened.bytes, '\0');
  call("H5Aread", subject_of(file, name), H5Aread, opened.attribute.get(), string_type(opened.bytes).get(),
       value.data());
  value.erase(std::min(value.find('\0'), value.size()));
  return value;
}

std::int64_t read_int64_attribute(const File& file, const std::string& name) {
  const auto lock = lock_library();
  std::int64_t value = 0;
  read_scalar(file, name, H5T_INTEGER, H5T_NATIVE_INT64, &value);
  return value;
}

double read_float64_attribute(const File& file, const std::string& name) {
  const auto lock = lock_library();
  double value = 0;
  read_scalar(file, name, H5T_FLOAT, H5T_NATIVE_DOUBLE, &value);
  return value;
}

}  // namespace shoal::hdf5
