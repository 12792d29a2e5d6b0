// Plain files by descriptor, with positioned reads and writes. Every failure is an IoError that names the path, what
// was wanted and the system's reason; a file shorter than it should be is a CheckpointError. What changes a disk goes
// through the calls of file_calls.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/unique_handle.h"

namespace shoal {

struct DescriptorTraits {
  using Handle = int;
  static int invalid() noexcept { return -1; }
  static void close(int descriptor) noexcept;
};
using Descriptor = UniqueHandle<DescriptorTraits>;

// The process has as many files open as it may: nothing that it reads is damaged.
class DescriptorLimitError final : public IoError {
 public:
  using IoError::IoError;
};

// IoError "cannot ACTION PATH: …" for an errno, with how to mend it; a DescriptorLimitError where it is that.
[[noreturn]] void throw_io_error(const char* action, const std::filesystem::path& path, int error);
// For libraries that open files and do not tell why they could not: DescriptorLimitError where that is the reason.
void check_descriptors_left(const std::filesystem::path& path);

// Reads and writes go in pieces of this size at most: what a checksum is computed over while it is in the cache.
inline constexpr std::int64_t kChunkBytes = 4 << 20;

class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);  // made; emptied where it exists
  OutputFile(const std::filesystem::path& path, Descriptor opened);
  static OutputFile open_existing(const std::filesystem::path& path);  // as it is
  void write_at(std::int64_t offset, const void* data, std::size_t bytes);
  void resize(std::int64_t bytes);
  // The same, and the disk has room for them from now on, where the file system can promise it; false: it cannot.
  bool reserve(std::int64_t bytes);
  // Waits for what an earlier call has set going to the disk, and sets going what was written since. A hint: errors
  // show in sync().
  void write_back();
  void sync();   // the bytes are on the disk when this returns
  void close();  // tells of a delayed failure to write, which the destructor would not
  std::int64_t size() const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  std::int64_t size() const;
  // All of `bytes`; CheckpointError where the file ends before.
  void read_at(std::int64_t offset, void* data, std::size_t bytes) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
};

// IoError where the limit that this process has on the size of files ('ulimit -f') is below `bytes`.
void check_file_size_limit(const std::filesystem::path& path, std::int64_t bytes);

std::string read_text_file(const std::filesystem::path& path);
// Written and synced; the entry in its directory is not.
void write_text_file(const std::filesystem::path& path, const std::string& text);
// Replaces `path` as a whole: whoever reads it finds the old text or the new one. The text is written to a file of this
// process beside it first. Unless `synced`, a crash of the machine (not of the process) may lose the new text.
void replace_text_file(const std::filesystem::path& path, const std::string& text, bool synced = true);
// Makes `path` with that text; false where it exists, which of several processes on several machines all but one are
// told. After a crash the file may be there and empty.
bool create_text_file(const std::filesystem::path& path, const std::string& text);
void sync_directory(const std::filesystem::path& path);
// Onto `to`, which is replaced where it is a file.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);
std::error_code try_rename(const std::filesystem::path& from, const std::filesystem::path& to) noexcept;
// The directory that holds `path`, whether or not it ends in '/'.
std::filesystem::path directory_of(const std::filesystem::path& path);
// And those on the way; each that is made is synced in its directory.
void make_directories(const std::filesystem::path& path);
// With all that is in it, which others may be removing as well; missing is no error.
void remove_tree(const std::filesystem::path& path);
std::error_code try_remove(const std::filesystem::path& file) noexcept;  // missing is no error

}  // namespace shoal
