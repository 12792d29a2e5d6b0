// Which element types the tensors of a parameter have, as MixedPrecisionPolicy asks for it.
#pragma once

#include <c10/core/ScalarType.h>

namespace shoal::fsdp {

struct FullyShardOptions;

// Of one flat parameter.
struct FlatDtypes {
  at::ScalarType module;   // as the module was built
  at::ScalarType params;   // what operators see and what is all-gathered
  at::ScalarType masters;  // what the optimizer works on: float64 for a float64 module, else float32
  at::ScalarType reduced;  // what gradients are summed in, over ranks and over run()s that keep them whole

  // What the gradient of one backward pass is sent in. Autograd's gradients are of the parameters' type: where
  // `reduced` holds all its values and is wider, sending these and adding them up in `reduced` gives the same bits.
  at::ScalarType sent() const;
};

// Whether a gradient of `sent` is exchanged and summed by the ranks that receive it, and so needs a buffer of its own
// size to be received in.
inline bool adds_up_here(const FlatDtypes& dtypes, at::ScalarType sent, bool fixed_order) {
  return sent != dtypes.reduced || fixed_order;
}

// Integers stay what they are. Unless the policy names another type, gradients are summed in that of the parameters,
// but in float32 for 16-bit ones, and deterministic sums in that of the masters.
FlatDtypes flat_dtypes(at::ScalarType module, const FullyShardOptions& options);

// OptionError for a type that is no type to train in, and for deterministic sums that would be rounded to 16 bits
// between ranks.
void check_mixed_precision(const FullyShardOptions& options);

}  // namespace shoal::fsdp
