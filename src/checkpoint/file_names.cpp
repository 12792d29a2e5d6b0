#include "checkpoint/file_names.h"

#include <algorithm>
#include <charconv>
#include <random>

#include "core/check.h"

namespace shoal::checkpoint {
namespace {

constexpr std::string_view kStepPrefix = "step_";
constexpr std::string_view kTemporaryInfix = ".tmp.";
constexpr std::string_view kDisplacedInfix = ".old.";
constexpr std::string_view kWriterSuffix = ".writer";

bool is_lower_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// Of an attempt: as attempt_file_name() writes it, from 1.
std::optional<int> parse_number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 1 || text != fmt::format("{:06}", number)) return std::nullopt;
  return number;
}

struct SplitName {
  std::string_view group;  // "model" or "optimizer/<state>"
  std::string_view parameter;
};

SplitName split(std::string_view name) {
  std::size_t slash = std::string_view::npos;
  if (name.starts_with(kModelPrefix)) slash = kModelPrefix.size() - 1;
  if (name.starts_with(kOptimizerPrefix)) slash = name.find('/', kOptimizerPrefix.size());
  SHOAL_CHECK(slash != std::string_view::npos && slash + 1 < name.size(), InternalError,
              "'{}' is no tensor name: neither model/NAME nor optimizer/STATE/NAME", name);
  return {name.substr(0, slash), name.substr(slash + 1)};
}

std::string escape(std::string_view name) {
  if (name == ".") return "%2E";  // HDF5 takes it for the group itself
  std::string escaped;
  for (const char c : name) {
    if (c == '/')
      escaped += "%2F";
    else if (c == '%')
      escaped += "%25";
    else
      escaped += c;
  }
  return escaped;
}

std::string unescape(std::string_view escaped) {
  std::string name;
  while (!escaped.empty()) {
    const std::string_view code = escaped.substr(0, 3);
    const char c = code == "%2F" ? '/' : code == "%25" ? '%' : code == "%2E" ? '.' : '\0';
    name += c == '\0' ? escaped.front() : c;
    escaped.remove_prefix(c == '\0' ? 1 : code.size());
  }
  return name;
}

}  // namespace

std::string make_checkpoint_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

bool is_checkpoint_id(std::string_view text) {
  return text.size() == kIdDigits && std::all_of(text.begin(), text.end(), is_lower_hex);
}

std::string step_directory_name(std::int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::string temporary_directory_name(std::int64_t step, int attempt, std::string_view id) {
  const std::string number = attempt == 0 ? "" : fmt::format("{:06}.", attempt);
  return fmt::format("{}{}{}{}", step_directory_name(step), kTemporaryInfix, number, id);
}

std::string displaced_directory_name(std::int64_t step, std::string_view id) {
  return fmt::format("{}{}{}", step_directory_name(step), kDisplacedInfix, id);
}

std::string evidence_directory_name(std::int64_t step, std::string_view id) {
  return fmt::format("damaged_{}.{}", step_directory_name(step), id);
}

std::optional<StepDirectory> parse_step_directory_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  StepDirectory directory;
  const char* const digits = name.data() + kStepPrefix.size();
  const auto [end, error] = std::from_chars(digits, name.data() + name.size(), directory.step);
  if (error != std::errc{} || directory.step < 0) return std::nullopt;
  const std::string_view rest = name.substr(static_cast<std::size_t>(end - name.data()));
  if (name != step_directory_name(directory.step) + std::string(rest)) return std::nullopt;
  if (rest.empty()) return directory;
  const bool temporary = rest.starts_with(kTemporaryInfix);
  if (!temporary && !rest.starts_with(kDisplacedInfix)) return std::nullopt;
  directory.kind = temporary ? DirectoryKind::temporary : DirectoryKind::displaced;
  std::string_view id = rest.substr(kTemporaryInfix.size());
  if (const std::size_t dot = id.find('.'); temporary && dot != id.npos) {
    directory.attempt = parse_number(id.substr(0, dot)).value_or(0);
    if (directory.attempt == 0) return std::nullopt;
    id.remove_prefix(dot + 1);
  }
  if (!is_checkpoint_id(id)) return std::nullopt;
  return directory;
}

std::string attempt_file_name(int attempt, bool writer) {
  return fmt::format("{:06}{}", attempt, writer ? kWriterSuffix : "");
}

std::optional<AttemptFile> parse_attempt_file_name(std::string_view name) {
  const bool writer = name.ends_with(kWriterSuffix);
  if (writer) name.remove_suffix(kWriterSuffix.size());
  const auto number = parse_number(name);
  return number ? std::optional(AttemptFile{*number, writer}) : std::nullopt;
}

std::string shard_file_name(std::string_view id, int index, bool one_a_rank) {
  return fmt::format("{}/{}_{}_{:05}.h5", kShardFolder, id, one_a_rank ? "rank" : "group", index);
}

std::string shard_dataset_path(std::string_view tensor_name) {
  const SplitName name = split(tensor_name);
  return fmt::format("/{}/{}", name.group, escape(name.parameter));
}

std::string consolidated_dataset_path(std::string_view tensor_name) {
  const SplitName name = split(tensor_name);
  return is_model_tensor(tensor_name) ? fmt::format("/{}", escape(name.parameter)) : shard_dataset_path(tensor_name);
}

std::string parameter_of_dataset(std::string_view path) { return unescape(path.substr(1)); }

bool is_model_tensor(std::string_view tensor_name) { return tensor_name.starts_with(kModelPrefix); }

std::string_view parameter_name(std::string_view tensor_name) { return split(tensor_name).parameter; }

}  // namespace shoal::checkpoint
