#include "data/part_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include "core/error.h"

namespace shoal::data {
namespace {

const char* remedy(int error) {
  return error == ENOSPC || error == EDQUOT ? "; make room there, or choose another place by --output" : "";
}

}  // namespace

void DescriptorTraits::close(int descriptor) noexcept { ::close(descriptor); }

PartFile::PartFile(const std::filesystem::path& path)
    : path_(path), part_path_(fmt::format("{}.{}.part", path.string(), ::getpid())) {
  descriptor_.reset(::open(part_path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!descriptor_) fail("write");
}

PartFile::~PartFile() {
  if (descriptor_) ::unlink(part_path_.c_str());
}

void PartFile::fail(const char* action) const {
  const int error = errno;
  throw IoError("cannot {} {}: {}{}", action, part_path_.string(), std::generic_category().message(error),
                remedy(error));
}

void PartFile::write_at(std::int64_t offset, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(descriptor_.get(), from, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail("write");
    from += written;
    offset += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void PartFile::copy_at(std::int64_t offset, const PartFile& from, std::int64_t from_offset, std::int64_t bytes) {
  std::vector<char> buffer(4 << 20);
  while (bytes > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(bytes, std::ssize(buffer)));
    const ssize_t got = ::pread(from.descriptor_.get(), buffer.data(), wanted, from_offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) from.fail("read");
    write_at(offset, buffer.data(), static_cast<std::size_t>(got));
    offset += got;
    from_offset += got;
    bytes -= got;
  }
}

void PartFile::resize(std::int64_t bytes) {
  if (::ftruncate(descriptor_.get(), bytes) != 0) fail("write");
}

void PartFile::commit() {
  if (::fsync(descriptor_.get()) != 0) fail("write");
  if (std::rename(part_path_.c_str(), path_.c_str()) != 0) fail("rename");
  descriptor_.reset();
}

}  // namespace shoal::data
