// Learning-rate schedules: pure functions of the place in the run, so that a restart has nothing to restore.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::optim {

// Which step of a run a learning rate is for.
struct ScheduleTime {
  std::int64_t epoch = 0;         // from 0
  std::int64_t step = 0;          // from 0, over all epochs
  std::int64_t total_steps = 0;   // of the whole run, stops included
  std::int64_t warmup_steps = 0;  // of these, the first; 0: none
};

// With N steps of warm-up in a run of T, step k (from 0) has the rate
//   k < N           base * (LEAST + (1 - LEAST) * w),  w = (k + 1) / N, or by logarithm ln(k + 1) / ln(N)
//   constant        base
//   step:SIZE:GAMMA base, times GAMMA once for every SIZE epochs since the start of the run
//   cosine[:MIN]    base * (MIN + (1 - MIN) * (1 - cos(pi q)) / 2),  q = (T - k) / (T - N)
//   linear[:MIN]    base * (MIN + (1 - MIN) * q)
// MIN and LEAST are 0 unless given. These are torch.optim.lr_scheduler's: LinearLR(start_factor=1/N, total_iters=N-1),
// followed (SequentialLR, milestones=[N]) by ConstantLR, StepLR, CosineAnnealingLR(T_max=T-N, eta_min=MIN*base) or
// LinearLR(1, MIN, total_iters=T-N); and, once warm, transformers' get_cosine_ and get_linear_schedule_with_warmup,
// whose warm-up begins one step earlier, at zero. As there, MIN is what the step after the last would have. The
// logarithm is that of DeepSpeed's WarmupLR at batch iteration k.
class Schedule {
 public:
  // Throws OptionError that names --schedule.
  static Schedule parse(const std::string& text);

  // "linear" (as without a call) or "log"; `least`: LEAST above, from 0 to 1. OptionError that names --warmup-type or
  // --warmup-min-ratio.
  void warm_up_by(const std::string& type, double least);

  // Throws OptionError that names --warmup where that is longer than the run. "step" is equal to StepLR to the last
  // bit, since it multiplies once for each SIZE epochs.
  double learning_rate(double base, const ScheduleTime& at) const;
  const std::string& text() const { return text_; }

 private:
  enum class Kind { constant, step, cosine, linear };
  void parse_step(const std::string& rest);
  void parse_least(const std::string& rest);
  double warmed_up(const ScheduleTime& at) const;

  std::string text_ = "constant";
  Kind kind_ = Kind::constant;
  std::int64_t size_ = 1;  // epochs
  double gamma_ = 1;
  double least_ = 0;  // as a part of the base rate
  bool warms_up_by_log_ = false;
  double warmup_least_ = 0;  // likewise
};

}  // namespace shoal::optim
