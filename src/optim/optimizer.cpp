#include "optim/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "optim/rounding.h"
#include "optim/simd.h"
#include "optim/update_rules.h"

namespace shoal::optim {
namespace {

// Elements whose new values are still in a core's first cache when they are rounded.
constexpr std::int64_t kRoundedAtOnce = 2048;

// Plain pointers as parameters: that is what lets the compiler see that nothing overlaps and use vectors.
template <typename T, typename Rule>
struct Loop {
  static inline __attribute__((always_inline)) void run(Rule rule, T* __restrict param, const T* __restrict grad,
                                                        T* __restrict state0, T* __restrict state1,
                                                        std::int64_t count) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (Rule::kStates == 0) {
        rule(param[i], grad[i]);
      } else if constexpr (Rule::kStates == 1) {
        rule(param[i], grad[i], state0[i]);
      } else {
        rule(param[i], grad[i], state0[i], state1[i]);
      }
    }
  }
};

template <typename T, typename Rule>
void apply(const Rule& rule, const FlatSpan& span) {
  std::array<T*, 2> state{};
  for (std::size_t i = 0; i < span.state.size(); ++i) state[i] = static_cast<T*>(span.state[i]);
  auto* const param = static_cast<T*>(span.param);
  const auto* const grad = static_cast<const T*>(span.grad);
  const auto at = [](T* array, std::int64_t i) { return array == nullptr ? nullptr : array + i; };
  const std::int64_t block = span.rounded == nullptr ? span.count : kRoundedAtOnce;
  for (std::int64_t i = 0; i < span.count; i += block) {
    const std::int64_t count = std::min(block, span.count - i);
    run_widest<Loop<T, Rule>>(rule, param + i, grad + i, at(state[0], i), at(state[1], i), count);
    if (span.rounded == nullptr) continue;
    auto* const rounded = static_cast<char*>(span.rounded) + i * size_of(span.rounded_dtype);
    round_elements(param + i, span.dtype, rounded, span.rounded_dtype, count);
  }
}

OptimizerOptions with_decay(OptimizerOptions options, std::optional<double> weight_decay) {
  options.weight_decay = weight_decay.value_or(options.weight_decay);
  return options;
}

template <typename T, typename Rule>
void apply_on_device(DeviceTable& table, std::span<const DeviceArrays> arrays, const OptimizerOptions& options,
                     std::span<const GroupFactors> groups, std::int64_t step, double grad_scale, void* stream) {
  std::vector<Rule> rules;
  for (const GroupFactors& group : groups)
    rules.emplace_back(with_decay(options, group.weight_decay), step, group.lr, grad_scale);
  step_on_device<T, Rule>(table, arrays, rules, stream);
}

template <template <typename> class Rule>
class RuleOptimizer final : public Optimizer {
 public:
  RuleOptimizer(OptimizerOptions options, std::vector<std::string> state_names)
      : options_(std::move(options)), state_names_(std::move(state_names)) {}

  std::string name() const override { return options_.name; }
  std::vector<std::string> state_names() const override { return state_names_; }
  double weight_decay() const override { return options_.weight_decay; }

  void step(const FlatSpan& span, std::int64_t step, double lr, double grad_scale) const override {
    SHOAL_ASSERT(step >= 1 && span.state.size() == state_names_.size());
    SHOAL_ASSERT(span.dtype == DType::float32 || span.dtype == DType::float64);
    const OptimizerOptions options = with_decay(options_, span.weight_decay);
    if (span.dtype == DType::float32)
      apply<float>(Rule<float>(options, step, lr, grad_scale), span);
    else
      apply<double>(Rule<double>(options, step, lr, grad_scale), span);
  }

  void step(DeviceTable& table, DType dtype, std::span<const DeviceArrays> arrays, std::span<const GroupFactors> groups,
            std::int64_t step, double grad_scale, void* stream) const override {
    SHOAL_ASSERT(step >= 1 && (dtype == DType::float32 || dtype == DType::float64));
    const auto apply_all =
        dtype == DType::float32 ? apply_on_device<float, Rule<float>> : apply_on_device<double, Rule<double>>;
    apply_all(table, arrays, options_, groups, step, grad_scale, stream);
  }

 private:
  OptimizerOptions options_;
  std::vector<std::string> state_names_;
};

template <typename T>
using AdamL2Rule = AdamRule<T, false>;
template <typename T>
using AdamWRule = AdamRule<T, true>;

void check_options(const OptimizerOptions& o) {
  const auto in_unit_interval = [](double x) { return x >= 0 && x < 1; };
  SHOAL_CHECK(std::isfinite(o.weight_decay) && o.weight_decay >= 0, OptionError,
              "--weight-decay must be a number >= 0, not {}", o.weight_decay);
  SHOAL_CHECK(in_unit_interval(o.beta1) && in_unit_interval(o.beta2), OptionError,
              "--betas must be two numbers in [0, 1), not {},{}", o.beta1, o.beta2);
  SHOAL_CHECK(in_unit_interval(o.rho), OptionError, "adadelta's rho must be in [0, 1), not {}", o.rho);
  SHOAL_CHECK(in_unit_interval(o.momentum), OptionError, "--momentum must be in [0, 1), not {}", o.momentum);
  SHOAL_CHECK(o.eps >= 0 && o.adadelta_eps >= 0, OptionError, "an optimizer's eps must not be negative");
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  check_options(options);
  using Names = std::vector<std::string>;
  if (options.name == "sgd" && options.momentum == 0) return std::make_unique<RuleOptimizer<SgdRule>>(options, Names{});
  if (options.name == "sgd") return std::make_unique<RuleOptimizer<MomentumRule>>(options, Names{"momentum_buffer"});
  if (options.name == "adam")
    return std::make_unique<RuleOptimizer<AdamL2Rule>>(options, Names{"exp_avg", "exp_avg_sq"});
  if (options.name == "adamw")
    return std::make_unique<RuleOptimizer<AdamWRule>>(options, Names{"exp_avg", "exp_avg_sq"});
  if (options.name == "adadelta")
    return std::make_unique<RuleOptimizer<AdadeltaRule>>(options, Names{"square_avg", "acc_delta"});
  throw OptionError("--optimizer knows sgd, adam, adamw and adadelta, not '{}'", options.name);
}

}  // namespace shoal::optim
