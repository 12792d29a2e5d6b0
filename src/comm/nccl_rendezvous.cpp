#include "comm/nccl_rendezvous.h"

#include <algorithm>
#include <cstring>

#include "comm/nccl_calls.h"
#include "core/check.h"

namespace shoal::comm {
namespace {

// The ids that NCCL takes from `roots` roots: root i is the first rank of its share, as NCCL deals the ranks out.
std::vector<ncclUniqueId> exchange_ids(ProcessGroup& control, int roots) {
  const int share = control.size() / roots, rest = control.size() % roots;
  std::string mine;
  for (int i = 0; i < roots; ++i) {
    if (control.rank() != i * share + std::min(i, rest)) continue;
    ncclUniqueId id{};
    SHOAL_NCCL_CALL(ncclGetUniqueId(&id));
    mine.assign(reinterpret_cast<const char*>(&id), sizeof id);
  }
  std::vector<ncclUniqueId> ids;
  for (const std::string& bytes : all_gather_bytes(control, mine)) {
    if (bytes.empty()) continue;
    SHOAL_ASSERT(bytes.size() == sizeof(ncclUniqueId));
    std::memcpy(&ids.emplace_back(), bytes.data(), bytes.size());
  }
  return ids;
}

// The ranks that could not be brought together are asked for over the control group: those that are not there are
// named by its own time-out, and where all are there, what is between them is at fault.
[[noreturn]] void explain(ProcessGroup& control, const std::vector<RankCard>& cards, const CommunicationError& error) {
  const RankCard& mine = cards[static_cast<std::size_t>(control.rank())];
  const auto limit = control.timeout();
  control.set_timeout(std::min<std::chrono::milliseconds>(limit, std::chrono::seconds(5)));
  control.set_activity(fmt::format("the roll call after an error of NCCL's [{}]", error.what()));
  (void)all_gather_bytes(control, "here");
  throw CommunicationError(
      "{} (host {}); all ranks are there, so the network or the links between the GPUs are at fault: NCCL_DEBUG=INFO "
      "says more, NCCL_SOCKET_IFNAME chooses the network",
      error.what(), mine.host);
}

}  // namespace

std::unique_ptr<NcclCommunicator> meet(ProcessGroup& control, const std::vector<RankCard>& cards, int ranks_per_root) {
  SHOAL_CHECK(ranks_per_root >= 1, OptionError, "NCCL needs a root for each 1 or more ranks, not {}", ranks_per_root);
  const int roots = (control.size() + ranks_per_root - 1) / ranks_per_root;
  const std::string before = control.activity();
  control.set_activity("the rendezvous of NCCL");
  std::vector<ncclUniqueId> ids = exchange_ids(control, roots);
  control.barrier();  // everybody has the ids before anybody blocks in NCCL, where MPI makes no progress
  std::unique_ptr<NcclCommunicator> comm;
  try {
    comm = std::make_unique<NcclCommunicator>(ids, control.rank(), control.size(), CommunicatorConfig{.name = "world"},
                                              Patience{control.timeout(), "the rendezvous of NCCL"});
  } catch (const CommunicationError& error) {
    explain(control, cards, error);
  }
  control.set_activity(before);
  return comm;
}

}  // namespace shoal::comm
