// Move-only owners of HDF5 identifiers. Destruction ignores a failing close; who must know closes explicitly.
#pragma once

#include "core/unique_handle.h"
#include "hdf5/call.h"

namespace shoal::hdf5 {

template <herr_t (*kClose)(hid_t)>
struct HandleTraits {
  using Handle = hid_t;
  static Handle invalid() noexcept { return H5I_INVALID_HID; }
  static void close(Handle handle) noexcept {
    const auto lock = lock_library();
    kClose(handle);
  }
};

using FileHandle = UniqueHandle<HandleTraits<H5Fclose>>;
using GroupHandle = UniqueHandle<HandleTraits<H5Gclose>>;
using DatasetHandle = UniqueHandle<HandleTraits<H5Dclose>>;
using DataspaceHandle = UniqueHandle<HandleTraits<H5Sclose>>;
using DatatypeHandle = UniqueHandle<HandleTraits<H5Tclose>>;
using AttributeHandle = UniqueHandle<HandleTraits<H5Aclose>>;
using PropertyListHandle = UniqueHandle<HandleTraits<H5Pclose>>;

}  // namespace shoal::hdf5
