#include "apps/train_optimizer_options.h"

#include <boost/program_options.hpp>
#include <charconv>
#include <string_view>

#include "apps/option_values.h"
#include "core/check.h"

namespace shoal::apps {
namespace {

namespace po = boost::program_options;
using train::TrainOptions;

double parse_beta(std::string_view text, const std::string& all) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  SHOAL_CHECK(error == std::errc() && end == text.data() + text.size(), OptionError,
              "--betas takes two numbers with a comma between them, not '{}'", all);
  return number;
}

po::value_semantic* betas_value(optim::OptimizerOptions& rule) {
  return po::value<std::string>()->value_name("B1,B2")->notifier([&rule](const std::string& text) {
    const std::string_view view(text);
    const std::size_t comma = view.find(',');
    rule.beta1 = parse_beta(view.substr(0, comma), text);
    rule.beta2 = parse_beta(comma == view.npos ? std::string_view() : view.substr(comma + 1), text);
  });
}

}  // namespace

po::options_description optimizer_options(TrainOptions& o) {
  po::options_description d("Optimizer");
  d.add_options()                                                                        //
      ("optimizer", value(o.optimizer.rule.name, "NAME"), "sgd, adam, adamw, adadelta")  //
      ("lr", value(o.optimizer.learning_rate, "X"), "learning rate")                     //
      ("momentum", value(o.optimizer.rule.momentum, "X"), "of sgd (0)")                  //
      ("betas", betas_value(o.optimizer.rule), "of adam and adamw (0.9,0.999)")          //
      ("eps", value(o.optimizer.rule.eps, "X"), "of adam and adamw (1e-08)")             //
      ("weight-decay", value(o.optimizer.rule.weight_decay, "X"),
       "decoupled for adamw, else added to the gradient (0)")  //
      ("schedule", value(o.optimizer.schedule, "S"),
       "constant, step:SIZE:GAMMA (times GAMMA after every SIZE epochs), cosine:MIN, linear:MIN (down to MIN times "
       "--lr)")                                                                                         //
      ("warmup", value(o.optimizer.warmup, "N"), "steps in which the learning rate rises to --lr (0)")  //
      ("warmup-type", value(o.optimizer.warmup_type, "T"),
       "how it rises: linear, or log, as DeepSpeed's WarmupLR "
       "(linear)")                                                                                              //
      ("warmup-min-ratio", value(o.optimizer.warmup_min_ratio, "X"), "where it begins, as a part of --lr (0)")  //
      ("no-decay", value(o.optimizer.no_decay, "WHICH"),
       "parameters without weight decay: auto (fewer than two dimensions: norms and biases), none, GLOB,... (auto)")  //
      ("param-group", po::value(&o.optimizer.param_groups)->value_name("G")->composing(),
       "GLOB:lr-scale=X,weight-decay=X for parameters of these names; may be given several times")  //
      ("clip-grad-norm", value(o.optimizer.clip_grad_norm, "X"), "largest 2-norm of the whole gradient (0: any)");
  return d;
}

po::options_description loss_scale_options(TrainOptions& o) {
  train::LossScaleOptions& scale = o.optimizer.loss_scale;
  po::options_description d("Loss scale, with --param-dtype fp16");
  d.add_options()                                                                                                    //
      ("loss-scale", value(scale.fixed, "X"), "of all steps; 0: halved at overflows, doubled without (0)")           //
      ("initial-scale-power", value(scale.initial_power, "N"), "the first scale is 2 to the power of N (16)")        //
      ("loss-scale-window", value(scale.window, "N"), "steps without an overflow after which it is doubled (2000)")  //
      ("hysteresis", value(scale.hysteresis, "N"), "overflows at which it is halved (1)")                            //
      ("consecutive-hysteresis", po::bool_switch(&scale.consecutive_hysteresis),
       "these are counted in a row, not since the scale was doubled")  //
      ("min-loss-scale", value(scale.least, "X"), "the least scale; an overflow with it ends the run (2^-14)");
  return d;
}

}  // namespace shoal::apps
