#include "fsdp/deferred_models.h"

#include <ATen/CPUGeneratorImpl.h>

namespace shoal::testing {
namespace {

namespace nn = torch::nn;
using nn::Module;

template <typename Holder, typename... Options>
std::function<std::shared_ptr<Module>()> make(Options... options) {
  return [=] { return Holder(options...).ptr(); };
}

Construction weight(const std::string& name, const std::function<void(at::Tensor&)>& initialise,
                    std::vector<std::int64_t> sizes = {40, 30}) {
  return {name, [=] {
            return module_of([&](Module& module) {
              at::Tensor tensor = torch::empty(sizes);
              initialise(tensor);
              module.register_parameter("weight", tensor);
            });
          }};
}

std::shared_ptr<Module> two_layers() {
  auto module = std::make_shared<nn::SequentialImpl>();
  module->push_back(nn::Linear(30, 20));
  module->push_back(nn::Linear(20, 10));
  return module;
}

}  // namespace

std::shared_ptr<Module> module_of(const Fill& fill) {
  auto module = std::make_shared<Module>();
  fill(*module);
  return module;
}

std::vector<Construction> library_modules() {
  const nn::TransformerEncoderLayerOptions encoder(32, 4);
  return {{"Linear", make<nn::Linear>(600, 500)},
          {"Conv2d", make<nn::Conv2d>(nn::Conv2dOptions(8, 16, 3).groups(2))},
          {"ConvTranspose1d", make<nn::ConvTranspose1d>(nn::ConvTranspose1dOptions(6, 4, 3))},
          {"Embedding", make<nn::Embedding>(nn::EmbeddingOptions(50, 12).padding_idx(3))},
          {"EmbeddingBag", make<nn::EmbeddingBag>(50, 12)},
          {"LayerNorm", make<nn::LayerNorm>(nn::LayerNormOptions({24}))},
          {"large LayerNorm", make<nn::LayerNorm>(nn::LayerNormOptions({600, 500}))},
          {"BatchNorm2d", make<nn::BatchNorm2d>(7)},
          {"LSTM", make<nn::LSTM>(nn::LSTMOptions(12, 20).num_layers(2).bidirectional(true).proj_size(5))},
          {"GRU", make<nn::GRU>(12, 20)},
          {"Bilinear", make<nn::Bilinear>(nn::BilinearOptions(5, 6, 7))},
          {"PReLU", make<nn::PReLU>()},
          {"MultiheadAttention", make<nn::MultiheadAttention>(32, 4)},
          {"TransformerEncoderLayer", make<nn::TransformerEncoderLayer>(encoder)},
          {"TransformerDecoderLayer", make<nn::TransformerDecoderLayer>(nn::TransformerDecoderLayerOptions(32, 4))},
          {"TransformerEncoder", make<nn::TransformerEncoder>(nn::TransformerEncoderOptions(encoder, 3))}};
}

std::vector<Construction> initialisers() {
  using namespace nn::init;
  return {weight("constant_", [](at::Tensor& t) { constant_(t, 0.5); }),
          weight("eye_", [](at::Tensor& t) { eye_(t); }),
          weight("dirac_", [](at::Tensor& t) { dirac_(t); }, {6, 4, 3}),
          weight("kaiming_uniform_", [](at::Tensor& t) { kaiming_uniform_(t, 0.1); }),
          weight("kaiming_normal_", [](at::Tensor& t) { kaiming_normal_(t); }),
          weight("xavier_uniform_", [](at::Tensor& t) { xavier_uniform_(t); }),
          weight("xavier_normal_", [](at::Tensor& t) { xavier_normal_(t); }),
          weight("orthogonal_ tall", [](at::Tensor& t) { orthogonal_(t, 2); }),
          weight("orthogonal_ wide", [](at::Tensor& t) { orthogonal_(t); }, {30, 40}),
          weight("sparse_", [](at::Tensor& t) { sparse_(t, 0.3); })};
}

std::vector<Construction> passes() {
  const auto pass = [](const char* name, const std::function<void(Module&)>& visit) {
    return Construction{name, [=] {
                          const auto module = two_layers();
                          const torch::NoGradGuard no_grad;
                          module->apply(visit);
                          return module;
                        }};
  };
  return {pass("other distributions",
               [](Module& module) {
                 if (auto* linear = module.as<nn::Linear>()) linear->weight.normal_(0, 0.02), linear->bias.zero_();
               }),
          pass("scaled in place",
               [](Module& module) {
                 for (at::Tensor& p : module.parameters(/*recurse=*/false)) p.mul_(0.5).add_(1).clamp_(0.9, 1.1);
               }),
          pass("row by row",
               [](Module& module) {
                 if (auto* linear = module.as<nn::Linear>())
                   for (std::int64_t i = 0; i < linear->weight.size(0); i += 2) linear->weight[i].normal_();
               }),
          pass("truncated by masks",
               [](Module& module) {
                 for (at::Tensor& p : module.parameters(/*recurse=*/false)) p.masked_fill_(p.abs() > 0.1, 0);
               }),
          pass("frozen",
               [](Module& module) {
                 if (auto* linear = module.as<nn::Linear>()) linear->bias.set_requires_grad(false);
               }),
          pass("half", [](Module& module) { module.to(at::kHalf); })};
}

namespace {

void draw_from_one_generator(Module& module) {
  const at::Generator generator = at::detail::createCPUGenerator(3);
  module.register_parameter("a", torch::empty({9, 7}).uniform_(-1, 1, generator));
  module.register_parameter("b", torch::empty({4}).normal_(0, 1, generator));
  module.register_parameter("c", torch::empty({30}).normal_(0, 1, generator));
}

void seed_on_the_way(Module& module) {
  module.register_parameter("a", torch::randn({9, 7}));
  torch::manual_seed(77);
  module.register_parameter("b", torch::randn({5}));
  torch::manual_seed(77);
  module.register_parameter("c", torch::randn({5}));
}

void put_a_state_back(Module& module) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  module.register_parameter("a", torch::randn({3}));
  const at::Tensor state = generator.get_state();
  module.register_parameter("b", torch::randn({33}));
  generator.set_state(state);
  module.register_parameter("c", torch::rand({33}));
}

// Everybody's draws move the generator, also those that nobody keeps or that are made at once.
void draw_in_many_ways(Module& module) {
  const at::Tensor dropped = torch::rand({100});
  module.register_parameter("bernoulli", torch::bernoulli(torch::rand({50})));
  module.register_buffer("permutation", torch::randperm(60));
  module.register_buffer("multinomial", torch::multinomial(torch::rand({20}), 6));
  module.register_parameter("normal", at::normal(torch::rand({20}), 0.5));
  module.register_parameter("gamma", torch::_standard_gamma(torch::rand({25}) + 1));
  module.register_parameter("dropout", torch::dropout(torch::randn({40}), 0.4, true));
  module.register_buffer("integers", torch::randint(10, {30}, at::kLong));
  module.register_parameter("like", torch::rand_like(module.named_parameters()["dropout"]));
  const at::Tensor weight = module.register_parameter("overwritten", torch::randn({10}));
  const torch::NoGradGuard no_grad;
  weight.uniform_();
}

void decide_by_values(Module& module) {
  at::Tensor weight = torch::randn({300});
  if (weight.sum().item<float>() > 0) weight = -weight;
  weight[0] = torch::rand({1}).item<float>();
  const at::Tensor positive = weight.index({weight > 0});
  module.register_parameter("weight", weight);
  module.register_parameter("positive", positive);
  module.register_parameter("after", torch::randn({12}));
}

void fill_through_pointers(Module& module) {
  const std::vector<float> numbers{1, 2, 3, 5, 8};
  at::Tensor table = torch::empty({2, 3});
  auto access = table.accessor<float, 2>();
  for (int i = 0; i < 6; ++i) access[i / 3][i % 3] = static_cast<float>(i * i);
  std::vector<float> theirs{4, 3, 2};
  const at::Tensor borrowed = torch::from_blob(theirs.data(), {3});
  at::Tensor target = torch::randn({3});
  target.copy_(borrowed);
  at::Tensor sum = torch::rand({3});
  sum += borrowed;
  theirs = {0, 0, 0};
  module.register_parameter("numbers", torch::tensor(numbers));
  module.register_parameter("list", torch::tensor({{1.0, 2.0}, {3.0, 4.0}}));
  module.register_buffer("table", table);
  module.register_parameter("target", target);
  module.register_parameter("sum", sum);
  at::Tensor random = torch::rand({3});
  random.copy_(torch::tensor(numbers).narrow(0, 0, 3) * random);
  module.register_parameter("random", random);
}

// Tables as of rotary embeddings and causal masks, too large to be made at once.
void compute_tables(Module& module) {
  const at::Tensor frequencies = torch::pow(10000.0, -torch::arange(0, 64, 2) / 64);
  const at::Tensor angles = torch::outer(torch::arange(10000), frequencies);
  module.register_buffer("cos", torch::cat({angles, angles}, 1).cos());
  module.register_buffer("sin", torch::cat({angles, angles}, 1).sin().to(at::kBFloat16));
  module.register_buffer("mask", torch::ones({1200, 1200}, at::kBool).tril().view({1, 1, 1200, 1200}));
  at::Tensor power = torch::eye(600);
  for (int i = 0; i < 40; ++i) power = power + power * 0.5;  // each step reads the one before twice
  module.register_parameter("power", power);
}

void change_shapes(Module& module) {
  at::Tensor weight = torch::randn({6, 8});
  weight.t_();
  weight.unsqueeze_(0);
  module.register_parameter("weight", weight.squeeze(0).contiguous());
  at::Tensor out = torch::empty({0});
  torch::add_out(out, torch::randn({700, 600}), torch::ones({600}));
  module.register_parameter("out", out);
  const auto pieces = torch::randn({9, 4}).chunk(3);
  module.register_parameter("stacked", torch::stack({pieces[0], pieces[2].detach().mul_(3)}));
  at::Tensor indexed = torch::zeros({30, 5});
  indexed.index_put_({torch::randperm(30).slice(0, 0, 10)}, torch::randn({5}));
  module.register_parameter("indexed", indexed);
}

}  // namespace

std::vector<Construction> unusual_constructors() {
  const auto with = [](const char* name, const Fill& fill) {
    return Construction{name, [fill] { return module_of(fill); }};
  };
  return {with("one generator for all", draw_from_one_generator),
          with("seeded on the way", seed_on_the_way),
          with("a generator's state put back", put_a_state_back),
          with("draws of many kinds", draw_in_many_ways),
          with("decisions by values", decide_by_values),
          with("memory filled through pointers", fill_through_pointers),
          with("tables", compute_tables),
          with("shapes that change", change_shapes)};
}

}  // namespace shoal::testing
