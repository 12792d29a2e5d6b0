// Bytes of CPU tensors that a thread was given and that are not given back, by whichever thread.
//
// LibTorch's own reports (MemoryReportingInfoBase) do not say that where ranks are threads: its table of sizes keeps
// what an unwatched thread freed, and takes it for the size of whatever comes to lie at that address.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace shoal::testing {

// Counts what the thread that made it is given until it ends.
class LiveBytes {
 public:
  LiveBytes() : outer_(std::exchange(counting(), counts_)) {}
  ~LiveBytes() { counting() = outer_; }
  LiveBytes(const LiveBytes&) = delete;
  LiveBytes& operator=(const LiveBytes&) = delete;

  std::int64_t live() const { return counts_->live; }
  std::int64_t peak() const { return counts_->peak; }
  void restart_peak() { counts_->peak = live(); }

 private:
  struct Counts {
    std::atomic<std::int64_t> live = 0;
    std::int64_t peak = 0;  // the counting thread alone adds, and writes it
    void add(std::int64_t size) { peak = std::max(peak, live += size); }
  };
  // All counted memory by its address: LibTorch wants to give memory back by its address alone (raw_deallocate).
  class Allocator : public at::Allocator {
   public:
    at::DataPtr allocate(std::size_t size) override {
      at::DataPtr memory = inner_->allocate(size);
      if (!counting() || !memory) return memory;
      counting()->add(static_cast<std::int64_t>(size));
      const std::lock_guard lock(mutex_);
      blocks_[memory.get()] = {static_cast<std::int64_t>(size), counting()};
      void* const data = memory.release_context();
      return {data, data, raw_deleter(), at::kCPU};
    }
    at::DeleterFnPtr raw_deleter() const override {
      return [](void* data) { the().give_back(data); };
    }
    void copy_data(void* to, const void* from, std::size_t size) const override { inner_->copy_data(to, from, size); }
    static Allocator& the() {
      static auto* const one = new Allocator;  // outlives what other statics hold
      return *one;
    }

   private:
    void give_back(void* data) {
      {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(data);
        if (found != blocks_.end()) {
          found->second.counts->live -= found->second.size;
          blocks_.erase(found);
        }
      }
      inner_->raw_deallocate(data);
    }

    struct Block {
      std::int64_t size = 0;
      std::shared_ptr<Counts> counts;
    };
    at::Allocator* const inner_ = c10::GetCPUAllocator();
    std::mutex mutex_;
    std::unordered_map<void*, Block> blocks_;
  };

  static std::shared_ptr<Counts>& counting() {
    static thread_local std::shared_ptr<Counts> of_this_thread;
    return of_this_thread;
  }
  static bool install() {
    c10::SetCPUAllocator(&Allocator::the(), /*priority=*/1);
    return true;
  }
  inline static const bool installed_ = install();  // before there are threads: LibTorch guards this by no lock

  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>(), outer_;
};

}  // namespace shoal::testing
