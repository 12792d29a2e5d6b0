#include "preflight/context.h"

#include <algorithm>

#include "comm/mpi_check.h"
#include "core/error.h"

namespace shoal::preflight {

Context::Context(Guard& guard, std::chrono::milliseconds limit)
    : guard_(&guard), limit_(limit), world_(MPI_COMM_WORLD) {
  begin("the start");
  learn_nodes();
}

void Context::learn_nodes() {
  MPI_Comm node = MPI_COMM_NULL;
  SHOAL_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, &node));
  const comm::UniqueMpiComm owned(node);
  SHOAL_MPI(MPI_Comm_rank(node, &local_rank_));
  SHOAL_MPI(MPI_Comm_size(node, &local_size_));
  int first = rank();
  SHOAL_MPI(MPI_Bcast(&first, 1, MPI_INT, 0, node));
  std::vector<int> firsts;
  for (const std::string& text : exchange("the map of nodes", std::to_string(first))) firsts.push_back(std::stoi(text));
  first_ranks_ = firsts;
  std::sort(first_ranks_.begin(), first_ranks_.end());
  first_ranks_.erase(std::unique(first_ranks_.begin(), first_ranks_.end()), first_ranks_.end());
  for (const int f : firsts)
    nodes_.push_back(
        static_cast<int>(std::lower_bound(first_ranks_.begin(), first_ranks_.end(), f) - first_ranks_.begin()));
}

std::vector<std::string> Context::hosts() const {
  std::vector<std::string> hosts;
  for (int r = 0; r < size(); ++r) hosts.push_back(host_of(r));
  return hosts;
}

std::chrono::milliseconds Context::remaining() const {
  const auto used = std::chrono::milliseconds(static_cast<std::int64_t>(timer_.seconds() * 1e3));
  return std::max(limit_ - used, std::chrono::milliseconds(1));
}

void Context::begin(const std::string& activity) {
  guard_->set_activity(activity);
  world_.set_activity(activity);
  world_.set_timeout(remaining());
}

std::vector<std::string> Context::exchange(const std::string& activity, const std::string& mine) {
  begin(activity);
  return comm::all_gather_bytes(world_, mine);
}

std::vector<Record> Context::gather(const std::string& activity, const std::function<Record()>& body) {
  return gather_all(activity, [&] { return std::vector<Record>{body()}; });
}

std::vector<Record> Context::gather_all(const std::string& activity, const std::function<std::vector<Record>()>& body) {
  begin(activity);
  std::vector<Record> mine;
  try {
    mine = body();
  } catch (const Error& error) {
    mine = {{.verdict = Verdict::fail, .found = error.what(), .code = error.exit_code()}};
  } catch (const std::exception& error) {
    mine = {{.verdict = Verdict::fail, .found = error.what()}};
  }
  for (Record& record : mine) {
    record.host = host();
    record.rank = rank();
  }
  std::vector<Record> all;
  for (const std::string& text : exchange(activity, to_text(mine)))
    for (Record& record : parse_records(text)) all.push_back(std::move(record));
  return all;
}

}  // namespace shoal::preflight
