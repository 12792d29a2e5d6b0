#include "checkpoint/saved_optimizer.h"

#include <algorithm>
#include <array>

#include "checkpoint/file_names.h"
#include "checkpoint/weights_names.h"
#include "core/check.h"
#include "shard/dtype.h"

namespace shoal::checkpoint {
namespace {

using formats::PickleNode;
using formats::PickleRef;
using formats::StoredTensor;
using formats::TorchArchive;
using Kind = PickleNode::Kind;

constexpr std::array<std::string_view, 25> kGlobals{"torch.device",
                                                    "torch.Generator",
                                                    "argparse.Namespace",
                                                    "builtins.set",
                                                    "builtins.list",
                                                    "builtins.dict",
                                                    "builtins.int",
                                                    "builtins.float",
                                                    "__builtin__.set",
                                                    "collections.defaultdict",
                                                    "collections.Counter",
                                                    "numpy.dtype",
                                                    "numpy.ndarray",
                                                    "numpy.core.multiarray.scalar",
                                                    "numpy._core.multiarray.scalar",
                                                    "numpy.core.multiarray._reconstruct",
                                                    "numpy._core.multiarray._reconstruct",
                                                    "_codecs.encode",
                                                    "pathlib.PosixPath",
                                                    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
                                                    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
                                                    "deepspeed.runtime.zero.config.ZeroStageEnum",
                                                    "deepspeed.runtime.zero.stage_enum.ZeroStageEnum",
                                                    "deepspeed.utils.tensor_fragment.fragment_address",
                                                    "deepspeed.utils.tensor_fragment.tensor_fragment"};

// Buffers of normalisation layers, which have no state.
bool is_running_statistic(const std::string& name) {
  return name.ends_with(".running_mean") || name.ends_with(".running_var");
}

// {number of the parameter: its name}
class Names {
 public:
  Names(TorchArchive& archive, const PickleNode& optimizer, const std::vector<StoredTensor>& model)
      : archive_(archive) {
    for (const StoredTensor& tensor : model)
      if (is_floating(tensor.spec.dtype) && !is_running_statistic(tensor.spec.name) && !is_known_buffer(tensor.spec))
        model_.push_back(&tensor.spec);
    const PickleNode* groups = archive.find(optimizer, "param_groups");
    if (groups == nullptr) return;
    for (const PickleRef group : groups->items) add_group(archive.at(group));
    groups_ = groups->items.size();
  }

  std::string of(const PickleNode& key) const {
    if (key.kind == Kind::text) return unwrapped(key.text);
    const auto named = named_.find(key.integer);
    if (named != named_.end()) return named->second;
    SHOAL_CHECK(groups_ == 1, CheckpointError,
                "{}: the optimizer has {} groups of numbered parameters, and the file does not tell their names: give "
                "named_parameters() to it, save with torch.distributed.checkpoint.state_dict, or import the weights "
                "alone (--weights-only)",
                archive_.path(), groups_);
    SHOAL_CHECK(static_cast<std::size_t>(numbers_) == model_.size() && key.integer >= 0 && key.integer < numbers_,
                CheckpointError,
                "{}: the optimizer has {} parameters and the model {}, so that their names are not known; import the "
                "weights alone (--weights-only)",
                archive_.path(), numbers_, model_.size());
    return std::string(parameter_name(model_[static_cast<std::size_t>(key.integer)]->name));
  }

  // CheckpointError where a state is of another shape than its parameter.
  void check_shape(const std::string& parameter, const StoredTensor& state) const {
    const auto found = std::find_if(model_.begin(), model_.end(),
                                    [&](const TensorSpec* spec) { return parameter_name(spec->name) == parameter; });
    SHOAL_CHECK(
        found != model_.end() && (*found)->shape == state.spec.shape, CheckpointError,
        "{}: the optimizer's state of '{}' has another shape than the parameter, or none of that name is there; "
        "import the weights alone (--weights-only)",
        archive_.path(), parameter);
  }

 private:
  void add_group(const PickleNode& group) {
    const PickleNode* parameters = archive_.find(group, "params");
    const PickleNode* names = archive_.find(group, "param_names");
    if (parameters == nullptr) return;
    for (std::size_t i = 0; i < parameters->items.size(); ++i) {
      const PickleNode& number = archive_.at(parameters->items[i]);
      if (number.kind == Kind::integer) ++numbers_;
      if (names != nullptr && i < names->items.size() && archive_.at(names->items[i]).kind == Kind::text)
        named_[number.integer] = unwrapped(archive_.at(names->items[i]).text);
    }
  }

  const TorchArchive& archive_;
  std::vector<const TensorSpec*> model_;  // its parameters, in order
  std::map<std::int64_t, std::string> named_;
  std::int64_t numbers_ = 0;
  std::size_t groups_ = 0;
};

}  // namespace

bool is_training_global(std::string_view global) {
  return std::find(kGlobals.begin(), kGlobals.end(), global) != kGlobals.end();
}

void note_groups(TorchArchive& archive, const PickleNode* groups, OptimizerFacts& facts) {
  if (groups == nullptr) return;
  for (const PickleRef group : groups->items)
    for (const char* name : {"lr", "eps", "weight_decay", "decoupled_weight_decay"}) {
      const PickleNode* value = archive.find(archive.at(group), name);
      if (value == nullptr) continue;
      if (value->kind == Kind::boolean)
        facts.setting(name, value->integer != 0 ? "true" : "false");
      else if (const auto number = archive.number(*value))
        facts.setting(name, fmt::format("{}", *number));
    }
}

std::vector<StoredTensor> read_saved_optimizer(TorchArchive& archive, const PickleNode& optimizer,
                                               const std::vector<StoredTensor>& model, OptimizerFacts& facts) {
  const Names names(archive, optimizer, model);
  std::vector<StoredTensor> moments;
  const PickleNode* states = archive.find(optimizer, "state");
  SHOAL_CHECK(states != nullptr && archive.is_dictionary(*states), CheckpointError,
              "{}: the optimizer has no dictionary 'state'", archive.path());
  for (const auto& [key, value] : states->entries) {
    const std::string parameter = names.of(archive.at(key));
    for (const auto& [state, moment] : archive.at(value).entries) {
      const std::string name = TorchArchive::name_of_key(archive.at(state));
      const PickleNode* call = archive.as_tensor(archive.at(moment));
      if (name == "step" || call == nullptr) {
        if (const auto number = archive.number(archive.at(moment)); number && name == "step")
          facts.step(*number, parameter);
        continue;
      }
      std::string reason;
      auto stored = archive.place(*call, fmt::format("{}{}/{}", kOptimizerPrefix, name, parameter), reason);
      SHOAL_CHECK(stored, CheckpointError, "{}: the optimizer's {} of '{}' {}", archive.path(), name, parameter,
                  reason);
      names.check_shape(parameter, *stored);
      moments.push_back(std::move(*stored));
    }
  }
  note_groups(archive, archive.find(optimizer, "param_groups"), facts);
  return moments;
}

}  // namespace shoal::checkpoint
