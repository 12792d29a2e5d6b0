#include "checkpoint/deepspeed_parts.h"

#include <algorithm>
#include <regex>
#include <set>

#include "checkpoint/file_names.h"
#include "checkpoint/saved_optimizer.h"
#include "checkpoint/stored_elements.h"
#include "core/check.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;

using formats::PickleNode;
using formats::PickleRef;
using formats::StoredTensor;
using formats::TorchArchive;
using Kind = PickleNode::Kind;

namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 60;

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t extent : shape) numel *= extent;
  return numel;
}

// {"weight": torch.Size}, one or a list of them, one for each parameter group.
std::vector<const PickleNode*> groups_of(const TorchArchive& archive, const PickleNode* shapes) {
  if (shapes == nullptr) return {};
  if (archive.is_dictionary(*shapes)) return {shapes};
  std::vector<const PickleNode*> groups;
  for (const PickleRef group : shapes->items) groups.push_back(&archive.at(group));
  return groups;
}

std::string name_of(const std::string& kind, const std::string& parameter) {
  return kind == FlatPartitions::kMasters ? fmt::format("{}{}", kModelPrefix, unwrapped(parameter))
                                          : fmt::format("{}{}/{}", kOptimizerPrefix, kind, unwrapped(parameter));
}

}  // namespace

void DeepspeedParts::fail(const std::string& what) const { throw CheckpointError("{}: {}", folder_.string(), what); }

DeepspeedParts::DeepspeedParts(const fs::path& folder, bool with_moments)
    : folder_(folder), files_(folder), with_moments_(with_moments) {
  find_files();
}

std::unique_ptr<TorchArchive> DeepspeedParts::open(const std::string& name) {
  return std::make_unique<TorchArchive>(source_of(files_.open(name), files_.path(name)), is_training_global);
}

void DeepspeedParts::find_files() {
  static const std::regex kName(
      R"((?:[a-z0-9]+_)?(?:zero_pp_rank_(\d{1,6})_)?mp_rank_(\d{1,6})_(model|optim)_states\.pt)");
  std::map<int, std::string> model, optimizer;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    std::smatch match;
    if (!std::regex_match(name, match, kName)) continue;
    if (std::stoi(match[2]) != 0)
      fail("it was written with tensor parallelism (mp_rank_01); convert it with DeepSpeed's ds_to_universal.py first");
    auto& files = match[3] == "model" ? model : optimizer;
    if (!files.emplace(match[1].length() == 0 ? 0 : std::stoi(match[1]), name).second)
      fail(fmt::format("it has two files of the rank of '{}'", name));
  }
  SHOAL_CHECK(!error, IoError, "cannot examine {}: {}", folder_.string(), error.message());
  for (auto& [rank, name] : model) model_files_.push_back(name);
  for (auto& [rank, name] : optimizer) optimizer_files_.push_back(name);
  if (model_files_.empty()) fail("it has no *_model_states.pt of rank 0");
  if (!optimizer.empty() && optimizer.rbegin()->first + 1 != static_cast<int>(optimizer.size()))
    fail("an *_optim_states.pt of a rank is missing");
  if (!model.empty() && model.rbegin()->first + 1 != static_cast<int>(model.size()))
    fail("a *_model_states.pt of a rank is missing");
  if (!optimizer_files_.empty()) {
    const auto archive = open(optimizer_files_.front());
    const PickleNode* states = archive->find(archive->root(), "optimizer_state_dict");
    const PickleNode* stage = states == nullptr ? nullptr : archive->find(*states, "zero_stage");
    if (stage != nullptr && stage->kind == Kind::call && !archive->at(stage->items[1]).items.empty())
      stage = &archive->at(archive->at(stage->items[1]).items[0]);
    if (stage == nullptr || stage->kind != Kind::integer || stage->integer < 1 || stage->integer > 3)
      fail(optimizer_files_.front() + " tells no stage of ZeRO");
    stage_ = static_cast<int>(stage->integer);
  }
}

void DeepspeedParts::read_rank(std::size_t rank, OptimizerFacts& facts) {
  const std::string& file = optimizer_files_[rank];
  const auto archive = open(file);
  const PickleNode* state = archive->find(archive->root(), "optimizer_state_dict");
  if (state == nullptr) fail(file + " has no optimizer_state_dict");
  std::int64_t count = 0;
  if (const PickleNode* partitions = archive->find(*state, "partition_count")) {
    count = partitions->integer;
    for (const PickleRef item : partitions->items) count = std::max(count, archive->at(item).integer);
  }
  if (count != static_cast<std::int64_t>(optimizer_files_.size()))
    fail(fmt::format("{} ranks wrote it, and there are {} files *_optim_states.pt", count, optimizer_files_.size()));
  const char* key = stage_ == 3 ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
  const PickleNode* masters = archive->find(*state, key);
  if (masters == nullptr || masters->kind != Kind::list) fail(fmt::format("{} has no list {}", file, key));
  FlatPartitions::Part flat{file, {}};
  for (const PickleRef group : masters->items) {
    const PickleNode* call = archive->as_tensor(archive->at(group));
    std::string reason = "is no tensor";
    std::optional<StoredTensor> stored;
    if (call != nullptr) stored = archive->place(*call, key, reason);
    if (!stored || stored->spec.shape.size() != 1) fail(fmt::format("{}: an element of {} {}", file, key, reason));
    flat.groups.push_back(std::move(*stored));
  }
  partitions_.kinds[FlatPartitions::kMasters].push_back(std::move(flat));
  if (const PickleNode* paddings = archive->find(*state, "param_alignment_paddings"); paddings != nullptr && rank == 0)
    for (const PickleRef group : paddings->items)
      partitions_.paddings.push_back(archive->integers(archive->at(group), "paddings"));
  if (with_moments_) read_moments(rank, *archive, *state, facts);
}

// {"state": {0: {"exp_avg": …}}}, numbered as the groups are.
void DeepspeedParts::read_moments(std::size_t rank, TorchArchive& archive, const PickleNode& state,
                                  OptimizerFacts& facts) {
  const PickleNode* base = archive.find(state, stage_ == 3 ? "optimizer_state_dict" : "base_optimizer_state");
  const PickleNode* states = base == nullptr ? nullptr : archive.find(*base, "state");
  if (states == nullptr) return;  // of an elastic checkpoint, or removed: the weights alone
  const std::size_t groups = partitions_.kinds[FlatPartitions::kMasters][rank].groups.size();
  for (const auto& [key, values] : states->entries) {
    const auto group = static_cast<std::size_t>(archive.at(key).integer);
    if (archive.at(key).kind != Kind::integer || group >= groups)
      fail(optimizer_files_[rank] + ": a state is of no group");
    for (const auto& [name_node, value] : archive.at(values).entries) {
      const std::string name = TorchArchive::name_of_key(archive.at(name_node));
      if (name == "step") {
        if (const auto step = archive.number(archive.at(value))) facts.step(*step, fmt::format("group {}", group));
        continue;
      }
      const PickleNode* call = archive.as_tensor(archive.at(value));
      std::string reason;
      std::optional<StoredTensor> stored;
      if (call != nullptr) stored = archive.place(*call, name, reason);
      if (!stored || stored->spec.shape.size() != 1) continue;
      std::vector<FlatPartitions::Part>& flats = partitions_.kinds[name];
      flats.resize(rank + 1);
      flats[rank].file = optimizer_files_[rank];
      flats[rank].groups.resize(groups);
      flats[rank].groups[group] = std::move(*stored);
    }
  }
  note_groups(archive, archive.find(*base, "param_groups"), facts);
}

void DeepspeedParts::add_trained(TorchArchive& model, std::vector<PiecedTensor>& tensors) const {
  const std::vector<const PickleNode*> groups = groups_of(model, model.find(model.root(), "param_shapes"));
  if (groups.empty()) fail(model_files_.front() + " has no param_shapes");
  const auto ranks = static_cast<std::int64_t>(optimizer_files_.size());
  for (const auto& [kind, flats] : partitions_.kinds) {
    std::int64_t begin = 0;
    for (std::size_t group = 0; group < groups.size(); ++group) {
      if (stage_ != 3) begin = 0;
      for (std::size_t i = 0; i < groups[group]->entries.size(); ++i) {
        const auto& [key, size] = groups[group]->entries[i];
        const std::string parameter = TorchArchive::name_of_key(model.at(key));
        PiecedTensor tensor{{name_of(kind, parameter), DType::float32, model.integers(model.at(size), parameter)}, {}};
        const auto bytes = formats::bytes_of(DType::float32, tensor.spec.shape);
        if (!bytes) fail(fmt::format("'{}' has an impossible shape", parameter));
        const std::int64_t numel = product(tensor.spec.shape);
        tensor.pieces = partitions_.pieces(kind, stage_ == 3, group, begin, numel);
        if (tensor.pieces.empty() && numel > 0)
          fail(fmt::format("the partitions of '{}' ({}) do not add up to it", parameter, kind));
        for (const TensorPiece& piece : tensor.pieces)
          if (piece.stored.spec.dtype != tensor.pieces.front().stored.spec.dtype)
            fail(fmt::format("the partitions of '{}' have different types", parameter));
        if (!tensor.pieces.empty()) tensor.spec.dtype = tensor.pieces.front().stored.spec.dtype;
        tensors.push_back(std::move(tensor));
        begin += stage_ == 3 ? (numel + ranks - 1) / ranks : numel;
        begin += std::min(partitions_.padding(group, i), kMostElements);
        if (begin > kMostElements) fail("its parameters have an impossible size");
      }
    }
  }
}

PiecedTensor DeepspeedParts::whole(TorchArchive& archive, const std::string& file, const std::string& name,
                                   const PickleNode& node) const {
  const PickleNode* call = archive.as_tensor(node);
  std::string reason = "is no tensor";
  std::optional<StoredTensor> stored;
  if (call != nullptr) stored = archive.place(*call, name, reason);
  if (!stored) fail(fmt::format("{}: '{}' {}", file, name, reason));
  stored->spec.name = name_of(FlatPartitions::kMasters, name);
  const TensorSpec spec = stored->spec;
  return {spec, {{{0, spec.numel()}, file, std::move(*stored), 0}}};
}

// Buffers, and with ZeRO-1 the frozen parameters: the module has them whole.
void DeepspeedParts::add_rest(TorchArchive& model, std::vector<PiecedTensor>& tensors, const Aliases& aliases) const {
  const PickleNode *names = model.find(model.root(), "buffer_names"), *module = model.find(model.root(), "module");
  if (names == nullptr || module == nullptr) return;
  std::set<std::string> known, buffers;
  for (const PiecedTensor& tensor : tensors) known.insert(tensor.spec.name);
  for (const auto& [alias, name] : aliases) known.insert(alias);
  for (const PickleRef name : names->items) buffers.insert(model.at(name).text);
  for (const auto& [key, value] : module->entries) {
    const std::string name = TorchArchive::name_of_key(model.at(key));
    if (known.contains(name_of(FlatPartitions::kMasters, name)) || (stage_ == 3 && !buffers.contains(name))) continue;
    tensors.push_back(whole(model, model_files_.front(), name, model.at(value)));
  }
}

// ZeRO-1 and 2 keep them whole, ZeRO-3 in equal parts in the files of all ranks.
void DeepspeedParts::add_frozen(TorchArchive& model, std::vector<PiecedTensor>& tensors) {
  const PickleNode* shapes = model.find(model.root(), "frozen_param_shapes");
  if (shapes == nullptr || !model.is_dictionary(*shapes) || shapes->entries.empty()) return;
  const std::size_t files = stage_ == 3 ? model_files_.size() : 1, begin = tensors.size();
  for (std::size_t rank = 0; rank < files; ++rank) {
    const auto archive = open(model_files_[rank]);
    const PickleNode* fragments = archive->find(archive->root(), "frozen_param_fragments");
    for (std::size_t i = 0; i < shapes->entries.size(); ++i) {
      const std::string name = TorchArchive::name_of_key(model.at(shapes->entries[i].first));
      const PickleNode* fragment = fragments == nullptr ? nullptr : archive->find(*fragments, name);
      if (fragment == nullptr) fail(fmt::format("{} has no part of '{}', which is frozen", model_files_[rank], name));
      PiecedTensor part = whole(*archive, model_files_[rank], name, *fragment);
      if (rank == 0) {
        tensors.push_back({part.spec, {}});
        tensors.back().spec.shape = model.integers(model.at(shapes->entries[i].second), name);
        if (!formats::bytes_of(part.spec.dtype, tensors.back().spec.shape)) fail(name + " has an impossible shape");
      }
      PiecedTensor& tensor = tensors[begin + i];
      const std::int64_t done = tensor.pieces.empty() ? 0 : tensor.pieces.back().elements.end();
      TensorPiece piece = std::move(part.pieces.front());
      piece.elements = intersect({done, piece.elements.count}, {0, product(tensor.spec.shape)});
      if (piece.stored.spec.dtype != tensor.spec.dtype)
        fail(fmt::format("the parts of '{}' have different types", name));
      tensor.pieces.push_back(std::move(piece));
    }
  }
  for (std::size_t i = begin; i < tensors.size(); ++i)
    if (tensors[i].pieces.back().elements.end() != product(tensors[i].spec.shape))
      fail(fmt::format("the parts of '{}' do not add up to it", tensors[i].spec.name));
}

// Without ZeRO the module is whole.
void DeepspeedParts::add_plain(TorchArchive& model, std::vector<PiecedTensor>& tensors) {
  const PickleNode* module = model.find(model.root(), "module");
  if (module == nullptr || !model.is_dictionary(*module)) fail(model_files_.front() + " has no module");
  for (const auto& [key, value] : module->entries)
    tensors.push_back(whole(model, model_files_.front(), TorchArchive::name_of_key(model.at(key)), model.at(value)));
}

std::vector<PiecedTensor> DeepspeedParts::tensors(Aliases& aliases, OptimizerFacts& facts) {
  const auto model = open(model_files_.front());
  std::vector<PiecedTensor> tensors;
  if (stage_ == 0) {
    add_plain(*model, tensors);
    return tensors;
  }
  for (std::size_t rank = 0; rank < optimizer_files_.size(); ++rank) read_rank(rank, facts);
  add_trained(*model, tensors);
  add_frozen(*model, tensors);
  if (const PickleNode* shared = model->find(model->root(), "shared_params"))
    for (const auto& [alias, name] : shared->entries)
      aliases.emplace_back(name_of(FlatPartitions::kMasters, model->at(alias).text),
                           name_of(FlatPartitions::kMasters, model->at(name).text));
  add_rest(*model, tensors, aliases);
  std::stable_partition(tensors.begin(), tensors.end(),
                        [](const PiecedTensor& t) { return is_model_tensor(t.spec.name); });
  return tensors;
}

}  // namespace shoal::checkpoint
