#include "checkpoint/diff.h"

#include <algorithm>
#include <map>

#include "checkpoint/tensor_stream.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace {

struct Name {
  std::string name;
  std::size_t tensor;
};

// In the order of the manifest, aliases at the end.
std::vector<Name> names_of(const Manifest& manifest) {
  std::vector<Name> names;
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    names.push_back({manifest.tensors[i].spec.name, i});
    place[names.back().name] = i;
  }
  for (const auto& [alias, name] : manifest.aliases) names.push_back({alias, place.at(name)});
  return names;
}

class Comparison {
 public:
  Comparison(const std::filesystem::path& a, const std::filesystem::path& b) : a_(a), b_(b) {
    buffer_a_.resize(static_cast<std::size_t>(kChunkBytes));
    buffer_b_.resize(buffer_a_.size());
  }

  DiffReport run() {
    report_.step_a = a_.manifest().step;
    report_.step_b = b_.manifest().step;
    report_.same_training_state = a_.manifest().training_state == b_.manifest().training_state;
    const std::vector<Name> in_a = names_of(a_.manifest()), in_b = names_of(b_.manifest());
    std::map<std::string, std::size_t> rest;
    for (const Name& name : in_b) rest[name.name] = name.tensor;
    for (const Name& name : in_a) {
      const auto found = rest.find(name.name);
      if (found == rest.end())
        report_.tensors.push_back({name.name, TensorState::only_in_a, spec(a_, name.tensor), {}, {}});
      else
        report_.tensors.push_back(compare(name.name, name.tensor, found->second));
      if (found != rest.end()) rest.erase(found);
    }
    for (const Name& name : in_b)
      if (rest.contains(name.name))
        report_.tensors.push_back({name.name, TensorState::only_in_b, {}, spec(b_, name.tensor), {}});
    return std::move(report_);
  }

 private:
  static const TensorSpec& spec(const TensorStream& stream, std::size_t tensor) {
    return stream.manifest().tensors[tensor].spec;
  }

  TensorDiff compare(const std::string& name, std::size_t in_a, std::size_t in_b) {
    TensorDiff found{name, TensorState::equal, spec(a_, in_a), spec(b_, in_b), {}};
    if (found.a.shape != found.b.shape) {
      found.state = TensorState::other_shape;
    } else if (found.a.dtype != found.b.dtype) {
      found.state = TensorState::other_dtype;
    } else {
      found.elements = compare_values(in_a, in_b);
      found.state = found.elements.count > 0 ? TensorState::different : TensorState::equal;
    }
    return found;
  }

  ElementDifferences compare_values(std::size_t in_a, std::size_t in_b) {
    const DType dtype = spec(a_, in_a).dtype;
    const std::int64_t numel = spec(a_, in_a).numel(), piece = kChunkBytes / size_of(dtype);
    ElementDifferences total;
    a_.begin(in_a);
    b_.begin(in_b);
    for (std::int64_t done = 0; done < numel; done += piece) {
      const std::int64_t count = std::min(piece, numel - done);
      const auto bytes = static_cast<std::size_t>(count * size_of(dtype));
      a_.read(buffer_a_.data(), bytes);
      b_.read(buffer_b_.data(), bytes);
      compare_elements(dtype, buffer_a_.data(), buffer_b_.data(), count, done, total);
      report_.bytes += 2 * static_cast<std::int64_t>(bytes);
    }
    return total;
  }

  TensorStream a_, b_;
  std::vector<std::byte> buffer_a_, buffer_b_;
  DiffReport report_;
};

}  // namespace

const char* name_of(TensorState state) {
  switch (state) {
    case TensorState::equal: return "equal";
    case TensorState::different: return "different";
    case TensorState::other_shape: return "other shape";
    case TensorState::other_dtype: return "other type";
    case TensorState::only_in_a: return "only in A";
    case TensorState::only_in_b: return "only in B";
  }
  return "";
}

std::int64_t DiffReport::count(TensorState state) const {
  return std::count_if(tensors.begin(), tensors.end(), [&](const TensorDiff& t) { return t.state == state; });
}

bool DiffReport::same_tensors() const { return count(TensorState::equal) == static_cast<std::int64_t>(tensors.size()); }

DiffReport diff(const std::filesystem::path& a, const std::filesystem::path& b) {
  const Timer timer;
  DiffReport report = Comparison(a, b).run();
  report.a = a;
  report.b = b;
  report.seconds = timer.seconds();
  return report;
}

}  // namespace shoal::checkpoint
