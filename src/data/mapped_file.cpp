#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "core/unique_handle.h"

namespace shoal::data {
namespace {

struct DescriptorTraits {
  using Handle = int;
  static int invalid() noexcept { return -1; }
  static void close(int descriptor) noexcept { ::close(descriptor); }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const UniqueHandle<DescriptorTraits> file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  SHOAL_CHECK(file, DataError, "cannot open {}: {}", path.string(), std::strerror(errno));
  struct stat status {};
  SHOAL_CHECK(::fstat(file.get(), &status) == 0, DataError, "cannot examine {}: {}", path.string(),
              std::strerror(errno));
  SHOAL_CHECK(S_ISREG(status.st_mode), DataError, "{} is not a file", path.string());
  size_ = status.st_size;
  if (size_ == 0) return;  // which mmap refuses
  void* memory = ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, file.get(), 0);
  SHOAL_CHECK(memory != MAP_FAILED, DataError, "cannot map {}: {}", path.string(), std::strerror(errno));
  data_ = static_cast<const std::byte*>(memory);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
}

}  // namespace shoal::data
