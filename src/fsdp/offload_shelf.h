// Where the memory of saved tensors is kept on the host, group by group: the tensors that a unit's operators saved.
//
// In forward each memory is copied to the host when it is first saved, beside the computation. One group later the
// compute stream is made to wait for the copies, and the device's memory is let go: at the same place in every step,
// whatever the copies' speed. In backward the first tensor that is asked for brings its whole group back, and the group
// before on its way. Memory that is still on the device then (the last groups') is used where it is.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "fsdp/buffer_pool.h"
#include "fsdp/copy_stream.h"
#include "fsdp/torch_internals_saved.h"

namespace shoal::fsdp {

// Tensors that stand for saved ones keep their shelf alive, and may be asked for and given up on any thread.
class OffloadShelf : public std::enable_shared_from_this<OffloadShelf> {
 public:
  // A group with more bytes than that is followed by another one, whoever saves.
  OffloadShelf(at::Device device, std::int64_t most_bytes_a_group);

  // Takes the memory of `tensor`, a dense tensor on the shelf's device; once for all tensors that share it and were
  // saved before anybody wrote to it. `unit` is for messages.
  std::unique_ptr<torch_internals::SavedTensor> put(const at::Tensor& tensor, const std::string& unit);
  // What is saved from now on is wanted back before what was saved until now.
  void next_group();
  // The forward pass is over: the device's memory is let go, and what is wanted back comes from the host.
  void let_go();

  std::int64_t host_bytes() const;       // of all buffers on the host, in use or free
  std::int64_t offloaded_bytes() const;  // copied to the host so far

 private:
  struct Group;
  struct Memory;
  class Ticket;

  std::shared_ptr<Memory> find(const at::Tensor& tensor) const;
  std::shared_ptr<Memory> store(const at::Tensor& tensor);
  void join(const std::shared_ptr<Memory>& memory);
  void close_group();
  void drop(Group& group);
  void fetch(const Group& group);
  at::Tensor bring(Memory& memory);
  void release(Memory& memory);

  at::Device device_;
  std::int64_t most_bytes_a_group_;
  mutable std::mutex mutex_;  // of all that follows and of what it leads to
  BufferPool host_;
  CopyStream copies_;
  std::shared_ptr<Group> open_, closed_;  // closed_: its memory is still on the device
  std::unordered_map<const void*, std::weak_ptr<Memory>> by_storage_;
  std::int64_t offloaded_ = 0;
};

}  // namespace shoal::fsdp
