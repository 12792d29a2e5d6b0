// Directories of torch.distributed.checkpoint: a ".metadata" and files of chunks, each of them as torch.save writes it.
#include <algorithm>
#include <array>

#include "checkpoint/dcp_chunks.h"
#include "checkpoint/file_names.h"
#include "checkpoint/foreign_names.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

using formats::DcpEntry;
using formats::PickleNode;

constexpr const char* kMetadataName = ".metadata";
constexpr std::int64_t kMostMetadataBytes = 1 << 30;
constexpr std::array<std::string_view, 4> kOptimizers{"optimizer", "optim", "optimizer_state_dict", "optimizers"};
constexpr std::array<std::string_view, 4> kModels{"model", "module", "model_state_dict", "state_dict"};

template <typename Names>
std::size_t find_any(const std::vector<std::string>& path, const Names& names) {
  for (std::size_t i = 0; i < path.size(); ++i)
    if (std::find(names.begin(), names.end(), path[i]) != names.end()) return i;
  return path.size();
}

std::string joined(const std::vector<std::string>& path, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < path.size(); ++i) text += (i == from ? "" : ".") + path[i];
  return text;
}

// The part of a model's name behind `key`, which may end within the path; nothing where it is another's.
std::optional<std::string> behind(const DcpEntry& entry, const std::string& key) {
  const std::string whole = joined(entry.path, 0);
  if (whole.size() <= key.size() + 1 || !whole.starts_with(key) || whole[key.size()] != '.') return std::nullopt;
  return whole.substr(key.size() + 1);
}

class Directory {
 public:
  Directory(const fs::path& path, const ForeignOptions& options)
      : key_(options.key), weights_only_(options.weights_only) {
    const fs::path metadata = path / kMetadataName;
    SHOAL_CHECK(InputFile(metadata).size() <= kMostMetadataBytes, CheckpointError, "{} is too large: it is damaged",
                metadata.string());
    entries_ = formats::read_dcp_metadata(read_text_file(metadata), metadata.string());
    chunks_ = std::make_shared<DcpChunks>(path);
    state_.path = path;
    state_.contents.format = "torch.distributed.checkpoint";
  }

  ForeignState read() {
    std::vector<DcpEntry> kept;
    const bool nested = key_.empty() && std::any_of(entries_.begin(), entries_.end(), [](const DcpEntry& entry) {
                          return entry.path.size() > 1 && is_model(entry);
                        });
    for (DcpEntry& entry : entries_)
      if (const std::string name = name_of(entry, nested); !name.empty()) {
        state_.contents.tensors.push_back({name, *entry.known, entry.shape});
        kept.push_back(std::move(entry));
      }
    const auto& tensors = state_.contents.tensors;
    SHOAL_CHECK(
        std::any_of(tensors.begin(), tensors.end(), [](const TensorSpec& t) { return is_model_tensor(t.name); }),
        CheckpointError, "{} holds no tensors of a model{}", state_.path.string(),
        key_.empty() ? "" : " under '" + key_ + "' (--key)");
    state_.contents.read = [chunks = chunks_, kept = std::move(kept)](std::size_t tensor, std::int64_t begin,
                                                                      std::int64_t count, std::byte* into) {
      chunks->read(kept[tensor], begin, count, into);
    };
    facts_.finish(state_);
    return std::move(state_);
  }

 private:
  static bool is_model(const DcpEntry& entry) {
    const std::size_t model = find_any(entry.path, kModels);
    return model + 1 < entry.path.size() && find_any(entry.path, kOptimizers) > model;
  }

  // What the tensor is called here; empty for what is none, or is not wanted. Notes the optimizer's steps and settings.
  std::string name_of(const DcpEntry& entry, bool nested) {
    const std::size_t optimizer = find_any(entry.path, kOptimizers);
    if (optimizer + 1 < entry.path.size())
      return weights_only_ ? "" : name_of_state(entry, joined(entry.path, optimizer + 1));
    std::optional<std::string> name;
    if (!key_.empty())
      name = behind(entry, key_);
    else if (nested && entry.path.size() > 1 && is_model(entry))
      name = joined(entry.path, find_any(entry.path, kModels) + 1);
    else if (!nested && (entry.path.size() == 1 || entry.tensor))
      name = joined(entry.path, 0);
    if (!name || (!entry.tensor && !nested && key_.empty())) return "";
    if (entry.tensor && entry.known) return std::string(kModelPrefix) + unwrapped(*name);
    state_.contents.others.push_back(
        {*name, entry.tensor ? "has the element type " + entry.dtype : std::string("is no tensor")});
    return "";
  }

  // "state.NAME.exp_avg", "param_groups.0.lr"
  std::string name_of_state(const DcpEntry& entry, const std::string& name) {
    constexpr std::string_view kState = "state.";
    const std::size_t state = name.find(kState), dot = name.rfind('.');
    if (name.find("param_groups.") == 0) note_setting(entry, name.substr(dot + 1));
    if (state != 0 || dot < kState.size()) return "";
    const std::string parameter = unwrapped(name.substr(kState.size(), dot - kState.size()));
    if (name.substr(dot + 1) == "step") {
      if (const auto value = chunks_->number(entry)) facts_.step(*value, parameter);
      return "";
    }
    if (!entry.tensor) return "";
    SHOAL_CHECK(entry.known, CheckpointError, "{}: '{}' has the element type {}, which Shoal does not have",
                state_.path.string(), entry.key, entry.dtype);
    return fmt::format("{}{}/{}", kOptimizerPrefix, name.substr(dot + 1), parameter);
  }

  void note_setting(const DcpEntry& entry, const std::string& setting) {
    if (entry.tensor) return;
    if (setting == "decoupled_weight_decay") {
      if (const auto value = chunks_->number(entry)) facts_.setting(setting, *value != 0 ? "true" : "false");
    } else if (setting == "lr" || setting == "weight_decay" || setting == "eps") {
      if (const auto value = chunks_->number(entry)) facts_.setting(setting, fmt::format("{}", *value));
    }
  }

  const std::string& key_;
  bool weights_only_;
  std::vector<DcpEntry> entries_;
  std::shared_ptr<DcpChunks> chunks_;
  OptimizerFacts facts_;
  ForeignState state_;
};

}  // namespace

bool is_dcp_directory(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / kMetadataName, ignored);
}

ForeignState open_dcp(const fs::path& path, const ForeignOptions& options) { return Directory(path, options).read(); }

}  // namespace shoal::checkpoint
