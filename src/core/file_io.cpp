#include "core/file_io.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <vector>

#include "core/check.h"
#include "core/file_calls.h"
#include "core/host_name.h"

namespace shoal {
namespace {

const char* remedy(int error) {
  switch (error) {
    case ENOSPC: return "; free some space there, or choose another place (--checkpoint-dir, --run-dir, --output)";
    case EDQUOT:
      return "; your quota is used up: free some space, or choose another place (--checkpoint-dir, --run-dir, "
             "--output)";
    case EMFILE:
    case ENFILE: return "; no more files can be open at a time: raise the limit, see 'ulimit -n'";
    case EFBIG: return "; the limit on file sizes is in the way: see 'ulimit -f'";
    case EACCES:
    case EPERM:
    case EROFS: return "; choose a place that you may write (--checkpoint-dir, --run-dir, --output)";
    default: return "";
  }
}

[[noreturn]] void fail(const char* action, const std::filesystem::path& path, int error) {
  throw_io_error(action, path, error);
}

int open_or_fail(const std::filesystem::path& path, int flags, const char* action) {
  const int descriptor = file_calls().open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (descriptor < 0) fail(action, path, errno);
  return descriptor;
}

std::int64_t size_or_fail(int descriptor, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail("examine", path, errno);
  return status.st_size;
}

bool is_directory_itself(const std::filesystem::path& path) {  // as opposed to a link to one
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator files(directory, error);
       !error && files != std::filesystem::directory_iterator(); files.increment(error))
    entries.push_back(files->path());
  if (error && error != std::errc::no_such_file_or_directory) fail("read the directory", directory, error.value());
  return entries;
}

}  // namespace

void throw_io_error(const char* action, const std::filesystem::path& path, int error) {
  const std::string text =
      fmt::format("cannot {} {}: {}{}", action, path.string(), std::generic_category().message(error), remedy(error));
  if (error == EMFILE || error == ENFILE) throw DescriptorLimitError("{}", text);
  throw IoError("{}", text);
}

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
    const ssize_t written = file_calls().pwrite(descriptor_.get(), from, bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_, errno);
    if (written == 0) fail("write", path_, EIO);
    from += written;
    offset += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void OutputFile::resize(std::int64_t bytes) {
  if (file_calls().ftruncate(descriptor_.get(), bytes) != 0) fail("write", path_, errno);
}

bool OutputFile::reserve(std::int64_t bytes) {
  resize(bytes);
  if (bytes == 0 || file_calls().fallocate(descriptor_.get(), bytes) == 0) return true;
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) fail("find room for", path_, errno);
  return false;
}

void OutputFile::write_back() {
  static_cast<void>(
      file_calls().sync_file_range(descriptor_.get(), 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE));
}

void OutputFile::sync() {
  if (file_calls().fsync(descriptor_.get()) != 0) fail("write to the disk", path_, errno);
}

void OutputFile::close() {
  if (file_calls().close(descriptor_.release()) != 0) fail("write", path_, errno);
}

std::int64_t OutputFile::size() const { return size_or_fail(descriptor_.get(), path_); }

InputFile::InputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (!descriptor_) fail("read", path, errno);
}

std::int64_t InputFile::size() const { return size_or_fail(descriptor_.get(), path_); }

void InputFile::read_at(std::int64_t offset, void* data, std::size_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = file_calls().pread(descriptor_.get(), to, bytes, offset);
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

void check_descriptors_left(const std::filesystem::path& path) {
  constexpr std::size_t kFew = 4;  // a library may have had a second one open, and have closed it by now
  std::array<Descriptor, kFew> probes;
  for (Descriptor& probe : probes) {
    probe.reset(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!probe && (errno == EMFILE || errno == ENFILE)) fail("open", path, errno);
  }
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
  try {
    OutputFile file(staged);
    file.write_at(0, text.data(), text.size());
    if (synced) file.sync();
    file.close();
    rename_path(staged, path);
  } catch (const IoError&) {
    try_remove(staged);
    throw;
  }
  if (synced) sync_directory(directory_of(path));
}

bool create_text_file(const std::filesystem::path& path, const std::string& text) {
  const int descriptor = file_calls().open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
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
  if (file_calls().fsync(descriptor.get()) != 0 && errno != EINVAL && errno != ENOTSUP)
    fail("write to the disk", path, errno);
}

std::error_code try_rename(const std::filesystem::path& from, const std::filesystem::path& to) noexcept {
  return {file_calls().rename(from.c_str(), to.c_str()) == 0 ? 0 : errno, std::generic_category()};
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (const auto error = try_rename(from, to)) fail(("rename " + from.string() + " to").c_str(), to, error.value());
}

std::filesystem::path directory_of(const std::filesystem::path& path) {
  const std::filesystem::path clean = std::filesystem::absolute(path).lexically_normal();
  return clean.has_filename() ? clean.parent_path() : clean.parent_path().parent_path();
}

void make_directories(const std::filesystem::path& path) {
  std::error_code absent;
  if (std::filesystem::is_directory(path, absent)) return;
  const std::filesystem::path parent = directory_of(path);
  if (parent != path) make_directories(parent);
  // Another process may be faster.
  if (file_calls().mkdir(path.c_str(), 0777) != 0 && (errno != EEXIST || !std::filesystem::is_directory(path, absent)))
    fail("make the directory", path, errno);
  sync_directory(parent);
}

void remove_tree(const std::filesystem::path& path) {
  const bool is_directory = is_directory_itself(path);
  if (is_directory)
    for (const std::filesystem::path& entry : entries_of(path)) remove_tree(entry);
  const int result = is_directory ? file_calls().rmdir(path.c_str()) : file_calls().unlink(path.c_str());
  if (result != 0 && errno != ENOENT) fail("remove", path, errno);
}

std::error_code try_remove(const std::filesystem::path& file) noexcept {
  const bool gone = file_calls().unlink(file.c_str()) == 0 || errno == ENOENT;
  return {gone ? 0 : errno, std::generic_category()};
}

}  // namespace shoal
