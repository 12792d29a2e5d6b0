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
  at::ScalarType reduced;  // the whole gradient, and what is reduce-scattered
};

// Integers stay what they are. Deterministic sums are reduced in the masters' type unless the policy names another.
FlatDtypes flat_dtypes(at::ScalarType module, const FullyShardOptions& options);

// OptionError for a type that is no type to train in, and for deterministic sums that would be rounded to 16 bits
// between ranks.
void check_mixed_precision(const FullyShardOptions& options);

}  // namespace shoal::fsdp
