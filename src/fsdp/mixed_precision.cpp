#include "fsdp/mixed_precision.h"

#include <optional>

#include "core/check.h"
#include "fsdp/fully_shard.h"

namespace shoal::fsdp {
namespace {

bool is_16_bit(at::ScalarType type) { return type == at::kHalf || type == at::kBFloat16; }

void check_type(const char* flag, std::optional<at::ScalarType> type) {
  if (!type) return;
  SHOAL_CHECK(is_16_bit(*type) || *type == at::kFloat || *type == at::kDouble, OptionError,
              "{} cannot be {}: expected fp32, bf16 or fp16", flag, c10::toString(*type));
}

}  // namespace

FlatDtypes flat_dtypes(at::ScalarType module, const FullyShardOptions& options) {
  if (!c10::isFloatingType(module)) return {module, module, module, module};
  const MixedPrecisionPolicy& policy = options.mixed_precision;
  FlatDtypes types{};
  types.module = module;
  types.params = policy.param_dtype.value_or(module);
  types.masters = is_16_bit(module) ? at::kFloat : module;
  const at::ScalarType exact = is_16_bit(types.params) ? at::kFloat : types.params;
  types.reduced = policy.reduce_dtype.value_or(options.deterministic ? types.masters : exact);
  return types;
}

at::ScalarType FlatDtypes::sent() const {
  return c10::elementSize(reduced) > c10::elementSize(params) ? params : reduced;
}

void check_mixed_precision(const FullyShardOptions& options) {
  const MixedPrecisionPolicy& policy = options.mixed_precision;
  check_type("--param-dtype", policy.param_dtype);
  check_type("--reduce-dtype", policy.reduce_dtype);
  check_type("--buffer-dtype", policy.buffer_dtype);
  SHOAL_CHECK(!options.deterministic || !policy.reduce_dtype || !is_16_bit(*policy.reduce_dtype), OptionError,
              "--deterministic with --reduce-dtype {}: sums would be rounded to 16 bits once for each collective, and "
              "so depend on the number of ranks; take --reduce-dtype fp32",
              *policy.reduce_dtype == at::kHalf ? "fp16" : "bf16");
}

}  // namespace shoal::fsdp
