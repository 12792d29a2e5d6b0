#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>

#include "configs/config_file.h"
#include "core/check.h"

namespace shoal::configs {
namespace {

using nlohmann::json;

std::string place_of(const YAML::Mark& mark) {
  return fmt::format("line {}, column {}", mark.line + 1, mark.column + 1);
}

json scalar(const YAML::Node& node) {
  if (node.Tag() == "!") return node.Scalar();  // in quotes
  if (std::int64_t whole = 0; YAML::convert<std::int64_t>::decode(node, whole)) return whole;
  if (double number = 0; YAML::convert<double>::decode(node, number)) return number;
  if (bool flag = false; YAML::convert<bool>::decode(node, flag)) return flag;
  return node.Scalar();
}

json tree_of(const YAML::Node& node, const std::string& where);

json block(const YAML::Node& node, const std::string& where) {
  json tree = json::object();
  for (const auto& entry : node) {
    SHOAL_CHECK(entry.first.IsScalar(), OptionError, "{}: a key at {} is no word", where, place_of(entry.first.Mark()));
    const std::string& key = entry.first.Scalar();
    SHOAL_CHECK(!tree.contains(key), OptionError, "{}: the key '{}' is there twice in one block, again at {}", where,
                key, place_of(entry.first.Mark()));
    tree[key] = tree_of(entry.second, where);
  }
  return tree;
}

json tree_of(const YAML::Node& node, const std::string& where) {
  if (node.IsMap()) return block(node, where);
  if (node.IsScalar()) return scalar(node);
  if (!node.IsSequence()) return nullptr;
  json list = json::array();
  for (const YAML::Node& item : node) list.push_back(tree_of(item, where));
  return list;
}

}  // namespace

json read_yaml(const std::filesystem::path& file, const std::string& option) {
  const std::string where = fmt::format("{} {}", option, file.string());
  try {
    const YAML::Node root = YAML::LoadFile(file.string());
    SHOAL_CHECK(root.IsMap(), OptionError, "{}: the file is no block of keys (name: value)", where);
    return tree_of(root, where);
  } catch (const YAML::BadFile&) {
    throw OptionError("{}: the file cannot be read", where);
  } catch (const YAML::Exception& error) {
    throw OptionError("{}: no YAML at {}: {}", where, place_of(error.mark), error.msg);
  }
}

}  // namespace shoal::configs
