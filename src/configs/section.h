// A block of a config, read key by key: each is asked for by its type, and a key that nobody asked for is an error.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "configs/translation.h"
#include "core/error.h"

namespace shoal::configs {

class Section {
 public:
  // `where` stands in front of errors, as "--deepspeed-config ds.json". What keys mean goes to `out`. All must outlive
  // the section.
  Section(std::string where, const nlohmann::json& block, Translation& out, std::string path = "");

  // Nothing where the key is not there, null, or "auto": whatever the command line says. OptionError for another type.
  std::optional<bool> flag(const std::string& key);           // also "true", "no", …
  std::optional<std::int64_t> whole(const std::string& key);  // also 5e8, "4"
  std::optional<double> number(const std::string& key);       // also "0.1"
  std::optional<std::string> text(const std::string& key);
  std::optional<std::vector<double>> numbers(const std::string& key);
  std::optional<Section> section(const std::string& key);  // nothing for an empty block too
  std::optional<std::string> text_or_number(const std::string& key);
  std::optional<std::string> list_of_words(const std::string& key);  // "A,B" and [A, B] as "A,B"

  // Whether it has a value, "auto" included; the key counts as known.
  bool has(const std::string& key);
  bool is_boolean(const std::string& key);
  bool is_on(const std::string& key) { return flag(key).value_or(false); }

  void set(const std::string& key, const std::string& option, const std::string& value = "",
           const std::string& only_with = "");
  template <typename T>
  void set_number(const std::string& key, const std::string& option, const T& value) {
    set(key, option, fmt::format("{}", value));
  }
  const std::string& where() const { return where_; }
  Translation& out() { return *out_; }
  void remark(const std::string& clause) { out_->remarks.push_back(clause); }

  // Keys that are the launcher's, or that say what is done anyway: nothing is to be said of them.
  void pass_over(std::initializer_list<const char*> keys);
  // Keys without a counterpart, which change speed or output, not the result; named in the warning where they are
  // there.
  void leave_out(std::initializer_list<const char*> keys);
  // Blocks and flags that cannot be honoured where they are switched on.
  void refuse(std::initializer_list<const char*> keys, const std::string& reason);

  // "--deepspeed-config ds.json: zero_optimization.stage", for errors.
  std::string name(const std::string& key) const { return where_ + ": " + path_ + key; }
  std::string path(const std::string& key) const { return path_ + key; }
  // OptionError, with the nearest known one, where a key is there that nobody has asked for.
  void finish() const;

 private:
  const nlohmann::json* find(const std::string& key);  // null: not there, null or "auto"
  [[noreturn]] void wrong_type(const std::string& key, const char* expected) const;

  std::string where_, path_;
  const nlohmann::json* block_;
  Translation* out_;
  std::set<std::string> known_;
};

}  // namespace shoal::configs
