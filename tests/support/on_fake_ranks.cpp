#include "comm/fake_process_group.h"
#include "support/on_ranks.h"

namespace shoal::testing {

void on_ranks(const std::function<void(comm::ProcessGroup&)>& body) {
  for (const int ranks : {1, 2, 3, 5}) on_ranks(ranks, body);
}

void on_ranks(int ranks, const std::function<void(comm::ProcessGroup&)>& body) { comm::FakeWorld(ranks).run(body); }

}  // namespace shoal::testing
