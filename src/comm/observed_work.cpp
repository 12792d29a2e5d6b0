#include "comm/observed_work.h"

#include <utility>

namespace shoal::comm {
namespace {

class ObservedWork final : public Work {
 public:
  ObservedWork(std::unique_ptr<Work> work, std::shared_ptr<CollectiveObserver> observer, CollectiveRecord record)
      : work_(std::move(work)), observer_(std::move(observer)), record_(std::move(record)) {}
  void wait() override {
    work_->wait();
    if (const auto observer = std::exchange(observer_, nullptr)) {
      record_.end = observer->now();
      observer->collective(record_);
    }
  }

 private:
  std::unique_ptr<Work> work_;
  std::shared_ptr<CollectiveObserver> observer_;  // until it has been told
  CollectiveRecord record_;
};

}  // namespace

ObservedCall::ObservedCall(const ProcessGroup& group, const char* collective, std::int64_t bytes)
    : observer_(group.observer()) {
  if (observer_)
    record_ = {.group = group.name(),
               .collective = collective,
               .activity = group.activity(),
               .bytes = bytes,
               .start = observer_->now()};
}

std::unique_ptr<Work> ObservedCall::around(std::unique_ptr<Work> work) const {
  if (!observer_) return work;
  return std::make_unique<ObservedWork>(std::move(work), observer_, record_);
}

}  // namespace shoal::comm
