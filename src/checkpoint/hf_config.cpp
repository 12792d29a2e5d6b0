#include "checkpoint/hf_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/file_names.h"

namespace shoal::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// The options of the run, as text; a shape that is not there is an exception of Json's.
class Shape {
 public:
  explicit Shape(const Json& options) : options_(&options) {}
  std::int64_t number(const char* name) const { return std::stoll(options_->at(name).get<std::string>()); }
  double real(const char* name) const { return std::stod(options_->at(name).get<std::string>()); }
  double dropout() const { return options_->contains("dropout") ? real("dropout") : 0; }
  bool tied() const { return options_->value("untied-head", "off") == "off"; }

 private:
  const Json* options_;
};

Json gpt2(const Shape& shape) {
  Json json{{"architectures", {"GPT2LMHeadModel"}},
            {"model_type", "gpt2"},
            {"n_layer", shape.number("layers")},
            {"n_head", shape.number("heads")},
            {"n_embd", shape.number("hidden-size")},
            {"n_inner", shape.number("intermediate-size")},
            {"n_positions", shape.number("max-positions")},
            {"activation_function", "gelu_new"},
            {"layer_norm_epsilon", 1e-5}};
  for (const char* name : {"embd_pdrop", "attn_pdrop", "resid_pdrop"}) json[name] = shape.dropout();
  return json;
}

Json llama(const Shape& shape) {
  Json rope{{"rope_type", "default"}, {"rope_theta", shape.real("rope-theta")}};
  if (const double factor = shape.real("rope-scaling"); factor != 1) {  // Llama 3.1's rule
    rope["rope_type"] = "llama3";
    rope["factor"] = factor;
    rope["low_freq_factor"] = 1.0;
    rope["high_freq_factor"] = 4.0;
    rope["original_max_position_embeddings"] = 8192;
  }
  Json json{{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"num_hidden_layers", shape.number("layers")},
            {"num_attention_heads", shape.number("heads")},
            {"num_key_value_heads", shape.number("kv-heads")},
            {"hidden_size", shape.number("hidden-size")},
            {"intermediate_size", shape.number("intermediate-size")},
            {"max_position_embeddings", shape.number("max-positions")},
            {"hidden_act", "silu"},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", shape.real("rope-theta")},  // versions before 5 read these two
            {"rope_scaling", nullptr},
            {"rope_parameters", rope}};
  if (rope["rope_type"] != "default") json["rope_scaling"] = rope;
  return json;
}

Json bert(const Shape& shape) {
  return {{"architectures", {"BertForMaskedLM"}},
          {"model_type", "bert"},
          {"num_hidden_layers", shape.number("layers")},
          {"num_attention_heads", shape.number("heads")},
          {"hidden_size", shape.number("hidden-size")},
          {"intermediate_size", shape.number("intermediate-size")},
          {"max_position_embeddings", shape.number("max-positions")},
          {"type_vocab_size", 2},
          {"hidden_act", "gelu"},
          {"layer_norm_eps", 1e-12},
          {"hidden_dropout_prob", shape.dropout()},
          {"attention_probs_dropout_prob", shape.dropout()}};
}

Json config_of(const std::string& model, const Shape& shape) {
  if (model.starts_with("gpt2-")) return gpt2(shape);
  if (model.starts_with("llama-")) return llama(shape);
  if (model.starts_with("bert-")) return bert(shape);
  return nullptr;
}

}  // namespace

std::optional<std::string> hf_config(const Manifest& manifest) {
  const Json state = Json::parse(manifest.training_state, nullptr, false);
  try {
    const Shape shape(state.at("options"));
    Json config = config_of(state.at("model").get<std::string>(), shape);
    if (config.is_null()) return std::nullopt;
    config["vocab_size"] = shape.number("vocab-size");
    config["tie_word_embeddings"] = shape.tied();
    const auto parameter = std::find_if(manifest.tensors.begin(), manifest.tensors.end(), [](const SavedTensor& t) {
      return is_model_tensor(t.spec.name) && is_floating(t.spec.dtype);
    });
    if (parameter != manifest.tensors.end()) config["dtype"] = name_of(parameter->spec.dtype);
    return config.dump(2) + "\n";
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::logic_error&) {  // no number
    return std::nullopt;
  }
}

}  // namespace shoal::checkpoint
