// The block fsdp_config, where keys may lack the prefix, as in transformers' TrainingArguments.
#pragma once

#include "configs/section.h"

namespace shoal::configs {

// `block` with the prefix before each key; what begins with "xla" has none.
nlohmann::json with_fsdp_prefix(const nlohmann::json& block, const std::string& where);

// `replicated`: the shards have replicas (parallelism_config).
void translate_fsdp(Section fsdp, bool replicated);

}  // namespace shoal::configs
