#include "comm/mpi_process_group.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "comm/done_work.h"
#include "comm/local_reduce.h"
#include "comm/mpi_check.h"
#include "core/check.h"
#include "core/timer.h"

namespace shoal::comm {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw CommunicationError("MPI: {} failed: {}", call, std::string(text, static_cast<std::size_t>(length)));
}

void MpiCommTraits::close(MPI_Comm comm) noexcept {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Comm_free(&comm);
}

namespace {

// Message kinds go into the tag, so that ranks in different collectives time out by name and never swap data.
enum Kind { kAllGather = 0, kReduceScatter = 1, kAllReduce = 2, kAllToAll = 3, kKinds = 4 };

std::string seconds_text(std::chrono::milliseconds t) {
  return fmt::format("{:g} s", static_cast<double>(t.count()) / 1e3);
}

[[noreturn]] void throw_late(const ProcessGroup& group, const std::string& activity, const std::string& who) {
  const std::string what = activity.empty() ? "a collective" : activity;
  throw CommunicationError(
      "rank {} of {} ranks waited {} in {}; {} did not come (it ended, hangs, or took another path through the model); "
      "--collective-timeout sets the limit",
      group.rank(), group.size(), seconds_text(group.timeout()), what, who);
}

// Polls until all requests are done or the group's time is up; true when done.
bool poll(std::vector<MPI_Request>& requests, std::chrono::milliseconds timeout) {
  const Timer timer;
  const double limit = static_cast<double>(timeout.count()) / 1e3;
  for (unsigned spins = 1;; ++spins) {
    int done = 0;
    SHOAL_MPI(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
    if (done) return true;
    if (spins % 64 == 0) {
      if (timer.seconds() > limit) return false;
      sched_yield();  // more ranks than cores: let the late one run
    }
  }
}

bool is_done(MPI_Request request) {
  int done = 0;
  SHOAL_MPI(MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE));
  return done != 0;
}

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::float64: return MPI_DOUBLE;
    case DType::float32: return MPI_FLOAT;
    case DType::int64: return MPI_INT64_T;
    case DType::int32: return MPI_INT32_T;
    default: return MPI_DATATYPE_NULL;
  }
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return MPI_SUM;
    case ReduceOp::max: return MPI_MAX;
    case ReduceOp::min: return MPI_MIN;
  }
  return MPI_OP_NULL;
}

}  // namespace

// Requests of one of MPI's own collectives: which rank is late is not known.
class MpiTreeWork final : public Work {
 public:
  explicit MpiTreeWork(MpiProcessGroup& group) : group_(&group), activity_(group.activity()) {}
  MPI_Request* add() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  void wait() override {
    if (!poll(requests_, group_->timeout())) throw_late(*group_, activity_, "some rank");
  }

 private:
  MpiProcessGroup* group_;
  std::string activity_;  // when it started: by the time of wait() the group may be at the next one
  std::vector<MPI_Request> requests_;
};

// Messages from and to all peers, and what is done with them once they are in.
class MpiExchange final : public Work {
 public:
  MpiExchange(MpiProcessGroup& group, int kind)
      : group_(&group), activity_(group.activity()), tag_(group.next_tag() * kKinds + kind) {}
  ~MpiExchange() override {
    if (!scratch_.empty()) group_->scratch_.push_back(std::move(scratch_));
  }

  void receive(int from, void* to, std::int64_t bytes) {
    pieces(to, bytes, [&](void* at, int n) {
      SHOAL_MPI(MPI_Irecv(at, n, MPI_BYTE, from, tag_, group_->comm_.get(), &requests_.emplace_back(MPI_REQUEST_NULL)));
      peers_.push_back({from, true});
    });
  }
  void send(int to, const void* from, std::int64_t bytes) {
    pieces(const_cast<void*>(from), bytes, [&](void* at, int n) {
      SHOAL_MPI(MPI_Isend(at, n, MPI_BYTE, to, tag_, group_->comm_.get(), &requests_.emplace_back(MPI_REQUEST_NULL)));
      peers_.push_back({to, false});
    });
  }
  // Memory for what comes in, kept by the group from one collective to the next.
  std::byte* scratch(std::int64_t bytes) {
    if (!group_->scratch_.empty()) {
      scratch_ = std::move(group_->scratch_.back());
      group_->scratch_.pop_back();
    }
    if (scratch_.size() < static_cast<std::size_t>(bytes)) scratch_.resize(static_cast<std::size_t>(bytes));
    return scratch_.data();
  }
  void then(std::vector<const void*> inputs, void* output, std::int64_t count, DType dtype, ReduceOp op) {
    finish_ = [=, in = std::move(inputs)] { local_reduce(in, output, count, dtype, op); };
  }
  void wait() override {
    if (!poll(requests_, group_->timeout())) throw_late(*group_, activity_, late_ranks());
    if (auto finish = std::exchange(finish_, nullptr)) finish();
  }

 private:
  template <typename F>
  void pieces(void* data, std::int64_t bytes, F&& each) {
    auto* at = static_cast<std::byte*>(data);
    for (std::int64_t done = 0; done < bytes;) {
      const std::int64_t n = std::min(bytes - done, group_->options_.max_message_bytes);
      each(at + done, static_cast<int>(n));
      done += n;
    }
  }
  // A rank whose message has come is not late, even where ours to it is still under way.
  std::string late_ranks() const {
    std::vector<int> late;
    for (const bool receives : {true, false}) {
      for (std::size_t i = 0; i < requests_.size(); ++i)
        if (peers_[i].receives == receives && !is_done(requests_[i])) late.push_back(peers_[i].rank);
      if (!late.empty()) break;
    }
    std::sort(late.begin(), late.end());
    late.erase(std::unique(late.begin(), late.end()), late.end());
    std::string text = late.size() == 1 ? "rank" : "ranks";
    for (std::size_t i = 0; i < late.size(); ++i) text += fmt::format("{} {}", i ? "," : "", late[i]);
    return text;
  }

  MpiProcessGroup* group_;
  std::string activity_;
  int tag_;
  std::vector<MPI_Request> requests_;
  struct Peer {
    int rank;
    bool receives;
  };
  std::vector<Peer> peers_;  // of each request
  std::vector<std::byte> scratch_;
  std::function<void()> finish_;
};

MpiProcessGroup::MpiProcessGroup(MPI_Comm comm, MpiOptions options) : options_(options) {
  MPI_Comm copy = MPI_COMM_NULL;
  SHOAL_MPI(MPI_Comm_dup(comm, &copy));
  comm_.reset(copy);
  SHOAL_MPI(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN));
  SHOAL_MPI(MPI_Comm_rank(copy, &rank_));
  SHOAL_MPI(MPI_Comm_size(copy, &size_));
  void* value = nullptr;
  int found = 0;
  SHOAL_MPI(MPI_Comm_get_attr(copy, MPI_TAG_UB, &value, &found));
  if (found) tag_limit_ = *static_cast<int*>(value);
}

MpiProcessGroup::~MpiProcessGroup() = default;

int MpiProcessGroup::next_tag() {
  tag_ = (tag_ + 1) % (tag_limit_ / kKinds);
  return tag_;
}

std::unique_ptr<Work> MpiProcessGroup::all_gather(const void* send, void* recv, std::int64_t count, DType dtype) {
  const std::int64_t bytes = count * size_of(dtype);
  auto* out = static_cast<std::byte*>(recv);
  auto work = std::make_unique<MpiExchange>(*this, kAllGather);
  if (send != out + rank_ * bytes && bytes > 0) std::memcpy(out + rank_ * bytes, send, static_cast<std::size_t>(bytes));
  for (int k = 1; k < size_; ++k) {  // start with different peers, not all with rank 0
    const int peer = (rank_ + k) % size_;
    work->receive(peer, out + peer * bytes, bytes);
  }
  for (int k = 1; k < size_; ++k) work->send((rank_ - k + size_) % size_, out + rank_ * bytes, bytes);
  return work;
}

std::unique_ptr<Work> MpiProcessGroup::all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) {
  const std::int64_t bytes = count * size_of(dtype);
  const auto* in = static_cast<const std::byte*>(send);
  auto* out = static_cast<std::byte*>(recv);
  auto work = std::make_unique<MpiExchange>(*this, kAllToAll);
  if (bytes > 0) std::memcpy(out + rank_ * bytes, in + rank_ * bytes, static_cast<std::size_t>(bytes));
  for (int k = 1; k < size_; ++k) {
    const int peer = (rank_ + k) % size_;
    work->receive(peer, out + peer * bytes, bytes);
  }
  for (int k = 1; k < size_; ++k) {
    const int peer = (rank_ - k + size_) % size_;
    work->send(peer, in + peer * bytes, bytes);
  }
  return work;
}

std::unique_ptr<Work> MpiProcessGroup::reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype,
                                                      ReduceOp op) {
  return reduce_parts(kReduceScatter, send, count * size_of(dtype), recv, count, dtype, op);
}

std::unique_ptr<Work> MpiProcessGroup::reduce_parts(int kind, void* send, std::int64_t stride, void* recv,
                                                    std::int64_t count, DType dtype, ReduceOp op) {
  const std::int64_t bytes = count * size_of(dtype);
  auto* in = static_cast<std::byte*>(send);
  auto work = std::make_unique<MpiExchange>(*this, kind);
  std::byte* incoming = work->scratch(bytes * (size_ - 1));
  std::vector<const void*> inputs;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) {
      inputs.push_back(in + r * stride);
    } else {
      inputs.push_back(incoming);
      work->receive(r, incoming, bytes);
      incoming += bytes;
    }
  }
  for (int k = 1; k < size_; ++k) {
    const int peer = (rank_ + k) % size_;
    work->send(peer, in + peer * stride, bytes);
  }
  work->then(std::move(inputs), recv, count, dtype, op);
  return work;
}

std::unique_ptr<Work> MpiProcessGroup::all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op) {
  constexpr std::int64_t kSmallBytes = 1 << 14;
  if (size_ == 1) return std::make_unique<DoneWork>();
  const std::int64_t bytes = count * size_of(dtype);
  // Floating-point sums show the order of the additions, which is local_reduce()'s alone.
  const bool any_order = op != ReduceOp::sum || !is_floating(dtype);
  if (bytes <= kSmallBytes && any_order && mpi_type(dtype) != MPI_DATATYPE_NULL) {
    auto work = std::make_unique<MpiTreeWork>(*this);
    SHOAL_MPI(MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), mpi_type(dtype), mpi_op(op), comm_.get(),
                             work->add()));
    return work;
  }
  if (bytes * size_ <= kSmallBytes) return reduce_parts(kAllReduce, data, 0, data, count, dtype, op);
  // Reduce-scatter, then all-gather, over a copy padded to equal slices.
  const std::int64_t slice = (count + size_ - 1) / size_;
  const std::int64_t width = size_of(dtype);
  std::vector<std::byte> padded(static_cast<std::size_t>(slice * size_ * width));
  std::memcpy(padded.data(), data, static_cast<std::size_t>(count * width));
  std::vector<std::byte> mine(static_cast<std::size_t>(slice * width));
  reduce_scatter(padded.data(), mine.data(), slice, dtype, op)->wait();
  all_gather(mine.data(), padded.data(), slice, dtype)->wait();
  std::memcpy(data, padded.data(), static_cast<std::size_t>(count * width));
  return std::make_unique<DoneWork>();
}

std::unique_ptr<Work> MpiProcessGroup::broadcast(void* data, std::int64_t count, DType dtype, int root) {
  auto work = std::make_unique<MpiTreeWork>(*this);
  const std::int64_t bytes = count * size_of(dtype);
  for (std::int64_t done = 0; done < bytes && size_ > 1;) {
    const std::int64_t n = std::min(bytes - done, options_.max_message_bytes);
    SHOAL_MPI(MPI_Ibcast(static_cast<std::byte*>(data) + done, static_cast<int>(n), MPI_BYTE, root, comm_.get(),
                         work->add()));
    done += n;
  }
  return work;
}

void MpiProcessGroup::barrier() {
  MpiTreeWork work(*this);
  SHOAL_MPI(MPI_Ibarrier(comm_.get(), work.add()));
  work.wait();
}

std::unique_ptr<ProcessGroup> MpiProcessGroup::split(int color, const GroupOptions& options) {
  MPI_Comm part = MPI_COMM_NULL;
  SHOAL_MPI(MPI_Comm_split(comm_.get(), color, rank_, &part));
  const UniqueMpiComm owned(part);
  auto group = std::make_unique<MpiProcessGroup>(part, options_);
  group->inherit(*this, options);
  return group;
}

}  // namespace shoal::comm
