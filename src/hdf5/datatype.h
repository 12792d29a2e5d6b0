// Element types of Shoal as types in HDF5 files: little-endian; "bool" is the enumeration that h5py reads and writes
// as bool; floats of 8 bits are enumerations of bytes with one member, zero, of the type's name, which programs read as
// bytes: HDF5's own floats of that size would have infinities where E4M3 has numbers; float16 and bfloat16 are
// described bit by bit, since HDF5 knows them by name only from 1.14.4 and 2.0 on.
#pragma once

#include <optional>

#include "hdf5/handle.h"
#include "shard/dtype.h"

namespace shoal::hdf5 {

DatatypeHandle file_type(DType dtype);
DatatypeHandle uint64_file_type();
// The element type that `type` stores, or nothing where it is none of ours.
std::optional<DType> dtype_of(hid_t type);

}  // namespace shoal::hdf5
