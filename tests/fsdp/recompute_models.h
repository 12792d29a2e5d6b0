// Models for recomputation: blocks with the operators that a replay could get wrong.
#pragma once

#include "fsdp/harness.h"

namespace shoal::testing {

// Four blocks of attention with dropout in several places, in-place operators on fresh tensors and on views, lists of
// tensors, indexing, a custom autograd function and code that asks for a number on the way. In train mode.
TestModel make_attention();
TestModel make_batch_norm();  // blocks with batch norm in train mode
TestModel make_nested();      // a block whose own parameters are used before, between and after those of blocks in it
TestModel make_again();       // one Block applied four times in a row

// A Block around `body`, which takes the Block's norm of the unit's input, and the input itself.
TestModel make_with(std::function<at::Tensor(at::Tensor normed, at::Tensor input)> body);

}  // namespace shoal::testing
