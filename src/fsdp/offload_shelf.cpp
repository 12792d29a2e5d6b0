#include "fsdp/offload_shelf.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/logging.h"
#include "fsdp/torch_internals.h"
#include "fsdp/torch_internals_meta.h"

namespace shoal::fsdp {
namespace {

using torch_internals::storage_identity;

// All of a storage, as bytes.
at::Tensor bytes_of(const at::Tensor& tensor) {
  at::Tensor bytes = at::empty({0}, tensor.options().dtype(at::kByte));
  bytes.set_(tensor.storage(), 0, {static_cast<std::int64_t>(tensor.storage().nbytes())}, {1});
  return bytes;
}

}  // namespace

// One storage.
struct OffloadShelf::Memory {
  const void* storage;
  std::shared_ptr<void> identity;         // no other storage is taken for it
  torch_internals::VersionWatch version;  // when it was copied
  at::Tensor device, host;                // bytes; device is undefined while it is on the host alone
  std::shared_ptr<Group> group;           // with which it comes back: the last that saved it
  std::shared_ptr<CopyMark> fetched;      // null: `device` is where it was saved
  int tickets = 0;
};

struct OffloadShelf::Group {
  std::vector<std::weak_ptr<Memory>> members;
  std::int64_t bytes = 0;
  std::shared_ptr<Group> before;     // of the same forward pass; null: none
  std::shared_ptr<CopyMark> copied;  // to the host; null while open
  bool begun = false;                // backward has come to it

  bool wanted() const {
    return std::any_of(members.begin(), members.end(), [this](const auto& member) {
      const auto memory = member.lock();
      return memory && memory->group.get() == this;
    });
  }
};

class OffloadShelf::Ticket final : public torch_internals::SavedTensor {
 public:
  Ticket(std::shared_ptr<OffloadShelf> shelf, std::shared_ptr<Memory> memory, const at::Tensor& tensor,
         std::string unit)
      : shelf_(std::move(shelf)),
        memory_(std::move(memory)),
        version_(tensor),
        options_(tensor.options()),
        sizes_(tensor.sizes().vec()),
        strides_(tensor.strides().vec()),
        offset_(tensor.storage_offset()),
        unit_(std::move(unit)) {
    ++memory_->tickets;
  }

  ~Ticket() override {
    try {
      const std::lock_guard lock(shelf_->mutex_);
      if (--memory_->tickets == 0) shelf_->release(*memory_);
    } catch (const std::exception& error) {
      log::error("while giving up an offloaded tensor of unit '{}': {}", unit_, error.what());
    }
  }

  at::Tensor restore() override {
    SHOAL_CHECK(!version_.changed(), OptionError,
                "a tensor that an operator of unit '{}' needs in backward was changed in place after it was saved",
                unit_);
    const torch_internals::NoInterceptScope quiet;
    const at::NoGradGuard no_grad;
    const std::lock_guard lock(shelf_->mutex_);
    const at::Tensor bytes = shelf_->bring(*memory_);
    at::Tensor tensor = at::empty({0}, options_);
    tensor.set_(bytes.storage(), offset_, sizes_, strides_);
    return tensor;
  }

 private:
  std::shared_ptr<OffloadShelf> shelf_;
  std::shared_ptr<Memory> memory_;
  torch_internals::VersionWatch version_;
  at::TensorOptions options_;
  std::vector<std::int64_t> sizes_, strides_;
  std::int64_t offset_;
  std::string unit_;
};

OffloadShelf::OffloadShelf(at::Device device, std::int64_t most_bytes_a_group)
    : device_(device),
      most_bytes_a_group_(most_bytes_a_group),
      host_(device.is_meta() ? device : at::Device(at::kCPU), !device.is_cpu() && !device.is_meta()),
      copies_(device),
      open_(std::make_shared<Group>()) {}

std::unique_ptr<torch_internals::SavedTensor> OffloadShelf::put(const at::Tensor& tensor, const std::string& unit) {
  const torch_internals::NoInterceptScope quiet;
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  if (open_->bytes > most_bytes_a_group_) close_group();
  std::shared_ptr<Memory> memory = find(tensor);
  if (!memory) memory = store(tensor);
  join(memory);
  return std::make_unique<Ticket>(shared_from_this(), std::move(memory), tensor, unit);
}

std::shared_ptr<OffloadShelf::Memory> OffloadShelf::find(const at::Tensor& tensor) const {
  const auto known = by_storage_.find(storage_identity(tensor));
  auto memory = known == by_storage_.end() ? nullptr : known->second.lock();
  return memory && !memory->version.changed() ? memory : nullptr;
}

std::shared_ptr<OffloadShelf::Memory> OffloadShelf::store(const at::Tensor& tensor) {
  auto memory = std::make_shared<Memory>(Memory{.storage = storage_identity(tensor),
                                                .identity = torch_internals::hold_identity(tensor),
                                                .version = torch_internals::VersionWatch(tensor),
                                                .device = bytes_of(tensor)});
  const std::int64_t bytes = memory->device.numel();
  {
    const torch_internals::UncountedScope not_the_device;
    memory->host = host_.acquire(bytes, at::kByte);
  }
  copies_.copy(memory->host, memory->device);
  by_storage_.insert_or_assign(memory->storage, memory);
  open_->bytes += bytes;
  offloaded_ += bytes;
  return memory;
}

// It comes back with the open group, since backward comes to that one first.
void OffloadShelf::join(const std::shared_ptr<Memory>& memory) {
  if (memory->group == open_) return;
  memory->group = open_;
  open_->members.push_back(memory);
}

void OffloadShelf::next_group() {
  const std::lock_guard lock(mutex_);
  close_group();
}

void OffloadShelf::close_group() {
  if (open_->members.empty()) return;
  if (closed_) drop(*closed_);
  open_->copied = copies_.mark();
  closed_ = std::exchange(open_, std::make_shared<Group>());
  open_->before = closed_;
}

void OffloadShelf::let_go() {
  const std::lock_guard lock(mutex_);
  close_group();
  if (closed_) drop(*std::exchange(closed_, nullptr));
  open_ = std::make_shared<Group>();
}

// Whoever gets the memory next works on the compute stream, which by then is behind the copies.
void OffloadShelf::drop(Group& group) {
  group.copied->wait();
  for (const auto& member : group.members)
    if (const auto memory = member.lock(); memory && memory->group.get() == &group && !memory->fetched)
      memory->device.reset();
}

void OffloadShelf::fetch(const Group& group) {
  std::vector<std::shared_ptr<Memory>> coming;
  for (const auto& member : group.members)
    if (auto memory = member.lock(); memory && memory->group.get() == &group && !memory->device.defined())
      coming.push_back(std::move(memory));
  if (coming.empty()) return;
  for (const auto& memory : coming) {
    memory->device = at::empty({memory->host.numel()}, at::TensorOptions(device_).dtype(at::kByte));
    copies_.copy(memory->device, memory->host);
  }
  const std::shared_ptr<CopyMark> fetched = copies_.mark();
  for (const auto& memory : coming) memory->fetched = fetched;
}

at::Tensor OffloadShelf::bring(Memory& memory) {
  Group& group = *memory.group;
  if (!memory.device.defined()) fetch(group);
  if (!std::exchange(group.begun, true)) {
    while (group.before && !group.before->wanted()) group.before = group.before->before;
    if (group.before) fetch(*group.before);
  }
  if (memory.fetched) memory.fetched->wait();
  return memory.device;
}

// The last tensor that stood for it is gone.
void OffloadShelf::release(Memory& memory) {
  if (memory.fetched) memory.fetched->wait_where_made();
  memory.device.reset();
  host_.release(std::exchange(memory.host, {}));
  const auto known = by_storage_.find(memory.storage);
  if (known != by_storage_.end() && known->second.lock().get() == &memory) by_storage_.erase(known);
}

std::int64_t OffloadShelf::host_bytes() const {
  const std::lock_guard lock(mutex_);
  return host_.bytes();
}

std::int64_t OffloadShelf::offloaded_bytes() const {
  const std::lock_guard lock(mutex_);
  return offloaded_;
}

}  // namespace shoal::fsdp
