#include "checkpoint/load_weights.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

#include "checkpoint/agreement.h"
#include "checkpoint/convert_elements.h"
#include "checkpoint/weights_file.h"
#include "checkpoint/weights_match.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/file_io.h"
#include "core/hash.h"
#include "core/timer.h"
#include "shard/shard_layout.h"

namespace shoal::checkpoint {
namespace fs = std::filesystem;
namespace {

std::vector<TensorSpec> renamed(std::vector<TensorSpec> file, const MatchRules& rules) {
  for (TensorSpec& spec : file) spec.name = rules.renamed(spec.name);
  return file;
}

// A file that was opened and compared with the model.
class Source {
 public:
  Source(const fs::path& path, const StateDict& state, const MatchRules& rules)
      : file_(WeightsFile::open(path)),
        match_(match_weights(renamed(file_->tensors(), rules), file_->others(), state, file_->path().string(), rules)) {
  }

  const WeightsFile& file() const { return *file_; }
  const WeightsMatch& match() const { return match_; }
  bool has(std::size_t tensor) const { return match_.source[tensor] != kNoSource; }
  DType dtype(std::size_t tensor) const { return file_->tensors()[match_.source[tensor]].dtype; }

  // Elements [begin, begin + count) of the state's tensor `tensor`, in the file's type. Returns the bytes read.
  std::int64_t read(std::size_t tensor, std::int64_t begin, std::int64_t count, void* into) const {
    file_->read(match_.source[tensor], begin, count, into);
    return count * size_of(dtype(tensor));
  }

  // CheckpointError where another tensor of the file, which the model has no place for beside this one, is different
  // from `expected`: elements [begin, begin + count) of the tensor. Returns the bytes read.
  std::int64_t check_twins(std::size_t tensor, std::int64_t begin, std::int64_t count, const std::byte* expected) {
    std::int64_t read = 0;
    for (const auto& [one, twin] : match_.twins) {
      if (one != tensor) continue;
      const auto bytes = static_cast<std::size_t>(count * size_of(dtype(tensor)));
      twin_.resize(bytes);
      file_->read(twin, begin, count, twin_.data());
      read += static_cast<std::int64_t>(bytes);
      SHOAL_CHECK(bytes == 0 || std::memcmp(expected, twin_.data(), bytes) == 0, CheckpointError,
                  "{}: '{}' and '{}' differ in elements {} to {}, and the model has one tensor for both: use the model "
                  "with an untied head (--untied-head)",
                  file_->path().string(), file_->tensors()[match_.source[tensor]].name, file_->tensors()[twin].name,
                  begin, begin + count - 1);
    }
    return read;
  }
  bool has_twins(std::size_t tensor) const {
    return std::any_of(match_.twins.begin(), match_.twins.end(), [&](const auto& t) { return t.first == tensor; });
  }

  // Equal where two ranks see equal headers.
  std::string fingerprint() const {
    std::uint64_t hash = hash_string(file_->format());
    for (const TensorSpec& spec : file_->tensors())
      hash = hash_combine(
          hash, hash_string(fmt::format("{} {} {}", spec.name, name_of(spec.dtype), fmt::join(spec.shape, ","))));
    return fmt::format("{:016x}", hash);
  }

 private:
  std::unique_ptr<WeightsFile> file_;
  WeightsMatch match_;
  std::vector<std::byte> twin_;
};

// Calls `use` with ranges of at most kChunkBytes that together are `range`.
template <typename Use>
void for_each_chunk(Range range, DType dtype, const Use& use) {
  const std::int64_t most = kChunkBytes / size_of(dtype);
  for (std::int64_t done = 0; done < range.count; done += most) {
    use(Range{range.begin + done, std::min(most, range.count - done)});
    activity::progressed();
  }
}

Range held_range(const ShardedTensor& tensor) { return {tensor.region.begin, tensor.region.count}; }

// Where element `element` of the tensor, which the rank holds, lies in its region.
std::byte* place_of(const ShardedTensor& tensor, std::int64_t element) {
  return tensor.region.data + (element - tensor.region.begin) * size_of(tensor.spec.dtype);
}

// What this rank holds of one tensor. Returns the bytes read.
std::int64_t read_held(Source& source, std::size_t index, const ShardedTensor& tensor, std::vector<std::byte>& buffer) {
  const DType dtype = source.dtype(index);
  const bool direct = dtype == tensor.spec.dtype;
  std::int64_t read = 0;
  if (direct && !source.has_twins(index))
    return source.read(index, tensor.region.begin, tensor.region.count, tensor.region.data);
  buffer.resize(static_cast<std::size_t>(kChunkBytes));
  for_each_chunk(held_range(tensor), dtype, [&](Range chunk) {
    std::byte* const into = direct ? place_of(tensor, chunk.begin) : buffer.data();
    read += source.read(index, chunk.begin, chunk.count, into);
    read += source.check_twins(index, chunk.begin, chunk.count, into);
    if (!direct) convert_elements(into, dtype, place_of(tensor, chunk.begin), tensor.spec.dtype, chunk.count);
  });
  return read;
}

LoadWeightsReport report_of(const Source& source, const StateDict& state) {
  LoadWeightsReport report{source.file().path(), source.file().format(), {}, {}, {}, source.file().notes(), {}};
  report.notes.insert(report.notes.end(), source.match().notes.begin(), source.match().notes.end());
  report.tensors = static_cast<std::int64_t>(state.tensors.size());
  for (const ShardedTensor& tensor : state.tensors) report.elements += tensor.spec.numel();
  return report;
}

// Collective over `world`. Rank 0 looks first: if the file is no good, the others need not look.
Source open_everywhere(comm::ProcessGroup& world, const fs::path& path, const StateDict& state,
                       const MatchRules& rules) {
  std::optional<Source> source;
  const std::string wanted = run_on_root(world, [&] { return source.emplace(path, state, rules).fingerprint(); });
  const std::vector<std::string> seen = run_everywhere(world, [&] {
    if (!source) source.emplace(path, state, rules);
    return source->fingerprint();
  });
  const auto other = std::find_if(seen.begin(), seen.end(), [&](const std::string& s) { return s != wanted; });
  SHOAL_CHECK(other == seen.end(), CheckpointError,
              "rank {} sees another file at {} than rank 0: put it on a file system that all nodes share, or let rank "
              "0 read it for all (--sync-module-states)",
              other - seen.begin(), path.string());
  return std::move(*source);
}

// Collective over `world`.
LoadWeightsReport read_everywhere(comm::ProcessGroup& world, const fs::path& path, StateDict& state,
                                  const MatchRules& rules) {
  Source source = open_everywhere(world, path, state, rules);
  LoadWeightsReport report = report_of(source, state);
  const std::vector<std::string> bytes = run_everywhere(world, [&] {
    std::int64_t read = 0;
    std::vector<std::byte> buffer;
    for (std::size_t i = 0; i < state.tensors.size(); ++i)
      if (source.has(i)) read += read_held(source, i, state.tensors[i], buffer);
    return std::to_string(read);
  });
  for (const std::string& read : bytes) report.bytes_read += std::stoll(read);
  return report;
}

constexpr char kMissing = '-';

// What the others need to know of rank 0's file: path, format, the tensors' types and the notes, a line each.
std::string format_plan(const Source& source, const StateDict& state) {
  const LoadWeightsReport report = report_of(source, state);
  std::string types;
  for (std::size_t i = 0; i < state.tensors.size(); ++i)
    types += source.has(i) ? static_cast<char>('a' + static_cast<int>(source.dtype(i))) : kMissing;
  return fmt::format("{}\n{}\n{}\n{}", report.path.string(), report.format, types, fmt::join(report.notes, "\n"));
}

struct Plan {
  LoadWeightsReport report;
  std::string types;
  bool has(std::size_t tensor) const { return types.at(tensor) != kMissing; }
  DType dtype(std::size_t tensor) const { return static_cast<DType>(types.at(tensor) - 'a'); }
};

Plan parse_plan(const std::string& text, const StateDict& state) {
  Plan plan;
  std::istringstream lines(text);
  std::string path;
  std::getline(lines, path);
  std::getline(lines, plan.report.format);
  std::getline(lines, plan.types);
  for (std::string note; std::getline(lines, note);) plan.report.notes.push_back(note);
  plan.report.path = path;
  plan.report.tensors = static_cast<std::int64_t>(state.tensors.size());
  for (const ShardedTensor& tensor : state.tensors) plan.report.elements += tensor.spec.numel();
  return plan;
}

// Keeps what this rank holds of `chunk`, whose elements are `bytes`.
void keep_held(const ShardedTensor& tensor, Range chunk, const std::string& bytes, DType dtype) {
  const Range kept = intersect(held_range(tensor), chunk);
  if (kept.count == 0) return;
  const auto* const from = reinterpret_cast<const std::byte*>(bytes.data());
  convert_elements(from + (kept.begin - chunk.begin) * size_of(dtype), dtype, place_of(tensor, kept.begin),
                   tensor.spec.dtype, kept.count);
}

// Collective over `world`.
LoadWeightsReport read_on_root(comm::ProcessGroup& world, const fs::path& path, StateDict& state,
                               const MatchRules& rules) {
  std::optional<Source> source;
  const std::string text = run_on_root(world, [&] { return format_plan(source.emplace(path, state, rules), state); });
  Plan plan = parse_plan(text, state);
  std::int64_t read = 0;
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    if (!plan.has(i)) continue;
    const DType dtype = plan.dtype(i);
    for_each_chunk({0, state.tensors[i].spec.numel()}, dtype, [&](Range chunk) {
      const std::string bytes = run_on_root(world, [&] {
        std::string elements(static_cast<std::size_t>(chunk.count * size_of(dtype)), '\0');
        read += source->read(i, chunk.begin, chunk.count, elements.data());
        read += source->check_twins(i, chunk.begin, chunk.count, reinterpret_cast<const std::byte*>(elements.data()));
        return elements;
      });
      keep_held(state.tensors[i], chunk, bytes, dtype);
    });
  }
  plan.report.bytes_read = comm::all_reduce(world, read, comm::ReduceOp::sum);
  return plan.report;
}

}  // namespace

std::string LoadWeightsReport::text() const {
  std::string text = fmt::format("{} elements in {} tensors ({}), {:.1f} MB read in {:.2f} s", elements, tensors,
                                 format, static_cast<double>(bytes_read) / 1e6, seconds);
  if (!notes.empty()) text += fmt::format("; {}", fmt::join(notes, "; "));
  return text;
}

LoadWeightsReport load_weights(comm::ProcessGroup& world, const fs::path& source, StateDict& state,
                               const LoadWeightsOptions& options) {
  const Timer timer;
  const activity::During loading(activity::Operation::restore);
  LoadWeightsReport report = options.rank0_reads ? read_on_root(world, source, state, options.rules)
                                                 : read_everywhere(world, source, state, options.rules);
  report.seconds = timer.seconds();
  return report;
}

}  // namespace shoal::checkpoint
