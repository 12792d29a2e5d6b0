#include "preflight/context.h"

#include <algorithm>

#include "core/error.h"

namespace shoal::preflight {

Context::Context(const launch::Placement& placement, Guard& guard, std::chrono::milliseconds limit)
    : guard_(&guard), limit_(limit), world_(MPI_COMM_WORLD), local_size_(placement.local_size) {
  for (const std::string& text : exchange("the start", std::to_string(placement.node))) {
    nodes_.push_back(std::stoi(text));
    // Nodes are numbered in the order of their first ranks.
    if (nodes_.back() == static_cast<int>(first_ranks_.size()))
      first_ranks_.push_back(static_cast<int>(nodes_.size()) - 1);
  }
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
