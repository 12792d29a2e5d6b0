#include "fsdp/unit_buffers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "fsdp/unit.h"

namespace shoal::fsdp {
namespace {

// Pieces of one allocation of a group. All are asked for before any is there, so that a group has one registration.
class Arena {
 public:
  using Taker = std::function<void(at::Tensor)>;
  void ask(std::int64_t bytes, Taker taker) {
    if (bytes > 0) pieces_.emplace_back(bytes, std::move(taker));
  }
  // Collective over `group`. Hands every piece to its taker; the memory stays while one of them does.
  void allocate(comm::ProcessGroup& group, at::Device device) {
    if (bytes() > 0) hand_out(group.allocate(bytes()), device);
  }
  // The same in memory that no group knows of.
  void allocate_plain(at::Device device) {
    if (bytes() == 0) return;
    const at::Tensor memory = at::empty({bytes()}, at::TensorOptions(device).dtype(at::kByte));
    hand_out(std::shared_ptr<void>(memory.data_ptr(), [memory](void*) {}), device);
  }

 private:
  std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const auto& piece : pieces_) bytes += aligned(piece.first);
    return bytes;
  }
  void hand_out(const std::shared_ptr<void>& memory, at::Device device) {
    auto* at = static_cast<std::byte*>(memory.get());
    for (const auto& [size, taker] : pieces_) {
      taker(at::for_blob(at, {size})
                .deleter([memory](void*) {})
                .options(at::TensorOptions(device).dtype(at::kByte))
                .target_device(device)
                .make_tensor());
      at += aligned(size);
    }
  }

  std::vector<std::pair<std::int64_t, Taker>> pieces_;
};

// Whether gradients are exchanged, and not reduced by the group, which wants them out of its memory.
bool exchanges_gradients(const std::vector<std::unique_ptr<Unit>>& units) {
  const auto is_reduced = [](const auto& flat) { return flat->sizes().sent > 0 && flat->sizes().received == 0; };
  return std::none_of(units.begin(), units.end(), [&](const auto& unit) {
    return std::any_of(unit->flats().begin(), unit->flats().end(), is_reduced);
  });
}

// What a flat parameter's buffers are lent to: all who acquire one know its layout.
const void* owner_of(const FlatParameter& flat) { return &flat.layout(); }

}  // namespace

UnitBuffers::UnitBuffers(at::Device device)
    : device_(device),
      units_(device),
      root_(device),
      device_pool_(device, /*pinned=*/false, device.is_cpu() ? BufferPool::Spare::kept : BufferPool::Spare::given_back),
      host_pool_(at::kCPU, !device.is_cpu()),
      copies_(device) {}

UnitBuffers::Pools& UnitBuffers::pools_of(const Unit& unit) { return unit.is_root() ? root_ : units_; }
BufferPool& UnitBuffers::parameters(const Unit& unit) { return pools_of(unit).parameters; }
BufferPool& UnitBuffers::gradients(const Unit& unit) { return pools_of(unit).gradients; }
BufferPool& UnitBuffers::received(const Unit& unit) { return pools_of(unit).received; }

void UnitBuffers::reserve(const std::vector<std::unique_ptr<Unit>>& units, const BufferPlans& plans,
                          comm::DeviceMesh& mesh) {
  Arena shard, reduce;
  const auto ask = [&](Arena& arena, BufferPool Pools::*pool, const BufferPlan& plan) {
    arena.ask(plan.shared, [pool, this](at::Tensor memory) { (units_.*pool).reserve(std::move(memory)); });
    arena.ask(plan.root, [pool, this](at::Tensor memory) { (root_.*pool).reserve(std::move(memory)); });
    for (std::size_t u = 0; u < units.size(); ++u)
      for (std::size_t f = 0; f < units[u]->flats().size(); ++f)
        (pools_of(*units[u]).*pool).set_place(owner_of(*units[u]->flats()[f]), plan.places[u][f]);
  };
  ask(shard, &Pools::parameters, plans.parameters);
  ask(reduce, &Pools::gradients, plans.sent);
  ask(reduce, &Pools::received, plans.received);
  for (const auto& unit : units) {
    for (const auto& flat : unit->flats()) {
      shard_bytes_ += flat->sizes().placed;
      shard.ask(flat->sizes().placed, [&flat](const at::Tensor& memory) { flat->place_shard(memory); });
    }
  }
  shard.allocate(mesh.shard(), device_);
  if (exchanges_gradients(units))
    reduce.allocate(mesh.reduce(), device_);
  else
    reduce.allocate_plain(device_);
}

std::int64_t UnitBuffers::bytes() const {
  std::int64_t bytes = shard_bytes_ + device_pool_.bytes() + host_pool_.bytes();
  for (const Pools* pools : {&units_, &root_})
    bytes += pools->parameters.bytes() + pools->gradients.bytes() + pools->received.bytes();
  return bytes;
}

int UnitBuffers::unplanned() const {
  int made = 0;
  for (const Pools* pools : {&units_, &root_})
    made += pools->parameters.made() + pools->gradients.made() + pools->received.made();
  return made;
}

}  // namespace shoal::fsdp
