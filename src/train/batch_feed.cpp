#include "train/batch_feed.h"

#include <memory>
#include <optional>
#include <vector>

#include "core/check.h"

namespace shoal::train {
namespace {

// Goes through the steps ahead of the trainer, with a sampler of its own.
class Sequence {
 public:
  Sequence(const data::Sampler& sampler, const BatchPlan& plan, int rank, data::SamplePosition start)
      : sampler_(sampler), plan_(plan), rank_(rank), position_(start) {}

  data::BatchRequest next() {
    if (micro_ == steps_.size()) {
      epoch_ = position_.epoch;
      steps_ = plan_.rank_steps(sampler_.step_range(position_, plan_.global_batch), rank_);
      position_ = sampler_.advance(position_, plan_.global_batch);
      micro_ = 0;
    }
    const auto samples = sampler_.samples(epoch_, steps_[micro_++].places);
    return {epoch_, {samples.begin(), samples.end()}};
  }

 private:
  data::Sampler sampler_;
  BatchPlan plan_;
  int rank_;
  data::SamplePosition position_;  // of the step after steps_
  std::int64_t epoch_ = 0;         // of steps_
  std::vector<MicroStep> steps_;
  std::size_t micro_ = 0;
};

}  // namespace

BatchFeed::BatchFeed(const data::Dataset& dataset, const data::Sampler& sampler, const BatchPlan& plan, int rank,
                     data::SamplePosition start, int prefetch, data::Loader::Memory memory)
    : loader_(
          dataset,
          [sequence = std::make_shared<Sequence>(sampler, plan, rank, start)] {
            return std::optional(sequence->next());
          },
          prefetch, memory) {}

data::Batch BatchFeed::next() {
  std::optional<data::Batch> batch = loader_.next();
  SHOAL_ASSERT(batch.has_value());  // the sequence has no end
  return *std::move(batch);
}

}  // namespace shoal::train
