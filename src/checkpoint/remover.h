// Deletes what is no checkpoint any more, on a thread of its own: nobody waits for a file system to free the blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>

namespace shoal::checkpoint {

class Remover {
 public:
  Remover() = default;
  ~Remover();  // waits
  Remover(const Remover&) = delete;
  Remover& operator=(const Remover&) = delete;

  // `directory` has a name under which nobody reads it, and is deleted after those before. What cannot be deleted is a
  // warning: the next save sweeps it. One call at a time.
  void remove(const std::filesystem::path& directory);
  // Whether all is deleted, within `limit`.
  bool idle_within(std::chrono::milliseconds limit) const;
  std::int64_t moves() const { return moves_; }  // grows while it deletes

 private:
  void remove_files(const std::filesystem::path& directory) noexcept;

  std::atomic<std::int64_t> moves_ = 0;
  std::shared_future<void> last_;
};

}  // namespace shoal::checkpoint
