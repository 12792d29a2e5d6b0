#include "models/script_file.h"

#include <torch/torch.h>

namespace shoal::testing {

const char* const kTokens = R"({"format": 1, "name": "tiny", "module": "model", "data": "tokens", "vocab_size": 11,
  "max_positions": 8, "dtypes": ["fp32"], "non_persistent_buffers": ["table"], "defaults": {"wrap": "class:Block"}})";

jit::Module module_of_class(const std::string& name) {
  static int mangled = 0;  // as tracing does: the same class once more is another type
  jit::Module script(c10::QualifiedName(fmt::format("__torch__.library.___torch_mangle_{}.{}", mangled++, name)));
  script.register_attribute("training", c10::BoolType::get(), true);
  return script;
}

namespace {

at::Tensor random(const std::string& name, at::IntArrayRef shape) {
  return at::randn(shape, at::detail::createCPUGenerator(std::hash<std::string>{}(name)));
}

jit::Module make_block(const std::string& name) {
  jit::Module block = module_of_class("Block");
  block.register_parameter("weight", random(name, {6, 6}), /*is_buffer=*/false);
  block.register_parameter("bias", random(name + "b", {6}), /*is_buffer=*/false);
  block.register_attribute("p", c10::FloatType::get(), 0.2);
  block.define(R"(
    def forward(self, x):
        return x + torch.dropout(torch.tanh(torch.linear(x, self.weight, self.bias)), self.p, self.training)
  )");
  return block;
}

}  // namespace

jit::Module make_script() {
  jit::Module model = module_of_class("TinyLM"), embed = module_of_class("Embedding"),
              root = module_of_class("Program");
  const at::Tensor weight = random("embedding", {11, 6}).set_requires_grad(true);
  embed.register_parameter("weight", weight, false);
  model.register_module("embed", embed);
  model.register_parameter("head", weight, false);
  model.register_buffer("table", random("table", {8, 6}));
  model.register_buffer("scale", at::ones({}));
  for (const char* const name : {"first", "second"}) model.register_module(name, make_block(name));
  model.define(R"(
    def forward(self, x):
        device = torch.device("cpu")
        places = torch.arange(x.size(1), device=device)
        y = torch.embedding(self.embed.weight, x) + torch.index_select(self.table, 0, places)
        y = self.second.forward(self.first.forward(y)) * self.scale
        return torch.linear(y, self.head)
  )");
  root.register_module("model", model);
  root.define(R"(
    def forward(self, inputs, targets):
        logits = self.model.forward(inputs).flatten(0, 1)
        return torch.nll_loss(torch.log_softmax(logits, 1), targets.flatten(), None, 2, -100)
    def evaluate(self, inputs, targets):
        logits = self.model.forward(inputs).flatten(0, 1)
        wanted = targets.flatten()
        loss = torch.nll_loss(torch.log_softmax(logits, 1), wanted, None, 2, -100)
        return loss, torch.sum(logits.argmax(1) == wanted), torch.sum(wanted != -100)
  )");
  for (const at::Tensor& parameter : root.parameters()) parameter.set_requires_grad(true);
  return root;
}

data::Batch token_batch(std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return {at::randint(11, {4, 8}, generator), at::randint(11, {4, 8}, generator)};
}

}  // namespace shoal::testing
