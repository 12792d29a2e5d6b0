#include "train/trainer.h"

#include <algorithm>
#include <utility>

#include "checkpoint/catalog.h"
#include "core/check.h"
#include "core/logging.h"
#include "core/timer.h"
#include "core/trace.h"
#include "core/trace_summary.h"
#include "train/agreement.h"
#include "train/device.h"
#include "train/evaluation.h"

namespace shoal::train {
namespace {

StepOptions step_options(const TrainOptions& options, std::function<void()> before_update) {
  const bool fp16 = options.sharding.param_dtype == "fp16";
  return {.seed = static_cast<std::uint64_t>(options.run.seed),
          .clip_grad_norm = options.optimizer.clip_grad_norm,
          .accumulation = parse_accumulate_mode(options.sharding.accumulate_mode),
          .loss_scale = fp16 ? std::optional(options.optimizer.loss_scale) : std::nullopt,
          .before_update = std::move(before_update)};
}

}  // namespace

Trainer::Trainer(const TrainParts& parts, const TrainOptions& options, const BatchPlan& plan,
                 checkpoint::Checkpointer* checkpointer, TrainerHooks hooks)
    : parts_(parts),
      options_(options),
      plan_(plan),
      checkpointer_(checkpointer),
      hooks_(std::move(hooks)),
      schedule_(schedule_of(options.optimizer)),
      cadence_(Cadence::parse(options.checkpoint.every)),
      sampler_(parts.train_data.size(), static_cast<std::uint64_t>(options.run.seed), options.data.shuffle),
      total_steps_(total_steps(options, plan, parts.train_data.size())),
      data_{parts.train_data.size(), parts.train_data.fingerprint()},
      runner_(parts, plan, step_options(options, [this] { await_copies(); })),
      log_(options.run, parts.rates, parts.world.size(), total_steps_) {}

Outcome Trainer::run() {
  if (finished())
    log::result("nothing left to train: step {}, {} epochs done; raise --epochs or --max-steps to go on",
                progress_.step, progress_.position.epoch);
  if (checkpointer_ != nullptr && options_.checkpoint.async_save != "off" && !parts_.device.is_cpu())
    checkpointer_->prepare_saves(state(fsdp::StateMemory::in_place));
  if (options_.checkpoint.save_at_start && last_checkpoint_.empty()) save(/*complete=*/true);
  validate_after_epoch();  // which a stop may have come before
  feed_.emplace(parts_.train_data, sampler_, plan_, parts_.world.rank(), progress_.position, options_.data.prefetch,
                batch_memory(parts_.device));
  while (!finished()) {
    const StepResult result = step();
    if (result.asked.superseded && checkpointer_ != nullptr) run_agreeing([&] { checkpointer_->check(); });
    continue_save(result.asked);
    if (result.asked.stop()) {
      stopped_by_ = result.asked;
      save(/*complete=*/true);
      return Outcome::stopped;
    }
    validate_after_epoch();
    if (result.asked.save || cadence_.due(progress_.step, epoch_ended() ? progress_.position.epoch : 0))
      save(/*complete=*/false);
  }
  if (progress_.test_step != progress_.step) validate();
  save(/*complete=*/true);
  return Outcome::finished;
}

bool Trainer::finished() const {
  return progress_.position.epoch >= options_.run.epochs ||
         (options_.run.max_steps > 0 && progress_.step >= options_.run.max_steps);
}

StepResult Trainer::step() {
  const Timer timer;
  if (parts_.trace != nullptr) parts_.trace->begin_step(progress_.step + 1, log_.tells(progress_.step + 2));
  const data::SamplePosition at = progress_.position;
  const Range places = sampler_.step_range(at, plan_.global_batch);
  const auto asks = [this] {
    Asks mine = hooks_.asks ? hooks_.asks(ahead()) : Asks();
    mine.writing = checkpointer_ != nullptr && !checkpointer_->save_idle();
    return mine;
  };
  const double lr = learning_rate(at.epoch);
  const StepResult result = runner_.run(
      sampler_, [this] { return feed_->next(); }, at.epoch, places, progress_.step, lr, asks,
      log_.tells(progress_.step + 1));
  if (parts_.trace != nullptr) parts_.trace->end_step();
  ++progress_.step;
  progress_.optimizer_steps = parts_.optimizer.steps();
  if (runner_.loss_scaler()) progress_.loss_scaler = runner_.loss_scaler()->state();
  progress_.position = sampler_.advance(at, plan_.global_batch);
  progress_.tokens += result.tokens;
  progress_.epoch_loss_sum += result.loss_sum;
  progress_.epoch_count += result.count;
  const double seconds = timer.seconds();
  tell(result, at.epoch, seconds, lr);
  if (hooks_.stepped) hooks_.stepped(progress_, result, seconds);
  if (epoch_ended()) end_epoch(at.epoch);
  return result;
}

// The step before the one that a line tells of is recorded: now that this one's loss is there, all that the device did
// for that is past, so that asking for it waits for nothing.
void Trainer::tell(const StepResult& result, std::int64_t epoch, double seconds, double learning_rate) {
  const auto split = log_.tells(progress_.step) ? take_split() : std::nullopt;
  const auto metrics = log_.step(progress_, epoch, result, seconds, learning_rate, parts_.device, split);
  if (metrics && hooks_.measured) hooks_.measured(*metrics);
  if (parts_.trace == nullptr || !log_.tells(progress_.step + 1)) return;
  recorded_ = launch::StepSplit{.step = progress_.step, .step_ms = 1e3 * seconds, .data = 1e3 * result.data_seconds};
}

std::optional<launch::StepSplit> Trainer::take_split() {
  if (!recorded_) return std::nullopt;
  launch::StepSplit split = *std::exchange(recorded_, std::nullopt);
  const std::vector<StepTimes> times = step_times(parts_.trace->take(split.step));
  if (times.empty()) return std::nullopt;
  constexpr double kMicrosecondsAMillisecond = 1000;
  split.compute = (times[0].compute - times[0].optimizer) / kMicrosecondsAMillisecond;
  split.exposed = times[0].exposed / kMicrosecondsAMillisecond;
  split.optimizer = times[0].optimizer / kMicrosecondsAMillisecond;
  split.host = std::max(0.0, split.step_ms - split.compute - split.exposed - split.optimizer - split.data);
  return split;
}

// What comes between the step at hand and the next one.
launch::Ahead Trainer::ahead() const {
  const data::SamplePosition after = sampler_.advance(progress_.position, plan_.global_batch);
  const bool ends_epoch = after.consumed == 0;
  return {.seconds = ends_epoch ? validation_seconds_ : 0,
          .checkpoint = cadence_.due(progress_.step + 1, ends_epoch ? after.epoch : 0) ||
                        (checkpointer_ != nullptr && checkpointer_->saving())};
}

double Trainer::learning_rate(std::int64_t epoch) const {
  return schedule_.learning_rate(
      options_.optimizer.learning_rate,
      {.epoch = epoch, .step = progress_.step, .total_steps = total_steps_, .warmup_steps = options_.optimizer.warmup});
}

void Trainer::end_epoch(std::int64_t epoch) {
  log_.epoch(progress_, epoch);
  progress_.epoch_loss_sum = 0;
  progress_.epoch_count = 0;
}

void Trainer::validate_after_epoch() {
  if (epoch_ended() && progress_.test_step != progress_.step) validate();
}

void Trainer::validate() {
  if (parts_.test_data == nullptr) return;
  const Timer timer;
  const models::EvalSum sum = evaluate(parts_, options_.data.test_batch_size, options_.data.prefetch);
  log_.evaluation(sum, parts_.metric);
  const auto count = static_cast<double>(sum.count);
  progress_.test_step = progress_.step;
  progress_.test_accuracy = static_cast<double>(sum.correct) / count;
  progress_.test_loss = sum.loss_sum / count;
  progress_.best_test_accuracy = std::max(progress_.best_test_accuracy, progress_.test_accuracy);
  validation_seconds_ = timer.seconds();
  if (hooks_.validated) hooks_.validated(progress_);
}

StateDict Trainer::state(fsdp::StateMemory memory) {
  StateDict state = parts_.sharded.state_dict(memory);
  state.append(parts_.optimizer.state_dict(memory));
  return state;
}

void Trainer::await_copies() {
  if (checkpointer_ != nullptr) checkpointer_->await_copies();
}

// A newer attempt that comes right after a commit makes the save an error, and goes on from what was committed.
void Trainer::noting_what_was_committed(const std::function<void()>& save) {
  try {
    run_agreeing(save);
  } catch (const std::exception&) {
    if (const auto& report = checkpointer_->committed_despite_error()) saved(*report);
    throw;
  }
}

void Trainer::save(bool complete) {
  if (checkpointer_ == nullptr) return;
  const std::string& async = options_.checkpoint.async_save;
  const bool due = saved_step_ != progress_.step;
  if (due && !complete && async == "skip" && checkpointer_->saving()) {
    log::warning(
        "step {} is not saved: the checkpoint before it is still being written; --async-save wait waits for it",
        progress_.step);
    return;
  }
  if (checkpointer_->saving() && (due || complete)) finish_save();
  if (!due) return;
  parts_.sharded.sync_buffers();
  const std::string training_state = format_training_state(options_, progress_, data_, parts_.world.size());
  saved_step_ = progress_.step;
  std::optional<checkpoint::SaveReport> report;
  noting_what_was_committed([&] {
    StateDict state = this->state(fsdp::StateMemory::in_place);
    if (complete || async == "off")
      report = checkpointer_->save(progress_.step, std::move(state), training_state);
    else
      checkpointer_->start_save(progress_.step, std::move(state), training_state);
  });
  if (report) saved(*report);
}

// All ranks hear the same: nobody writes any more.
void Trainer::continue_save(const Asks& asked) {
  if (checkpointer_ == nullptr || !checkpointer_->saving() || asked.writing) return;
  std::optional<checkpoint::SaveReport> report;
  noting_what_was_committed([&] { report = checkpointer_->continue_save(); });
  if (report) saved(*report);
}

void Trainer::finish_save() {
  checkpoint::SaveReport report;
  noting_what_was_committed([&] { report = checkpointer_->finish_save(); });
  saved(report);
}

void Trainer::saved(const checkpoint::SaveReport& report) {
  last_checkpoint_ = report.path;
  log::info("saved {} ({:.1f} MiB in {:.2f} s)", report.path.string(), static_cast<double>(report.bytes) / (1 << 20),
            report.seconds);
  if (hooks_.saved) hooks_.saved(report, saved_step_, report.seconds);
}

void Trainer::restore() {
  if (checkpointer_ == nullptr) return;
  check_before_restore();
  run_agreeing([&] { checkpointer_->enter(); });
  if (options_.checkpoint.resume == "never") return;
  const Timer timer;
  StateDict state = this->state(fsdp::StateMemory::host);
  std::optional<checkpoint::Restored> restored;
  run_agreeing(
      [&] { restored = checkpointer_->restore(state, options_.checkpoint.resume, match_rules(options_.checkpoint)); });
  if (!restored) return;
  adopt(*restored);
  state.loaded();
  log::info("the checkpoint was read, checked and in place after {:.2f} s", timer.seconds());
}

// Says what contradicts the command line in its words, before the comparison of tensors would say it in others. Damage
// is left to the Checkpointer, which knows what to fall back to.
void Trainer::check_before_restore() {
  const CheckpointOptions& options = options_.checkpoint;
  run_everywhere(parts_.world, [&]() -> std::string {
    if (parts_.world.rank() != 0) return "";
    const auto existing = checkpoint::list_checkpoints(options.directory);
    SHOAL_CHECK(options.resume != "never" || existing.empty(), OptionError,
                "--resume never, but {} holds checkpoints, which new ones would displace: give another "
                "--checkpoint-dir, or move them away",
                options.directory.string());
    if (options.resume == "never" || (options.resume == "auto" && existing.empty())) return "";
    const std::filesystem::path path =
        options.resume == "auto" ? existing.front().path : checkpoint::resolve_checkpoint(options.resume);
    std::string training_state;
    try {
      training_state = checkpoint::read_manifest(path).training_state;
    } catch (const CheckpointError&) {
      return "";
    }
    check_same_run(training_state, path.string(), options_);
    return "";
  });
}

void Trainer::adopt(const checkpoint::Restored& restored) {
  const std::string where = restored.path.string();
  run_everywhere(parts_.world, [&]() -> std::string {
    check_same_run(restored.training_state, where, options_);
    if (parts_.world.rank() == 0) check_continues(restored.training_state, where, options_, data_);
    progress_ = parse_progress(restored.training_state, where);
    if (is_imported(restored.training_state))
      progress_.position = position_after(progress_.step, data_.samples, plan_.global_batch);
    SHOAL_CHECK(progress_.position.consumed < data_.samples, OptionError,
                "{}: {} samples of the epoch were used, but --data holds {}", where, progress_.position.consumed,
                data_.samples);
    return "";
  });
  parts_.optimizer.set_steps(progress_.optimizer_steps);
  if (runner_.loss_scaler() && progress_.loss_scaler) runner_.loss_scaler()->restore(*progress_.loss_scaler);
  saved_step_ = progress_.step;
  last_checkpoint_ = restored.path;
  log::info("resumed from {}: step {}, epoch {}, {} samples of it done; it was written by {} ranks, now there are {}",
            where, progress_.step, progress_.position.epoch + 1, progress_.position.consumed, restored.ranks,
            parts_.world.size());
  for (const std::string& note : restored.notes) log::info("{}: {}", where, note);
}

}  // namespace shoal::train
