#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "configs/config_file.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

using nlohmann::json;

std::string text_of(const std::filesystem::path& file, const std::string& option) {
  std::ifstream stream(file);
  std::string text{std::istreambuf_iterator<char>(stream), {}};
  SHOAL_CHECK(stream && std::filesystem::is_regular_file(file), OptionError, "{} {}: the file cannot be read", option,
              file.string());
  return text;
}

std::string place_of(const std::string& text, std::size_t byte) {
  const std::string before = text.substr(0, std::min(byte, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  return fmt::format("line {}, column {}", line, before.size() - (before.rfind('\n') + 1) + 1);
}

// Without the library's own numbers and places in front, on one line.
std::string reason_of(const json::parse_error& error) {
  std::string text = error.what();
  const std::size_t start = text.find(": ");
  if (start != text.npos) text = text.substr(start + 2);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Refuses a key that is there twice, of which the library would take the last.
class KeysAreUnique {
 public:
  explicit KeysAreUnique(std::string where) : where_(std::move(where)) {}
  bool operator()(int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event == json::parse_event_t::key)
      SHOAL_CHECK(open_.back().insert(value.get<std::string>()).second, OptionError,
                  "{}: the key '{}' is there twice in one block", where_, value.get<std::string>());
    return true;
  }

 private:
  std::string where_;
  std::vector<std::set<std::string>> open_;
};

}  // namespace

json read_json(const std::filesystem::path& file, const std::string& option) {
  const std::string where = fmt::format("{} {}", option, file.string()), text = text_of(file, option);
  try {
    json tree = json::parse(text, KeysAreUnique(where));
    SHOAL_CHECK(tree.is_object(), OptionError, "{}: the file is no block of keys ({{...}})", where);
    return tree;
  } catch (const json::parse_error& error) {
    throw OptionError("{}: no JSON at {}: {}", where, place_of(text, error.byte == 0 ? 0 : error.byte - 1),
                      reason_of(error));
  }
}

}  // namespace shoal::configs
