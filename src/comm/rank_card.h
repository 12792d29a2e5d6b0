// What each rank tells the others before NCCL starts, so that a wrong placement is an error with names, not a hang.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/watch.h"

namespace shoal::comm {

struct RankCard {
  std::string host;
  std::string machine;        // its boot, since hosts in containers may share a name
  std::string gpu;            // PCI address: "0000:1b:00.0"
  std::string uuid;           // "GPU-8f3e…"; empty where the driver does not tell
  int nccl_version = 0;       // as NCCL numbers them: 22809
  std::int64_t process = 0;   // its number,
  std::string process_space;  // and the name space in which that number means something
};

std::string to_text(const RankCard& card);
RankCard parse_card(const std::string& text);  // InternalError for what to_text() did not write

std::string nccl_version_text(int code);  // 22809: "2.28.9"

// All ranks know of it.
class SharedGpuError final : public DeviceError {
 public:
  using ErrorOf::ErrorOf;
};

// The same on all ranks for the same cards. SharedGpuError where two ranks share a GPU (one address on one machine, or
// one UUID anywhere: virtual machines of one computer may both show it), CommunicationError where they run different
// versions of NCCL. Both name the ranks, their hosts and the remedy.
void check_cards(std::span<const RankCard> cards);

// The processes of the other ranks on this host. Trouble is one that has ended; not at once, since a launcher that sees
// it first ends the job with that rank's own exit code.
class NeighbourProcesses final : public Watched {
 public:
  NeighbourProcesses(std::span<const RankCard> cards, int rank, std::chrono::milliseconds patience);
  std::optional<std::string> trouble() override;

 private:
  struct Neighbour {
    int rank;
    std::int64_t process;
  };
  std::vector<Neighbour> neighbours_;
  std::string host_;
  std::chrono::milliseconds patience_;
  std::optional<std::chrono::steady_clock::time_point> missed_since_;
};

}  // namespace shoal::comm
