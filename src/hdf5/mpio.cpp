#include "hdf5/mpio.h"

#include <array>

#include "core/check.h"
#include "hdf5/datatype.h"
#include "hdf5/handle.h"

namespace shoal::hdf5 {
namespace {

struct InfoTraits {
  using Handle = MPI_Info;
  static Handle invalid() noexcept { return MPI_INFO_NULL; }
  static void close(Handle info) noexcept { MPI_Info_free(&info); }
};
using Info = UniqueHandle<InfoTraits>;

std::string text_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return {text.data(), static_cast<std::size_t>(length)};
}

void check_mpi(int code, const char* function, const std::filesystem::path& path) {
  SHOAL_CHECK(code == MPI_SUCCESS, IoError, "{}: {}: {}", path.string(), function, text_of(code));
}

Info info_of(const std::filesystem::path& path, const MpioHints& hints) {
  MPI_Info made = MPI_INFO_NULL;
  check_mpi(MPI_Info_create(&made), "MPI_Info_create", path);
  Info info(made);
  for (const auto& [key, value] : hints)
    check_mpi(MPI_Info_set(info.get(), key.c_str(), value.c_str()), "MPI_Info_set", path);
  return info;
}

PropertyListHandle access_properties(const std::string& path, MPI_Comm comm, MPI_Info info) {
  const auto lock = lock_library();
  PropertyListHandle list(call("H5Pcreate", path, H5Pcreate, H5P_FILE_ACCESS));
  call("H5Pset_fapl_mpio", path, H5Pset_fapl_mpio, list.get(), comm, info);
  call("H5Pset_fclose_degree", path, H5Pset_fclose_degree, list.get(), H5F_CLOSE_STRONG);
  // As the serial writer has it: with another bound HDF5 would put a mark into the file while it is open.
  call("H5Pset_libver_bounds", path, H5Pset_libver_bounds, list.get(), H5F_LIBVER_V18, H5F_LIBVER_V110);
#if H5_VERSION_GE(1, 10, 9)  // up to 1.10.8 it made collective writes fail
  call("H5Pset_all_coll_metadata_ops", path, H5Pset_all_coll_metadata_ops, list.get(), hbool_t{1});
#endif
  return list;
}

void add_to_selection(const std::string& subject, hid_t space, const Hyperslab& slab) {
  const std::vector<hsize_t> start(slab.start.begin(), slab.start.end()), count(slab.count.begin(), slab.count.end());
  call("H5Sselect_hyperslab", subject, H5Sselect_hyperslab, space, H5S_SELECT_OR, start.data(),
       static_cast<const hsize_t*>(nullptr), count.data(), static_cast<const hsize_t*>(nullptr));
}

hsize_t elements_of(std::span<const Hyperslab> slabs) {
  hsize_t elements = 0;
  for (const Hyperslab& slab : slabs) {
    hsize_t of_slab = 1;
    for (const std::int64_t extent : slab.count) of_slab *= static_cast<hsize_t>(extent);
    elements += of_slab;
  }
  return elements;
}

}  // namespace

// The dataset written last stays open: writes come dataset by dataset.
struct MpioFile::Open {
  std::string path;
  FileHandle file;
  PropertyListHandle transfer;
  std::string name;
  DatasetHandle dataset;
  bool all_collective = true;
};

bool has_mpio() noexcept { return true; }
void require_mpio(const std::string&) {}

void make_file_with_hints(const std::filesystem::path& path, const MpioHints& hints) {
  const Info info = info_of(path, hints);
  MPI_File file = MPI_FILE_NULL;
  constexpr int kMode = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY;
  check_mpi(MPI_File_open(MPI_COMM_SELF, path.c_str(), kMode, info.get(), &file), "MPI_File_open", path);
  check_mpi(MPI_File_close(&file), "MPI_File_close", path);
}

MpioFile::MpioFile(const std::filesystem::path& path, MPI_Comm comm, const MpioHints& hints)
    : open_(std::make_unique<Open>()) {
  const auto lock = lock_library();
  const Info info = info_of(path, hints);
  open_->path = path.string();
  const PropertyListHandle access = access_properties(open_->path, comm, info.get());
  open_->transfer.reset(call("H5Pcreate", open_->path, H5Pcreate, H5P_DATASET_XFER));
  call("H5Pset_dxpl_mpio", open_->path, H5Pset_dxpl_mpio, open_->transfer.get(), H5FD_MPIO_COLLECTIVE);
  open_->file.reset(call("H5Fopen", open_->path, H5Fopen, path.c_str(), H5F_ACC_RDWR, access.get()));
}

MpioFile::~MpioFile() = default;

void MpioFile::write(const std::string& dataset, DType dtype, std::span<const Hyperslab> slabs, const void* data) {
  const auto lock = lock_library();
  const std::string subject = open_->path + ": " + dataset;
  if (open_->name != dataset) {
    open_->dataset.reset(call("H5Dopen2", subject, H5Dopen2, open_->file.get(), dataset.c_str(), H5P_DEFAULT));
    open_->name = dataset;
  }
  const DataspaceHandle in_file(call("H5Dget_space", subject, H5Dget_space, open_->dataset.get()));
  const bool is_scalar = H5Sget_simple_extent_ndims(in_file.get()) == 0;
  const hsize_t elements = elements_of(slabs), extent = elements > 0 ? elements : 1;
  const DataspaceHandle in_memory(
      call("H5Screate_simple", subject, H5Screate_simple, 1, &extent, static_cast<const hsize_t*>(nullptr)));
  if (slabs.empty() || !is_scalar) call("H5Sselect_none", subject, H5Sselect_none, in_file.get());
  if (slabs.empty()) call("H5Sselect_none", subject, H5Sselect_none, in_memory.get());
  if (!is_scalar)
    for (const Hyperslab& slab : slabs) add_to_selection(subject, in_file.get(), slab);
  // HDF5 wants an address even for no elements.
  const void* const from = data != nullptr ? data : static_cast<const void*>(&extent);
  call("H5Dwrite", subject, H5Dwrite, open_->dataset.get(), file_type(dtype).get(), in_memory.get(), in_file.get(),
       open_->transfer.get(), from);
  H5D_mpio_actual_io_mode_t mode = H5D_MPIO_NO_COLLECTIVE;
  call("H5Pget_mpio_actual_io_mode", subject, H5Pget_mpio_actual_io_mode, open_->transfer.get(), &mode);
  open_->all_collective = open_->all_collective && mode == H5D_MPIO_CONTIGUOUS_COLLECTIVE;
}

bool MpioFile::all_collective() const { return open_->all_collective; }

void MpioFile::close() {
  open_->dataset.reset();
  call("H5Fclose", open_->path, H5Fclose, open_->file.release());
}

}  // namespace shoal::hdf5
