#include "optim/device_table.h"

#include <algorithm>
#include <vector>

#include "optim/device_memory.h"

namespace shoal::optim {
namespace {

// 256 threads have eight times four elements each: enough for a block to be worth its start, and of pieces enough to
// fill a GPU already with a million elements.
constexpr std::int64_t kPiece = 8192;

std::vector<DevicePiece> cut(std::span<const DeviceSpan> spans) {
  std::vector<DevicePiece> pieces;
  for (const DeviceSpan& span : spans) {
    const std::int64_t end = span.begin + span.count;
    for (std::int64_t begin = span.begin; begin < end;) {
      const std::int64_t next = std::min(end, (begin / kPiece + 1) * kPiece);
      pieces.push_back({span.array, span.group, begin, next});
      begin = next;
    }
  }
  return pieces;
}

}  // namespace

struct DeviceTable::Memory {
  DeviceMemory pieces, uploaded;
};

DeviceTable::DeviceTable(std::span<const DeviceSpan> spans) : memory_(std::make_unique<Memory>()) {
  const std::vector<DevicePiece> pieces = cut(spans);
  const std::size_t bytes = pieces.size() * sizeof(DevicePiece);
  size_ = static_cast<std::int64_t>(pieces.size());
  memory_->pieces = DeviceMemory(bytes);
  if (bytes == 0) return;
  check_cuda(cudaMemcpy(memory_->pieces.as<void>(), pieces.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
}

DeviceTable::~DeviceTable() = default;

const DevicePiece* DeviceTable::pieces() const { return memory_->pieces.as<const DevicePiece>(); }

const void* DeviceTable::upload(const void* from, std::size_t bytes, void* stream) {
  if (memory_->uploaded.bytes() < bytes) memory_->uploaded = DeviceMemory(bytes);
  // From memory that is not pinned the copy is staged before the call returns, and waits for nothing.
  check_cuda(cudaMemcpyAsync(memory_->uploaded.as<void>(), from, bytes, cudaMemcpyHostToDevice,
                             static_cast<cudaStream_t>(stream)),
             "cudaMemcpyAsync");
  return memory_->uploaded.as<const void>();
}

}  // namespace shoal::optim
