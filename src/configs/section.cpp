#include "configs/section.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "core/check.h"
#include "core/nearest.h"

namespace shoal::configs {
namespace {

using nlohmann::json;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::optional<bool> flag_of(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value == 0 || value == 1) return value == 1;
  if (!value.is_string()) return std::nullopt;
  constexpr std::array kYes{"true", "yes", "y", "t", "on", "1"}, kNo{"false", "no", "n", "f", "off", "0"};
  const std::string word = lower(value.get<std::string>());
  if (std::find(kYes.begin(), kYes.end(), word) != kYes.end()) return true;
  if (std::find(kNo.begin(), kNo.end(), word) != kNo.end()) return false;
  return std::nullopt;
}

std::optional<double> number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto& text = value.get_ref<const std::string&>();
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_off(const json& value) {
  if (value.is_null() || value.empty()) return true;
  if (value.is_object() && value.contains("enabled")) return flag_of(value["enabled"]) == false;
  return flag_of(value) == false || value == "none" || value == "NO";
}

}  // namespace

Section::Section(std::string where, const json& block, Translation& out, std::string path)
    : where_(std::move(where)), path_(std::move(path)), block_(&block), out_(&out) {}

const json* Section::find(const std::string& key) {
  known_.insert(key);
  const auto found = block_->find(key);
  if (found == block_->end() || found->is_null() || *found == "auto") return nullptr;
  return &*found;
}

void Section::wrong_type(const std::string& key, const char* expected) const {
  throw OptionError("{} is {}, but must be {}", name(key), block_->at(key).dump(), expected);
}

std::optional<bool> Section::flag(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto flag = flag_of(*value);
  if (!flag) wrong_type(key, "true or false");
  return flag;
}

std::optional<double> Section::number(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = number_of(*value);
  if (!number || !std::isfinite(*number)) wrong_type(key, "a number");
  return number;
}

std::optional<std::int64_t> Section::whole(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_integer()) return value->get<std::int64_t>();
  constexpr double kExact = 0x1p53;
  const auto number = number_of(*value);
  if (!number || *number != std::floor(*number) || std::abs(*number) > kExact) wrong_type(key, "a whole number");
  return static_cast<std::int64_t>(*number);
}

std::optional<std::string> Section::text(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong_type(key, "a word");
  return value->get<std::string>();
}

std::optional<std::string> Section::text_or_number(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_integer()) return std::to_string(value->get<std::int64_t>());
  if (value->is_boolean()) return value->get<bool>() ? "true" : "false";
  return text(key);
}

std::optional<std::vector<double>> Section::numbers(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool right = value->is_array() && std::all_of(value->begin(), value->end(), number_of);
  if (!right) wrong_type(key, "a list of numbers");
  std::vector<double> all;
  for (const json& item : *value) all.push_back(*number_of(item));
  return all;
}

std::optional<std::string> Section::list_of_words(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) return text(key);
  std::string all;
  for (const json& item : *value) {
    if (!item.is_string()) wrong_type(key, "a list of words");
    all += (all.empty() ? "" : ",") + item.get<std::string>();
  }
  return all;
}

std::optional<Section> Section::section(const std::string& key) {
  const json* value = find(key);
  if (value == nullptr || value->empty()) return std::nullopt;
  if (!value->is_object()) wrong_type(key, "a block of keys");
  return Section(where_, *value, *out_, path_ + key + ".");
}

bool Section::has(const std::string& key) {
  known_.insert(key);
  return block_->contains(key) && !block_->at(key).is_null();
}

bool Section::is_boolean(const std::string& key) { return has(key) && block_->at(key).is_boolean(); }

void Section::set(const std::string& key, const std::string& option, const std::string& value,
                  const std::string& only_with) {
  for (const Setting& old : out_->settings)
    SHOAL_CHECK(old.option != option || old.value == value, OptionError,
                "{} contradicts {}: the one means --{} {}, the other --{} {}", name(key), old.key, option, value,
                old.option, old.value);
  const bool is_new = std::none_of(out_->settings.begin(), out_->settings.end(),
                                   [&](const Setting& old) { return old.option == option; });
  if (is_new) out_->settings.push_back({option, value, path_ + key, only_with});
}

void Section::pass_over(std::initializer_list<const char*> keys) { known_.insert(keys.begin(), keys.end()); }

void Section::leave_out(std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (const json* value = find(key); value != nullptr && *value != false && !value->empty())
      out_->left_out.push_back(path_ + key);
}

void Section::refuse(std::initializer_list<const char*> keys, const std::string& reason) {
  for (const char* key : keys)
    SHOAL_CHECK(!has(key) || is_off(block_->at(key)), OptionError, "{} cannot be honoured: {}", name(key), reason);
}

void Section::finish() const {
  for (const auto& [key, value] : block_->items())
    SHOAL_CHECK(known_.contains(key), OptionError, "{} is no known key{}", name(key),
                did_you_mean(key, {known_.begin(), known_.end()}));
}

}  // namespace shoal::configs
