// Our rules against LibTorch's own optimizers, parameter and state, for 200 steps.
#include "optim/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "core/error.h"

namespace shoal::optim {
namespace {

constexpr std::int64_t kCount = 1003;  // not a multiple of any vector width
constexpr int kSteps = 200;
constexpr double kLearningRate = 0.1;

// The reference: a parameter trained by LibTorch.
class Reference {
 public:
  explicit Reference(const at::Tensor& start) : param_(start.clone().requires_grad_()) {}
  virtual ~Reference() = default;
  virtual void step(const at::Tensor& grad) = 0;
  virtual std::vector<at::Tensor> states() = 0;
  at::Tensor param() const { return param_.detach(); }

 protected:
  at::Tensor param_;
};

template <typename Optimizer, typename ParamState>
class TorchReference : public Reference {
 public:
  using States = std::function<std::vector<at::Tensor>(ParamState&)>;
  template <typename Options>
  TorchReference(const at::Tensor& start, Options options, States states)
      : Reference(start), optimizer_({param_}, options), states_(std::move(states)) {}

  void step(const at::Tensor& grad) override {
    param_.mutable_grad() = grad;
    optimizer_.step();
  }
  std::vector<at::Tensor> states() override {
    if (optimizer_.state().empty()) return {};
    return states_(static_cast<ParamState&>(*optimizer_.state().begin()->second));
  }

 private:
  Optimizer optimizer_;
  States states_;
};

// LibTorch has no Adadelta: these are the operators of PyTorch's torch/optim/adadelta.py, _single_tensor_adadelta.
class AdadeltaReference : public Reference {
 public:
  AdadeltaReference(const at::Tensor& start, double weight_decay) : Reference(start), weight_decay_(weight_decay) {}

  void step(const at::Tensor& raw_grad) override {
    const at::NoGradGuard no_grad;
    const at::Tensor grad = raw_grad.add(param_, weight_decay_);
    square_avg_.mul_(0.9).addcmul_(grad, grad, 1 - 0.9);
    const at::Tensor std = square_avg_.add(1e-6).sqrt_();
    const at::Tensor delta = acc_delta_.add(1e-6).sqrt_().div_(std).mul_(grad);
    acc_delta_.mul_(0.9).addcmul_(delta, delta, 1 - 0.9);
    param_.add_(delta, -kLearningRate);
  }
  std::vector<at::Tensor> states() override { return {square_avg_, acc_delta_}; }

 private:
  double weight_decay_;
  at::Tensor square_avg_ = at::zeros_like(param_.detach()), acc_delta_ = at::zeros_like(param_.detach());
};

struct Case {
  OptimizerOptions options;
  std::function<std::unique_ptr<Reference>(const at::Tensor& start)> reference;
};

std::vector<Case> cases() {
  using namespace torch::optim;
  using Sgd = TorchReference<SGD, SGDParamState>;
  using AdamReference = TorchReference<Adam, AdamParamState>;
  using AdamWReference = TorchReference<AdamW, AdamWParamState>;
  const auto none = [](SGDParamState&) { return std::vector<at::Tensor>{}; };
  const auto momentum = [](SGDParamState& s) { return std::vector{s.momentum_buffer()}; };
  const auto moments = [](auto& s) { return std::vector{s.exp_avg(), s.exp_avg_sq()}; };
  const double lr = kLearningRate;
  return {
      {{.name = "sgd", .weight_decay = 0.01},
       [=](auto& p) { return std::make_unique<Sgd>(p, SGDOptions(lr).weight_decay(0.01), none); }},
      {{.name = "sgd", .weight_decay = 0.01, .momentum = 0.9},
       [=](auto& p) { return std::make_unique<Sgd>(p, SGDOptions(lr).momentum(0.9).weight_decay(0.01), momentum); }},
      {{.name = "adam", .weight_decay = 0.02, .beta1 = 0.8, .beta2 = 0.95},
       [=](auto& p) {
         return std::make_unique<AdamReference>(p, AdamOptions(lr).betas({0.8, 0.95}).weight_decay(0.02), moments);
       }},
      {{.name = "adamw", .weight_decay = 0.02},
       [=](auto& p) { return std::make_unique<AdamWReference>(p, AdamWOptions(lr).weight_decay(0.02), moments); }},
      {{.name = "adadelta", .weight_decay = 0.03},
       [=](auto& p) { return std::make_unique<AdadeltaReference>(p, 0.03); }},
  };
}

// What our optimizer works on: a parameter and its states, all on the host.
struct Ours {
  std::unique_ptr<Optimizer> rule;
  at::Tensor param;
  std::vector<at::Tensor> states;
  std::optional<double> weight_decay;  // of the group

  Ours(const OptimizerOptions& options, const at::Tensor& start) : rule(make_optimizer(options)), param(start.clone()) {
    for (std::size_t i = 0; i < rule->state_names().size(); ++i) states.push_back(at::zeros_like(start));
  }

  void step(const at::Tensor& grad, std::int64_t step, double lr, double grad_scale) {
    FlatSpan span{.dtype = param.scalar_type() == at::kFloat ? DType::float32 : DType::float64,
                  .param = param.data_ptr(),
                  .grad = grad.data_ptr(),
                  .state = {},
                  .count = param.numel(),
                  .weight_decay = weight_decay};
    for (at::Tensor& state : states) span.state.push_back(state.data_ptr());
    rule->step(span, step, lr, grad_scale);
  }
};

double largest_difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

constexpr double kGradScale = 0.25;  // a power of two: scaling the gradient first is exact

at::Tensor gradient(int step) {
  return torch::randn({kCount}, at::detail::createCPUGenerator(static_cast<std::uint64_t>(step)), torch::kFloat32);
}

// Parameter and states after all steps in `dtype`, on the same numbers whatever the type.
std::vector<at::Tensor> torch_course(const Case& test_case, at::ScalarType dtype) {
  const auto reference = test_case.reference(gradient(0).to(dtype));
  for (int step = 1; step <= kSteps; ++step) reference->step(gradient(step).to(dtype) * kGradScale);
  std::vector<at::Tensor> course = reference->states();
  course.insert(course.begin(), reference->param());
  return course;
}

std::vector<at::Tensor> our_course(const Case& test_case, at::ScalarType dtype) {
  Ours ours(test_case.options, gradient(0).to(dtype));
  for (int step = 1; step <= kSteps; ++step) ours.step(gradient(step).to(dtype), step, kLearningRate, kGradScale);
  std::vector<at::Tensor> course = ours.states;
  course.insert(course.begin(), ours.param);
  return course;
}

// What rounding may do is measured: torch in float32 is so far from torch in float64. Ours may be four times as far,
// and in float64 that times the ratio of the types' last places.
TEST(Optimizer, EqualsTorchStepForStep) {
  for (const Case& c : cases()) {
    const std::vector<at::Tensor> exact = torch_course(c, torch::kFloat64), rounded = torch_course(c, torch::kFloat32);
    const std::vector<at::Tensor> single = our_course(c, torch::kFloat32), twice = our_course(c, torch::kFloat64);
    ASSERT_EQ(single.size(), exact.size());
    EXPECT_GT(largest_difference(exact[0], gradient(0)), 0.01) << c.options.name << ": nothing was trained";
    for (std::size_t i = 0; i < exact.size(); ++i) {
      SCOPED_TRACE(fmt::format("{}, array {}", c.options.name, i));
      const double rounding = largest_difference(rounded[i], exact[i]);
      EXPECT_LT(rounding, 1e-3) << "rounding hides what is to be seen";
      EXPECT_LE(largest_difference(single[i], exact[i]), 4 * rounding);
      EXPECT_LE(largest_difference(twice[i], exact[i]), 4 * rounding * 0x1p-29);
    }
  }
}

// A group's span is stepped as by an optimizer that has the group's weight decay.
TEST(Optimizer, ASpansWeightDecayIsThatOfItsGroup) {
  for (const Case& c : cases()) {
    OptimizerOptions decayed = c.options;
    decayed.weight_decay = 0.3;
    Ours whole(decayed, gradient(0)), group(c.options, gradient(0)), without(c.options, gradient(0));
    group.weight_decay = 0.3;
    for (int step = 1; step <= 3; ++step)
      for (Ours* ours : {&whole, &group, &without}) ours->step(gradient(step), step, kLearningRate, kGradScale);
    EXPECT_TRUE(at::equal(group.param, whole.param)) << c.options.name;
    EXPECT_FALSE(at::equal(without.param, whole.param)) << c.options.name;
    EXPECT_EQ(whole.rule->weight_decay(), 0.3);
  }
}

// A shard may start anywhere: the update of an element must not depend on its neighbours or on its place.
TEST(Optimizer, CuttingTheArrayChangesNoBit) {
  for (const Case& c : cases()) {
    torch::manual_seed(3);
    const at::Tensor start = torch::randn({kCount}), grad = torch::randn({kCount});
    Ours whole(c.options, start);
    for (int step = 1; step <= 3; ++step) whole.step(grad, step, 0.1, 0.3);
    std::vector<at::Tensor> pieces;
    for (const auto& [begin, end] : {std::pair{0, 1}, {1, 18}, {18, 500}, {500, int(kCount)}}) {
      Ours piece(c.options, start.slice(0, begin, end));
      const at::Tensor piece_grad = grad.slice(0, begin, end).clone();
      for (int step = 1; step <= 3; ++step) piece.step(piece_grad, step, 0.1, 0.3);
      pieces.push_back(piece.param);
    }
    EXPECT_TRUE(at::equal(whole.param, at::cat(pieces))) << c.options.name;
  }
}

TEST(Optimizer, StateNamesAreTorchs) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(make_optimizer({.name = "sgd"})->state_names(), Names{});
  EXPECT_EQ(make_optimizer({.name = "sgd", .momentum = 0.9})->state_names(), Names{"momentum_buffer"});
  EXPECT_EQ(make_optimizer({.name = "adam"})->state_names(), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(make_optimizer({.name = "adamw"})->state_names(), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(make_optimizer({.name = "adadelta"})->state_names(), (Names{"square_avg", "acc_delta"}));
}

TEST(Optimizer, RejectsBadOptions) {
  EXPECT_THROW(make_optimizer({.name = "lion"}), OptionError);
  EXPECT_THROW(make_optimizer({.name = "adam", .weight_decay = -1}), OptionError);
  EXPECT_THROW(make_optimizer({.name = "adam", .beta1 = 1}), OptionError);
  EXPECT_THROW(make_optimizer({.name = "sgd", .momentum = -0.1}), OptionError);
}

}  // namespace
}  // namespace shoal::optim
