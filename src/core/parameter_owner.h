// What a tensor's storage says of who lends its memory, so that those who compute with a parameter and those who hold
// it need not know each other.
#pragma once

#include <cstdint>

namespace shoal {

class ParameterOwner {
 public:
  virtual ~ParameterOwner() = default;
  // Memory in which the gradient of the parameter at `begin` of the storage (both in bytes) is wanted, so that who
  // computes it in a backward pass may leave it there, contiguous and of the parameter's type, before it goes to
  // autograd; null where it is wanted nowhere in particular. To be asked once for each gradient, right before it is
  // computed.
  virtual void* gradient_place(std::int64_t begin, std::int64_t bytes) = 0;
};

// The deleter of the data pointer of such a storage, beside which the ParameterOwner* is the context. It deletes
// nothing: owners take the memory back themselves.
void lent_by_owner(void* owner) noexcept;

}  // namespace shoal
