#include "fsdp/wrap_policy.h"

#include <fmt/ranges.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "core/check.h"
#include "core/glob.h"

namespace shoal::fsdp {
namespace {

using torch::nn::Module;

// `full` as typeid gives it: "torch::nn::LinearImpl", "(anonymous namespace)::BlockImpl".
bool is_class(const std::string& full, const std::string& wanted) {
  const auto ends_with = [&](const std::string& name) {
    if (!full.ends_with(name)) return false;
    return full.size() == name.size() || full.compare(full.size() - name.size() - 2, 2, "::") == 0;
  };
  return ends_with(wanted) || ends_with(wanted + "Impl");
}

// By its C++ class, or by its Python class where it mirrors a TorchScript module.
template <typename Class>
bool is_a(Module& module, const std::string& name) {
  return dynamic_cast<Class*>(&module) != nullptr || is_class(module.name(), name);
}

class NonePolicy final : public WrapPolicy {
 public:
  std::string text() const override { return "none"; }
  std::vector<ModuleUnit> select(Module& /*root*/) const override { return {}; }
};

// torch.distributed.fsdp.wrap.size_based_auto_wrap_policy, as _recursive_wrap applies it.
class SizePolicy final : public WrapPolicy {
 public:
  explicit SizePolicy(std::int64_t min_params) : min_params_(min_params) {}
  std::string text() const override { return fmt::format("size:{}", min_params_); }

  std::vector<ModuleUnit> select(Module& root) const override {
    std::vector<ModuleUnit> units;
    visit(root, "", true, units);
    return units;
  }

 private:
  static std::int64_t parameters_below(Module& module) {
    std::unordered_set<const void*> seen;  // tied ones once
    std::int64_t n = 0;
    for (const auto& item : module.named_parameters())
      if (seen.insert(item.value().unsafeGetTensorImpl()).second) n += item.value().numel();
    return n;
  }

  // Returns how many parameters below (and of) `module` are wrapped now.
  std::int64_t visit(Module& module, const std::string& fqn, bool is_root, std::vector<ModuleUnit>& units) const {
    const std::int64_t here = parameters_below(module);
    const bool leaf = is_a<torch::nn::MultiheadAttentionImpl>(module, "MultiheadAttention");
    if (here < min_params_ || leaf) return 0;
    const std::size_t at = units.size();
    std::int64_t wrapped = 0;
    for (const auto& child : module.named_children())
      wrapped += visit(*child.value(), fqn.empty() ? child.key() : fqn + "." + child.key(), false, units);
    const bool container =
        is_a<torch::nn::ModuleListImpl>(module, "ModuleList") || is_a<torch::nn::ModuleDictImpl>(module, "ModuleDict");
    if (is_root || container || here - wrapped < min_params_) return wrapped;
    units.insert(units.begin() + static_cast<std::ptrdiff_t>(at), {fqn, &module});
    return here;
  }

  std::int64_t min_params_;
};

template <typename Matches>
std::vector<ModuleUnit> select_where(Module& root, Matches&& matches) {
  std::vector<ModuleUnit> units;
  for (const auto& item : root.named_modules("", /*include_self=*/false))
    if (matches(item.key(), *item.value())) units.push_back({item.key(), item.value().get()});
  return units;
}

class ClassPolicy final : public WrapPolicy {
 public:
  explicit ClassPolicy(std::vector<std::string> names) : names_(std::move(names)) {}
  std::string text() const override { return fmt::format("class:{}", fmt::join(names_, ",")); }

  std::vector<ModuleUnit> select(Module& root) const override {
    std::unordered_set<std::string> met;
    auto units = select_where(root, [&](const std::string&, const Module& module) {
      for (const std::string& name : names_)
        if (is_class(module.name(), name)) return met.insert(name).second || true;
      return false;
    });
    for (const std::string& name : names_)
      SHOAL_CHECK(met.contains(name), OptionError,
                  "--wrap class:{}: no module of that class in the model (see --print-model)", name);
    return units;
  }

 private:
  std::vector<std::string> names_;
};

class NamePolicy final : public WrapPolicy {
 public:
  explicit NamePolicy(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {}
  std::string text() const override { return fmt::format("name:{}", fmt::join(patterns_, ",")); }

  std::vector<ModuleUnit> select(Module& root) const override {
    std::unordered_set<std::string> met;
    auto units = select_where(root, [&](const std::string& fqn, const Module&) {
      bool matches = false;
      for (const std::string& pattern : patterns_)
        if (glob_matches(pattern, fqn)) matches = met.insert(pattern).second || true;
      return matches;
    });
    for (const std::string& pattern : patterns_)
      SHOAL_CHECK(met.contains(pattern), OptionError, "--wrap name:{}: no module has such a name (see --print-model)",
                  pattern);
    return units;
  }

 private:
  std::vector<std::string> patterns_;
};

// Another policy, and of what it leaves to the root the modules that are large by themselves.
class RestPolicy final : public WrapPolicy {
 public:
  RestPolicy(std::unique_ptr<WrapPolicy> first, std::int64_t min_params)
      : first_(std::move(first)), min_params_(min_params) {}
  std::string text() const override { return fmt::format("{}+rest:{}", first_->text(), min_params_); }

  std::vector<ModuleUnit> select(Module& root) const override {
    std::vector<ModuleUnit> units = first_->select(root);
    const std::vector<ModuleUnit> first = units;
    const auto is_taken = [&](const std::string& fqn) {
      return std::any_of(first.begin(), first.end(), [&](const ModuleUnit& unit) { return is_within(fqn, unit.fqn); });
    };
    const std::unordered_map<const void*, int> holders = holders_of_parameters(root);
    std::unordered_map<std::string, std::size_t> order;
    for (const auto& item : root.named_modules("", /*include_self=*/false)) {
      order.emplace(item.key(), order.size());
      if (!is_taken(item.key()) && is_large(*item.value(), holders))
        units.push_back({.fqn = item.key(), .module = item.value().get(), .recomputable = false});
    }
    std::stable_sort(units.begin(), units.end(),
                     [&](const ModuleUnit& a, const ModuleUnit& b) { return order.at(a.fqn) < order.at(b.fqn); });
    return units;
  }

 private:
  // In how many modules each parameter stands.
  static std::unordered_map<const void*, int> holders_of_parameters(Module& root) {
    std::unordered_map<const void*, int> holders;
    for (const auto& module : root.named_modules())
      for (const at::Tensor& parameter : module.value()->parameters(/*recurse=*/false))
        ++holders[parameter.unsafeGetTensorImpl()];
    return holders;
  }

  bool is_large(Module& module, const std::unordered_map<const void*, int>& holders) const {
    std::int64_t numel = 0;
    for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) {
      if (holders.at(parameter.unsafeGetTensorImpl()) > 1) return false;
      numel += parameter.numel();
    }
    return numel >= min_params_;
  }

  std::unique_ptr<WrapPolicy> first_;
  std::int64_t min_params_;
};

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

std::int64_t parse_min_params(const char* kind, const std::string& text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  SHOAL_CHECK(error == std::errc() && end == text.data() + text.size() && n > 0, OptionError,
              "--wrap {}:{}: MIN_PARAMS must be a whole number above 0", kind, text);
  return n;
}

}  // namespace

bool is_within(const std::string& fqn, const std::string& unit) {
  return unit.empty() || fqn == unit || fqn.starts_with(unit + ".");
}

std::unique_ptr<WrapPolicy> parse_wrap_policy(const std::string& text) {
  constexpr std::string_view kRest = "+rest:";
  if (const auto plus = text.find(kRest); plus != std::string::npos)
    return std::make_unique<RestPolicy>(parse_wrap_policy(text.substr(0, plus)),
                                        parse_min_params("…+rest", text.substr(plus + kRest.size())));
  if (text == "none") return std::make_unique<NonePolicy>();
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (const std::vector<std::string> parts = split(rest); !parts.empty()) {
    if (kind == "size") return std::make_unique<SizePolicy>(parse_min_params("size", rest));
    if (kind == "class") return std::make_unique<ClassPolicy>(parts);
    if (kind == "name") return std::make_unique<NamePolicy>(parts);
  }
  throw OptionError(
      "--wrap {}: expected none, size:MIN_PARAMS, class:NAME,… or name:PATTERN,…, and +rest:MIN_PARAMS behind it if "
      "wanted",
      text);
}

}  // namespace shoal::fsdp
