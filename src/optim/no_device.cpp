#include "core/error.h"
#include "optim/device_squares.h"
#include "optim/device_step.h"
#include "optim/device_table.h"
#include "optim/update_rules.h"

namespace shoal::optim {
namespace {

[[noreturn]] void refuse() {
  throw DeviceError("this build has no CUDA backend: the optimizer works on host memory alone");
}

}  // namespace

struct DeviceTable::Memory {};
DeviceTable::DeviceTable(std::span<const DeviceSpan> /*spans*/) { refuse(); }
DeviceTable::~DeviceTable() = default;
const DevicePiece* DeviceTable::pieces() const { refuse(); }
const void* DeviceTable::upload(const void* /*from*/, std::size_t /*bytes*/, void* /*stream*/) { refuse(); }

struct DeviceSquares::Buffers {};
DeviceSquares::DeviceSquares(std::span<const std::int64_t> /*counts*/) { refuse(); }
DeviceSquares::~DeviceSquares() = default;
void DeviceSquares::start(std::span<const DeviceValues> /*arrays*/, void* /*stream*/) { refuse(); }
double DeviceSquares::finish(void* /*stream*/) { refuse(); }
void DeviceSquares::add_exactly(std::span<const DeviceValues> /*arrays*/, ExactSumOfSquares& /*total*/,
                                void* /*stream*/) {
  refuse();
}

template <typename T, typename Rule>
void step_on_device(DeviceTable& /*table*/, std::span<const DeviceArrays> /*arrays*/, std::span<const Rule> /*rules*/,
                    void* /*stream*/) {
  refuse();
}

#define SHOAL_INSTANTIATE(T, ...)                                                           \
  template void step_on_device<T, __VA_ARGS__>(DeviceTable&, std::span<const DeviceArrays>, \
                                               std::span<const __VA_ARGS__>, void*);
#include "optim/device_rules.inc"
#undef SHOAL_INSTANTIATE

}  // namespace shoal::optim
