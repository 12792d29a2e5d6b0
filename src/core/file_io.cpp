#include "core/file_io.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "core/check.h"
#include "core/host_name.h"

namespace shoal {
namespace {

const char* remedy(int error) {
  switch (error) {
    case ENOSPC: return "; free some space there, or choose another place (--checkpoint-dir, --run-dir, --output)";
    case EDQUOT:
      return "; your quota is used up: free some space, or choose another place (--checkpoint-dir, --run-dir, "
             "--output)";
    case EFBIG: return "; the limit on file sizes is in the way: see 'ulimit -f'";
    case EACCES:
    case EPERM:
    case EROFS: return "; choose a place that you may write (--checkpoint-dir, --run-dir, --output)";
    default: return "";
  }
}

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error) {
  throw IoError("cannot {} {}: {}{}", action, path.string(), std::generic_category().message(error), remedy(error));
}

int open_or_fail(const std::filesystem::path& path, int flags, const char* action) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(action, path, errno);
  return descriptor;
}

std::int64_t size_or_fail(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail("examine", path, errno);
  return status.st_size;
}

void sync_or_fail(int descriptor, const std::filesystem::path& path) {
  if (::fsync(descriptor) != 0) fail("write to the disk", path, errno);
}

}  // namespace

void DescriptorTraits::close(int descriptor) noexcept { ::close(descriptor); }

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open_or_fail(path, O_WRONLY | O_CREAT | O_TRUNC, "write")) {}

OutputFile::OutputFile(const std::filesystem::path& path, Descriptor descriptor)
    : path_(path), descriptor_(std::move(descriptor)) {}

OutputFile OutputFile::open_existing(const std::filesystem::path& path) {
  return {path, Descriptor(open_or_fail(path, O_WRONLY, "write"))};
}

void OutputFile::write_at(std::int64_t offset, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::pwrite(descriptor_.get(), from, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_, errno);
    if (written == 0) fail("write", path_, EIO);
    from += written;
    offset += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void OutputFile::resize(std::int64_t bytes) {
  if (::ftruncate(descriptor_.get(), bytes) != 0) fail("write", path_, errno);
}

void OutputFile::sync() { sync_or_fail(descriptor_.get(), path_); }

void OutputFile::close() {
  if (::close(descriptor_.release()) != 0) fail("write", path_, errno);
}

std::int64_t OutputFile::size() const { return size_or_fail(descriptor_.get(), path_); }

InputFile::InputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open_or_fail(path, O_RDONLY, "read")) {}

std::int64_t InputFile::size() const { return size_or_fail(descriptor_.get(), path_); }

void InputFile::read_at(std::int64_t offset, void* data, std::size_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_.get(), to, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path_, errno);
    SHOAL_CHECK(got > 0, CheckpointError, "{} ends at byte {}, before all of its data: it is truncated", path_.string(),
                offset);
    to += got;
    offset += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void check_file_size_limit(const std::filesystem::path& path, std::int64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (static_cast<rlim_t>(bytes) > limit.rlim_cur) fail("write", path, EFBIG);
}

std::string read_text_file(const std::filesystem::path& path) {
  const InputFile file(path);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, text.data(), text.size());
  return text;
}

void write_text_file(const std::filesystem::path& path, const std::string& text) {
  OutputFile file(path);
  file.write_at(0, text.data(), text.size());
  file.sync();
  file.close();
}

void replace_text_file(const std::filesystem::path& path, const std::string& text, bool synced) {
  // Two processes, on one machine or on two, must not meet in the file beside it.
  std::filesystem::path staged = path;
  staged += fmt::format(".tmp.{}.{}", host_name(), ::getpid());
  OutputFile file(staged);
  file.write_at(0, text.data(), text.size());
  if (synced) file.sync();
  file.close();
  rename_path(staged, path);
  if (synced) sync_directory(directory_of(path));
}

bool create_text_file(const std::filesystem::path& path, const std::string& text) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0 && errno == EEXIST) return false;
  if (descriptor < 0) fail("make", path, errno);
  OutputFile file(path, Descriptor(descriptor));
  file.write_at(0, text.data(), text.size());
  file.sync();
  file.close();
  sync_directory(directory_of(path));
  return true;
}

void sync_directory(const std::filesystem::path& path) {
  const Descriptor descriptor(open_or_fail(path, O_RDONLY | O_DIRECTORY, "open the directory"));
  // Some file systems order directory changes themselves and refuse the call.
  if (::fsync(descriptor.get()) != 0 && errno != EINVAL && errno != ENOTSUP) fail("write to the disk", path, errno);
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail(("rename " + from.string() + " to").c_str(), to, errno);
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  const std::filesystem::path clean = std::filesystem::absolute(path).lexically_normal();
  return clean.has_filename() ? clean.parent_path() : clean.parent_path().parent_path();
}

void make_directories(const std::filesystem::path& path) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(path, error);
  if (error) fail("make the directory", path, error.value());
  if (made) sync_directory(directory_of(path));
}

void remove_tree(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (error) fail("remove", path, error.value());
}

}  // namespace shoal
