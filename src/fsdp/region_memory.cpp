#include "fsdp/region_memory.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include "core/check.h"
#include "fsdp/current_stream.h"

namespace shoal::fsdp {

// On a stream of its own, so that the device's computation goes on beside it.
class RegionMemory::DeviceReader {
 public:
  explicit DeviceReader(const at::Tensor& tensor)
      : bytes_(tensor.detach().reshape({-1}).view(at::kByte)),
        stream_(c10::impl::VirtualGuardImpl(tensor.device().type()).getNewStream(tensor.device())),
        queued_(tensor.device().type()) {
    queued_.record(current_stream_of(tensor.device()));
  }

  void read(std::int64_t offset, std::byte* to, std::size_t bytes) {
    const at::NoGradGuard no_grad;
    const auto count = static_cast<std::int64_t>(bytes);
    queued_.block(stream_);
    const c10::StreamGuard guard(stream_);
    at::from_blob(to, {count}, at::kByte).copy_(bytes_.narrow(0, offset, count), /*non_blocking=*/true);
    stream_.synchronize();
  }

 private:
  at::Tensor bytes_;
  c10::Stream stream_;
  c10::Event queued_;
};

RegionMemory::RegionMemory(const at::Tensor& tensor, StateMemory memory, StateDict& state)
    : width_(tensor.element_size()) {
  SHOAL_ASSERT(tensor.is_contiguous());
  if (tensor.is_cpu()) {
    host_ = static_cast<std::byte*>(tensor.data_ptr());
    return;
  }
  if (memory == StateMemory::in_place) {
    if (tensor.numel() > 0) reader_ = std::make_shared<DeviceReader>(tensor);
    return;
  }
  const auto copy = std::make_shared<at::Tensor>(tensor.cpu());
  state.owned.push_back(copy);
  state.on_loaded.push_back([tensor, copy] {
    const at::NoGradGuard no_grad;
    at::Tensor(tensor).copy_(*copy);
  });
  host_ = static_cast<std::byte*>(copy->data_ptr());
}

Region RegionMemory::region(std::int64_t begin, std::int64_t count, std::int64_t first) const {
  Region region{begin, count, host_ == nullptr ? nullptr : host_ + first * width_, {}};
  if (reader_ != nullptr) {
    region.fetch = [reader = reader_, base = first * width_](std::int64_t offset, std::byte* to, std::size_t bytes) {
      reader->read(base + offset, to, bytes);
    };
  }
  return region;
}

}  // namespace shoal::fsdp
