#include "core/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "core/check.h"
#include "core/file_calls.h"

namespace shoal {
namespace {

std::size_t remainder(std::int64_t offset) { return static_cast<std::size_t>(offset) % direct_block(); }

// From now on through the cache: some file systems take the flag and then refuse the call.
void make_buffered(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0) static_cast<void>(::fcntl(descriptor, F_SETFL, flags & ~O_DIRECT));
}

bool is_direct(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

Descriptor open_for_reading(const std::filesystem::path& path, bool direct) {
  if (direct) {
    Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    if (descriptor || errno != EINVAL) return descriptor;
  }
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

std::size_t direct_block() noexcept {
  static const std::size_t block = static_cast<std::size_t>(std::max(::sysconf(_SC_PAGESIZE), 4096L));
  return block;
}

void AlignedBuffer::Free::operator()(std::byte* memory) const noexcept { std::free(memory); }

std::byte* AlignedBuffer::at_least(std::size_t bytes) {
  if (bytes <= bytes_) return memory_.get();
  const std::size_t rounded = (bytes + direct_block() - 1) / direct_block() * direct_block();
  memory_.reset();
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(direct_block(), rounded)));
  bytes_ = memory_ ? rounded : 0;
  if (!memory_) throw std::bad_alloc();
  return memory_.get();
}

DirectInput::DirectInput(const std::filesystem::path& path, bool direct)
    : path_(path), descriptor_(open_for_reading(path, direct)) {
  if (!descriptor_) throw_io_error("read", path, errno);
}

const std::byte* DirectInput::read_at(std::int64_t offset, std::size_t bytes, AlignedBuffer& buffer) const {
  const std::size_t before = remainder(offset), needed = before + bytes;
  const std::size_t whole = (needed + direct_block() - 1) / direct_block() * direct_block();
  std::byte* const memory = buffer.at_least(whole);
  const std::int64_t begin = offset - static_cast<std::int64_t>(before);
  for (std::size_t done = 0; done < needed;) {
    const ssize_t got =
        file_calls().pread(descriptor_.get(), memory + done, whole - done, begin + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EINVAL && is_direct(descriptor_.get())) {
      make_buffered(descriptor_.get());
      continue;
    }
    if (got < 0) throw_io_error("read", path_, errno);
    SHOAL_CHECK(got > 0, CheckpointError, "{} ends at byte {}, before all of its data: it is truncated", path_.string(),
                begin + static_cast<std::int64_t>(done));
    done += static_cast<std::size_t>(got);
  }
  return memory + before;
}

DirectOutput::DirectOutput(OutputFile file, const std::filesystem::path& path, bool direct)
    : path_(path), file_(std::move(file)) {
  if (!direct) return;
  direct_.reset(file_calls().open(path.c_str(), O_WRONLY | O_CLOEXEC | O_DIRECT, 0666));
  if (!direct_ && errno != EINVAL) throw_io_error("write", path, errno);
}

void DirectOutput::write_at(std::int64_t offset, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  const std::size_t address = reinterpret_cast<std::uintptr_t>(from) % direct_block();
  const std::size_t head = (direct_block() - remainder(offset)) % direct_block();
  if (!direct_ || address != remainder(offset) || bytes < head + direct_block())
    return file_.write_at(offset, data, bytes);
  if (head > 0) file_.write_at(offset, from, head);
  const std::size_t middle = (bytes - head) / direct_block() * direct_block();
  const std::size_t written = head + write_direct(offset + static_cast<std::int64_t>(head), from + head, middle);
  if (written < bytes) file_.write_at(offset + static_cast<std::int64_t>(written), from + written, bytes - written);
}

// Returns how many of them went that way: fewer where a call does a part of what it should.
std::size_t DirectOutput::write_direct(std::int64_t offset, const char* data, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes && done % direct_block() == 0) {
    const ssize_t written =
        file_calls().pwrite(direct_.get(), data + done, bytes - done, offset + static_cast<std::int64_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && is_direct(direct_.get())) {
      make_buffered(direct_.get());
      continue;
    }
    if (written <= 0) throw_io_error("write", path_, written < 0 ? errno : EIO);
    done += static_cast<std::size_t>(written);
  }
  return done;
}

void DirectOutput::close() {
  const int direct = direct_.release();
  if (direct >= 0 && file_calls().close(direct) != 0) throw_io_error("write", path_, errno);
  file_.close();
}

}  // namespace shoal
