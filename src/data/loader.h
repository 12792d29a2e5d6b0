// Batches prepared ahead by a thread, while the caller computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "data/dataset.h"

namespace shoal::data {

struct BatchRequest {
  std::int64_t epoch = 0;
  std::vector<std::int64_t> indices;  // of samples; at least one
};

class Loader {
 public:
  // Says which batch comes after the one it said before; nothing: there are no more. It is called by the loader's
  // thread, in order, so it must not share what it changes with the caller (a Sampler of its own, say).
  using NextRequest = std::function<std::optional<BatchRequest>()>;

  enum class Memory { plain, pinned };  // pinned: a GPU copies from it while the host goes on

  // Up to `depth` batches wait for next() while one more is in the making; 0: no thread, next() makes them. `dataset`
  // must outlive the loader.
  Loader(const Dataset& dataset, NextRequest next_request, int depth, Memory memory = Memory::plain);
  // Waits for the batch in the making, no longer.
  ~Loader() = default;
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The batches in the order of the requests, then nothing. What the request or the dataset threw is thrown here, in
  // its type, in the place of the batch and from then on. For one caller's thread.
  std::optional<Batch> next();

 private:
  std::optional<Batch> make_batch() const;
  void prepare(const std::stop_token& stop);
  bool wait_for_room(const std::stop_token& stop);  // false: asked to stop

  const Dataset& dataset_;
  NextRequest next_request_;
  std::size_t depth_;
  Memory memory_;
  std::mutex mutex_;  // of what follows
  std::condition_variable_any changed_;
  std::deque<Batch> ready_;
  std::exception_ptr failure_;
  bool finished_ = false;
  std::jthread thread_;  // goes first, and with it the last use of the rest
};

}  // namespace shoal::data
