#include "preflight/trial_files.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

#include "core/check.h"
#include "core/timer.h"

namespace shoal::preflight {
namespace {

namespace fs = std::filesystem;

// The bytes of a file at `offset`, a multiple of 8, that no other seed or place has.
void fill(std::vector<std::uint64_t>& words, std::uint64_t seed, std::int64_t offset) {
  auto counter = static_cast<std::uint64_t>(offset) / 8;
  for (std::uint64_t& word : words) {  // splitmix64
    std::uint64_t z = (seed << 40) + counter++ * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    word = z ^ (z >> 27);
  }
}

constexpr std::size_t kWords = kChunkBytes / 8;

}  // namespace

double wait_for_text(const fs::path& path, const std::string& text, std::chrono::milliseconds limit) {
  const Timer timer;
  for (;;) {
    std::error_code error;
    if (fs::exists(path, error) && read_text_file(path) == text) return timer.seconds();
    if (timer.seconds() * 1e3 > static_cast<double>(limit.count())) return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

FileSpeed write_pattern(const fs::path& path, std::int64_t bytes, std::uint64_t seed, std::chrono::milliseconds limit) {
  std::vector<std::uint64_t> words(kWords);
  FileSpeed speed;
  double filling = 0;
  const Timer timer;
  OutputFile file(path);
  while (speed.bytes < bytes && timer.seconds() * 1e3 < static_cast<double>(limit.count())) {
    const Timer filled;
    fill(words, seed, speed.bytes);
    filling += filled.seconds();
    const std::int64_t n = std::min(bytes - speed.bytes, kChunkBytes);
    file.write_at(speed.bytes, words.data(), static_cast<std::size_t>(n));
    speed.bytes += n;
  }
  file.sync();
  file.close();
  speed.seconds = timer.seconds() - filling;
  return speed;
}

FileSpeed read_pattern(const fs::path& path, std::int64_t bytes, std::uint64_t seed) {
  {
    const Descriptor cached(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (cached) ::posix_fadvise(cached.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  std::vector<std::uint64_t> words(kWords), wanted(kWords);
  FileSpeed speed;
  const InputFile file(path);
  while (speed.bytes < bytes) {
    const std::int64_t n = std::min(bytes - speed.bytes, kChunkBytes);
    const Timer timer;
    file.read_at(speed.bytes, words.data(), static_cast<std::size_t>(n));
    speed.seconds += timer.seconds();
    fill(wanted, seed, speed.bytes);
    const auto count = static_cast<std::ptrdiff_t>(n / 8);
    SHOAL_CHECK(std::equal(words.begin(), words.begin() + count, wanted.begin()), IoError,
                "{} does not hold what was written to it: bytes differ between {} and {}; do not use this file system, "
                "and tell the site",
                path.string(), speed.bytes, speed.bytes + n);
    speed.bytes += n;
  }
  return speed;
}

LockAttempt try_lock(const fs::path& path) {
  LockAttempt attempt;
  attempt.descriptor.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  SHOAL_CHECK(attempt.descriptor, IoError, "cannot open {}: {}", path.string(), std::generic_category().message(errno));
  if (::flock(attempt.descriptor.get(), LOCK_EX | LOCK_NB) == 0) return attempt;
  attempt.busy = errno == EWOULDBLOCK;
  attempt.error = attempt.busy ? 0 : errno;
  return attempt;
}

double time_commit(const fs::path& folder, const std::string& name) {
  const fs::path part = folder / (name + ".part"), whole = folder / name;
  write_text_file(whole, "old");
  const Timer timer;
  write_text_file(part, "new");
  rename_path(part, whole);
  sync_directory(folder);
  const double seconds = timer.seconds();
  SHOAL_CHECK(read_text_file(whole) == "new", IoError,
              "{} holds its old text after it was replaced by rename(): do not use this file system", whole.string());
  return seconds * 1e3;
}

}  // namespace shoal::preflight
