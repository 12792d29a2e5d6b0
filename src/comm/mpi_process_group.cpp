#include "comm/mpi_process_group.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "comm/done_work.h"
#include "comm/mpi_check.h"
#include "comm/mpi_exchange.h"
#include "comm/observed_work.h"
#include "core/check.h"
#include "core/host_name.h"

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
  learn_hosts();
}

void MpiProcessGroup::learn_hosts() {
  constexpr int kLongest = 64;  // HOST_NAME_MAX of Linux
  using Name = std::array<char, kLongest + 1>;
  std::vector<Name> names(static_cast<std::size_t>(size_));
  Name& mine = names[static_cast<std::size_t>(rank_)];
  host_name().copy(mine.data(), kLongest);  // the rest are zeros
  SHOAL_MPI(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, names.data(), sizeof(Name), MPI_BYTE, comm_.get()));
  for (const Name& name : names) hosts_.emplace_back(name.data());
}

MpiProcessGroup::~MpiProcessGroup() = default;

int MpiProcessGroup::next_tag() {
  tag_ = (tag_ + 1) % (tag_limit_ / kMessageKinds);
  return tag_;
}

std::unique_ptr<Work> MpiProcessGroup::all_gather(const void* send, void* recv, std::int64_t count, DType dtype) {
  const std::int64_t bytes = count * size_of(dtype);
  check_parts("all_gather", bytes, {send, recv});
  const ObservedCall call(*this, "all_gather", bytes * size_);
  auto* out = static_cast<std::byte*>(recv);
  if (send != out + rank_ * bytes && bytes > 0) std::memcpy(out + rank_ * bytes, send, static_cast<std::size_t>(bytes));
  constexpr std::int64_t kSmallBytes = 1 << 16;
  if (size_ > options_.few_ranks && bytes <= kSmallBytes) {  // or messages would grow with the square of the ranks
    auto work = std::make_unique<MpiTreeWork>(*this);
    SHOAL_MPI(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, recv, static_cast<int>(bytes), MPI_BYTE, comm_.get(),
                             work->add()));
    return call.around(std::move(work));
  }
  return call.around(exchange_parts(MessageKind::all_gather, out + rank_ * bytes, 0, out, bytes));
}

std::unique_ptr<Work> MpiProcessGroup::all_to_all(const void* send, void* recv, std::int64_t count, DType dtype) {
  const std::int64_t bytes = count * size_of(dtype);
  check_parts("all_to_all", bytes, {send, recv});
  const ObservedCall call(*this, "all_to_all", bytes * size_);
  const auto* in = static_cast<const std::byte*>(send);
  auto* out = static_cast<std::byte*>(recv);
  if (bytes > 0) std::memcpy(out + rank_ * bytes, in + rank_ * bytes, static_cast<std::size_t>(bytes));
  return call.around(exchange_parts(MessageKind::all_to_all, in, bytes, out, bytes));
}

std::unique_ptr<Work> MpiProcessGroup::exchange_parts(MessageKind kind, const std::byte* in, std::int64_t stride,
                                                      std::byte* out, std::int64_t bytes) {
  auto work = std::make_unique<MpiExchange>(*this, kind);
  for (int k = 1; k < size_; ++k) {  // start with different peers, not all with rank 0
    const int peer = (rank_ + k) % size_;
    work->receive(peer, out + peer * bytes, bytes);
  }
  for (int k = 1; k < size_; ++k) {
    const int peer = (rank_ - k + size_) % size_;
    work->send(peer, in + peer * stride, bytes);
  }
  return work;
}

std::unique_ptr<Work> MpiProcessGroup::reduce_scatter(void* send, void* recv, std::int64_t count, DType dtype,
                                                      ReduceOp op) {
  const std::int64_t bytes = count * size_of(dtype);
  check_parts("reduce_scatter", bytes, {send, recv});
  const ObservedCall call(*this, "reduce_scatter", bytes * size_);
  return call.around(reduce_parts(MessageKind::reduce_scatter, send, bytes, recv, count, dtype, op));
}

std::unique_ptr<Work> MpiProcessGroup::reduce_parts(MessageKind kind, void* send, std::int64_t stride, void* recv,
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
  const std::int64_t bytes = count * size_of(dtype);
  check_parts("all_reduce", bytes, {data});
  const ObservedCall call(*this, "all_reduce", bytes);
  if (size_ == 1) return call.around(std::make_unique<DoneWork>());
  // Floating-point sums show the order of the additions, which is local_reduce()'s alone.
  const bool any_order = op != ReduceOp::sum || !is_floating(dtype);
  if (bytes <= kSmallBytes && any_order && mpi_type(dtype) != MPI_DATATYPE_NULL) {
    auto work = std::make_unique<MpiTreeWork>(*this);
    SHOAL_MPI(MPI_Iallreduce(MPI_IN_PLACE, data, static_cast<int>(count), mpi_type(dtype), mpi_op(op), comm_.get(),
                             work->add()));
    return call.around(std::move(work));
  }
  if (bytes * size_ <= kSmallBytes)
    return call.around(reduce_parts(MessageKind::all_reduce, data, 0, data, count, dtype, op));
  // Reduce-scatter, then all-gather, over a copy padded to equal slices.
  const std::int64_t slice = (count + size_ - 1) / size_;
  const std::int64_t width = size_of(dtype);
  std::vector<std::byte> padded(static_cast<std::size_t>(slice * size_ * width));
  std::memcpy(padded.data(), data, static_cast<std::size_t>(count * width));
  // Reduced in place: the others' parts have been sent when the sum is made.
  std::byte* mine = padded.data() + rank_ * slice * width;
  reduce_parts(MessageKind::reduce_scatter, padded.data(), slice * width, mine, slice, dtype, op)->wait();
  exchange_parts(MessageKind::all_gather, mine, 0, padded.data(), slice * width)->wait();
  std::memcpy(data, padded.data(), static_cast<std::size_t>(count * width));
  return call.around(std::make_unique<DoneWork>());
}

std::unique_ptr<Work> MpiProcessGroup::broadcast(void* data, std::int64_t count, DType dtype, int root) {
  const std::int64_t bytes = count * size_of(dtype);
  check_parts("broadcast", bytes, {data});
  const ObservedCall call(*this, "broadcast", bytes);
  constexpr std::int64_t kSmallBytes = 1 << 10;
  if (bytes <= kSmallBytes && size_ <= options_.few_ranks) {
    auto work = std::make_unique<MpiExchange>(*this, MessageKind::broadcast);
    if (rank_ != root) work->receive(root, data, bytes);
    for (int k = 1; k < size_ && rank_ == root; ++k) work->send((root + k) % size_, data, bytes);
    return call.around(std::move(work));
  }
  auto work = std::make_unique<MpiTreeWork>(*this);
  for (std::int64_t done = 0; done < bytes && size_ > 1;) {
    const std::int64_t n = std::min(bytes - done, options_.max_message_bytes);
    SHOAL_MPI(MPI_Ibcast(static_cast<std::byte*>(data) + done, static_cast<int>(n), MPI_BYTE, root, comm_.get(),
                         work->add()));
    done += n;
  }
  return call.around(std::move(work));
}

void MpiProcessGroup::barrier() {
  if (size_ <= options_.few_ranks) {
    std::vector<std::byte> tokens(static_cast<std::size_t>(size_));
    exchange_parts(MessageKind::barrier, tokens.data() + rank_, 0, tokens.data(), 1)->wait();
    return;
  }
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
