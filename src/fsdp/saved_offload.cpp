#include "fsdp/saved_offload.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "core/check.h"
#include "core/logging.h"
#include "fsdp/operator_tape.h"
#include "fsdp/unit.h"

namespace shoal::fsdp {
namespace {

using torch_internals::OperatorCall;
using torch_internals::SavedTensor;
using torch_internals::storage_identity;
using torch_internals::storage_user;

// What a unit saves beyond this comes back in parts.
constexpr std::int64_t kMostBytesAGroup = std::int64_t{256} << 20;

class ByReference final : public SavedTensor {
 public:
  ByReference(const at::Tensor& tensor, std::string unit)
      : tensor_(torch_internals::without_history(tensor)), version_(tensor), unit_(std::move(unit)) {}

  at::Tensor restore() override {
    SHOAL_CHECK(!version_.changed(), OptionError,
                "a tensor that an operator of unit '{}' needs in backward was changed in place after it was saved",
                unit_);
    return tensor_;
  }

 private:
  at::Tensor tensor_;
  torch_internals::VersionWatch version_;
  std::string unit_;
};

// While it lives the flag is set.
class Raised {
 public:
  explicit Raised(bool& flag) : flag_(flag) { flag_ = true; }
  ~Raised() { flag_ = false; }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;

 private:
  bool& flag_;
};

std::vector<at::Tensor> last_tensors(const std::vector<c10::IValue>& stack, std::size_t count) {
  return tensors_among(std::span(stack).last(count));
}

}  // namespace

SavedOffload::SavedOffload(at::Device device, std::size_t least_bytes)
    : device_(device), least_bytes_(least_bytes), shelf_(std::make_shared<OffloadShelf>(device, kMostBytesAGroup)) {}

// Units take turns as operators use their parameters; those of the root alone do not end a unit's turn.
void SavedOffload::before_operator(std::span<torch_internals::StorageUser* const> users) {
  if (torch_internals::backward_pass() >= 0) return;
  const Unit& unit = static_cast<const UnitStorage*>(users.back())->unit();
  if (std::exchange(unit_, &unit) != &unit) shelf_->next_group();
}

bool SavedOffload::is_large(const at::Tensor& tensor) const {
  return tensor.defined() && tensor.layout() == at::kStrided && tensor.device() == device_ && tensor.has_storage() &&
         tensor.storage().nbytes() >= least_bytes_;
}

void SavedOffload::call(OperatorCall& call) {
  arguments_.clear();
  for (const at::Tensor& tensor : last_tensors(call.stack(), call.op().schema().arguments().size()))
    if (is_large(tensor)) arguments_.push_back(storage_identity(tensor));
  const Raised running(in_operator_);
  inner_ ? inner_->call(call) : call.run();
  for (const at::Tensor& tensor : last_tensors(call.stack(), call.op().schema().returns().size()))
    if (is_large(tensor) && was_made_here(tensor)) made_.insert(storage_identity(tensor));
}

// An operator's results, and what it made for itself, are not in memory that it was given. A storage that is gone
// leaves its address here, where only another one that was made inside the same run() can be taken for it.
bool SavedOffload::was_made_here(const at::Tensor& tensor) const {
  const void* const storage = storage_identity(tensor);
  if (made_.contains(storage)) return true;
  return in_operator_ && std::find(arguments_.begin(), arguments_.end(), storage) == arguments_.end();
}

std::unique_ptr<SavedTensor> SavedOffload::save(const at::Tensor& tensor) {
  const std::string unit = unit_ ? unit_->name() : "(root)";
  const bool plain = !tensor.is_inference() && !tensor.is_conj() && !tensor.is_neg() && !tensor.is_quantized();
  const bool goes = torch_internals::backward_pass() < 0 && is_large(tensor) && plain &&
                    storage_user(tensor) == nullptr && was_made_here(tensor);
  if (goes) return shelf_->put(tensor, unit);
  return std::make_unique<ByReference>(tensor, unit);
}

void SavedOffload::forget_pass() {
  inner_ = nullptr;
  unit_ = nullptr;
  made_.clear();
  shelf_->let_go();
}

std::unique_ptr<SavedOffload> make_saved_offload(bool on, at::Device device) {
  return on ? std::make_unique<SavedOffload>(device) : nullptr;
}

OffloadScope::OffloadScope(SavedOffload* offload, torch_internals::OperatorListener* inner) : offload_(offload) {
  if (offload_ == nullptr) return;
  offload_->inner_ = inner;
  listen_.emplace(*offload_);
  save_.emplace(*offload_);
}

OffloadScope::~OffloadScope() {
  if (offload_ == nullptr) return;
  try {
    offload_->forget_pass();
  } catch (const std::exception& error) {
    log::error("after a forward pass with --activation-offload: {}", error.what());
  }
}

}  // namespace shoal::fsdp
