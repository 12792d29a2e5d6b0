// The memory of some of a unit's parameters, as interception meets it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>

#include "fsdp/torch_internals.h"

namespace shoal::fsdp {

class Unit;

class UnitStorage : public torch_internals::StorageUser {
 public:
  // `unit` and `owner` outlive this; the rest as StorageUser has it.
  UnitStorage(torch_internals::StorageOwner& owner, Unit& unit, std::int64_t numel, at::ScalarType dtype,
              at::Device device, std::string unavailable)
      : StorageUser(owner, numel, dtype, device, std::move(unavailable)), unit_(&unit) {}

  Unit& unit() const { return *unit_; }

 private:
  Unit* unit_;
};

}  // namespace shoal::fsdp
