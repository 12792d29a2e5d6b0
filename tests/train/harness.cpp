#include "train/harness.h"

#include <stdlib.h>

#include <stdexcept>

namespace shoal::train {

SharedFolder::SharedFolder(comm::ProcessGroup& group) : owner_(group.rank() == 0) {
  std::string name = (std::filesystem::temp_directory_path() / "shoal_train_XXXXXX").string();
  if (owner_ && mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = comm::broadcast_bytes(group, name);
}

SharedFolder::~SharedFolder() {
  std::error_code ignored;
  if (owner_) std::filesystem::remove_all(path_, ignored);
}

SmallJob::SmallJob() {
  options.model.name = "small";
  options.sharding.wrap = "size:20";
  options.batch.global_batch_size = 16;
  options.optimizer.rule.name = "adamw";
  options.optimizer.rule.weight_decay = 0.01;
  options.optimizer.learning_rate = 0.05;
  options.optimizer.schedule = "step:1:0.5";
  options.checkpoint.directory = "none";
  options.checkpoint.every = "0";
  options.run.epochs = 3;
  options.data.test_batch_size = 7;
}

SmallRun::SmallRun(comm::ProcessGroup& group, const SmallJob& job)
    : group_(group),
      options_(job.options),
      plan_(plan_batches(job.options.batch, group.size(), 8)),
      model_(job.dropout),
      train_data_(job.samples),
      test_data_(17),
      mesh_(group, group,
            fsdp::shard_group_size(fsdp::parse_strategy(options_.sharding.strategy), group.size(), group.size(),
                                   options_.sharding.shard_size)),
      sharded_(fsdp::fully_shard(model_.module(), mesh_, *fsdp::parse_wrap_policy(options_.sharding.wrap),
                                 fully_shard_options(options_.sharding, options_.run.deterministic))),
      optimizer_(*sharded_, optim::make_optimizer(options_.optimizer.rule)) {
  if (writes_checkpoints(options_))
    checkpointer_ = std::make_unique<checkpoint::Checkpointer>(
        group, checkpoint::CheckpointerOptions{.directory = options_.checkpoint.directory,
                                               .keep = options_.checkpoint.keep,
                                               .files = options_.checkpoint.files,
                                               .observer = job.observer,
                                               .keep_every = options_.checkpoint.keep_every});
}

Outcome SmallRun::run(std::function<int()> stop_signal) {
  TrainerHooks hooks;
  hooks.asks = [stop_signal](launch::Ahead) { return Asks{.signal = stop_signal() != 0}; };
  return run(std::move(hooks));
}

Outcome SmallRun::run(TrainerHooks hooks) {
  trainer_ = std::make_unique<Trainer>(parts(), options_, plan_, checkpointer_.get(), std::move(hooks));
  trainer_->restore();
  return trainer_->run();
}

TrainParts SmallRun::parts() {
  return {.world = group_,
          .model = model_,
          .sharded = *sharded_,
          .optimizer = optimizer_,
          .train_data = train_data_,
          .test_data = &test_data_,
          .input_dtype = fully_shard_options(options_.sharding, false).mixed_precision.param_dtype};
}

Weights SmallRun::weights() {
  Weights weights;
  sharded_->summon_full_params([&] { weights = copy_weights(*model_.module()); });
  return weights;
}

}  // namespace shoal::train
