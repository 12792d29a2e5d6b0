#include "comm/mpi_exchange.h"

#include <sched.h>

#include <algorithm>

#include "comm/late_ranks.h"
#include "comm/local_reduce.h"
#include "comm/mpi_check.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/timer.h"

namespace shoal::comm {
namespace {

std::string seconds_text(std::chrono::milliseconds t) {
  return fmt::format("{:g} s", static_cast<double>(t.count()) / 1e3);
}

std::string late_text(const ProcessGroup& group, const std::string& activity, const std::string& who) {
  const std::string what = activity.empty() ? "a collective" : activity;
  return fmt::format(
      "rank {} of {} ranks waited {} in {}; {} did not come (it ended, hangs, or took another path through the model); "
      "--collective-timeout sets the limit",
      group.rank(), group.size(), seconds_text(group.timeout()), what, who);
}

bool is_done(MPI_Request request) {
  int done = 0;
  SHOAL_MPI(MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE));
  return done != 0;
}

}  // namespace

bool poll(std::vector<MPI_Request>& requests, std::chrono::milliseconds timeout) {
  const Timer timer;
  const double limit = static_cast<double>(timeout.count()) / 1e3;
  for (unsigned spins = 1;; ++spins) {
    activity::leave_if_asked();
    int done = 0;
    SHOAL_MPI(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
    if (done) return true;
    if (spins % 64 == 0) {
      if (timer.seconds() > limit) return false;
      sched_yield();  // more ranks than cores: let the late one run
    }
  }
}

void MpiTreeWork::wait() {
  if (!poll(requests_, group_->timeout())) throw CommunicationError("{}", late_text(*group_, activity_, "some rank"));
}

MpiExchange::MpiExchange(MpiProcessGroup& group, MessageKind kind)
    : group_(&group), activity_(group.activity()), tag_(group.next_tag() * kMessageKinds + static_cast<int>(kind)) {}

MpiExchange::~MpiExchange() {
  if (!scratch_.empty()) group_->scratch_.push_back(std::move(scratch_));
}

template <typename Start>
void MpiExchange::in_pieces(void* data, std::int64_t bytes, Peer peer, Start&& start) {
  auto* at = static_cast<std::byte*>(data);
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t n = std::min(bytes - done, group_->options_.max_message_bytes);
    start(at + done, static_cast<int>(n), &requests_.emplace_back(MPI_REQUEST_NULL));
    peers_.push_back(peer);
    done += n;
  }
}

void MpiExchange::receive(int from, void* to, std::int64_t bytes) {
  in_pieces(to, bytes, {from, true}, [&](void* at, int n, MPI_Request* request) {
    SHOAL_MPI(MPI_Irecv(at, n, MPI_BYTE, from, tag_, group_->comm_.get(), request));
  });
}

void MpiExchange::send(int to, const void* from, std::int64_t bytes) {
  in_pieces(const_cast<void*>(from), bytes, {to, false}, [&](void* at, int n, MPI_Request* request) {
    SHOAL_MPI(MPI_Isend(at, n, MPI_BYTE, to, tag_, group_->comm_.get(), request));
  });
}

std::byte* MpiExchange::scratch(std::int64_t bytes) {
  if (!group_->scratch_.empty()) {
    scratch_ = std::move(group_->scratch_.back());
    group_->scratch_.pop_back();
  }
  if (scratch_.size() < static_cast<std::size_t>(bytes)) scratch_.resize(static_cast<std::size_t>(bytes));
  return scratch_.data();
}

void MpiExchange::then(std::vector<const void*> inputs, void* output, std::int64_t count, DType dtype, ReduceOp op) {
  finish_ = [=, in = std::move(inputs)] { local_reduce(in, output, count, dtype, op); };
}

void MpiExchange::wait() {
  if (!poll(requests_, group_->timeout())) {
    const std::vector<int> late = late_ranks();
    std::string who = late.size() == 1 ? "rank" : "ranks";
    for (std::size_t i = 0; i < late.size(); ++i)
      who += fmt::format("{} {} on host {}", i ? "," : "", late[i], group_->host_of(late[i]));
    throw LateRanksError(late_text(*group_, activity_, who), late);
  }
  if (auto finish = std::exchange(finish_, nullptr)) finish();
}

// A rank whose message has come is not late, even where ours to it is still under way.
std::vector<int> MpiExchange::late_ranks() const {
  std::vector<int> late;
  for (const bool receives : {true, false}) {
    for (std::size_t i = 0; i < requests_.size(); ++i)
      if (peers_[i].receives == receives && !is_done(requests_[i])) late.push_back(peers_[i].rank);
    if (!late.empty()) break;
  }
  std::sort(late.begin(), late.end());
  late.erase(std::unique(late.begin(), late.end()), late.end());
  return late;
}

}  // namespace shoal::comm
