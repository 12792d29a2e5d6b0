#include "comm/nccl_preflight.h"

#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "comm/gpu_identity.h"
#include "comm/nccl_calls.h"
#include "core/host_name.h"
#include "core/logging.h"

namespace shoal::comm {
namespace {

std::string machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string line;
  return std::getline(file, line) ? line : host_name();
}

std::string process_space() {
  std::error_code none;
  return std::filesystem::read_symlink("/proc/self/ns/pid", none).string();
}

RankCard my_card(int device) {
  const GpuIdentity gpu = gpu_identity(device);
  RankCard card{.host = host_name(), .machine = machine(), .gpu = gpu.pci, .uuid = gpu.uuid};
  SHOAL_NCCL_CALL(ncclGetVersion(&card.nccl_version));
  card.process = getpid();
  card.process_space = process_space();
  return card;
}

// The context of this process alone takes some hundred MB. Later groups find this job's own memory too.
void warn_of_foreign_memory(const RankCard& card) {
  static std::atomic<bool> asked{false};
  if (asked.exchange(true)) return;
  constexpr std::size_t kMuch = std::size_t{1} << 30;
  std::size_t free = 0, total = 0;
  SHOAL_CUDA_CALL(cudaMemGetInfo(&free, &total));
  if (total - free > kMuch)
    log::warning(
        "GPU {} on host {} has {:.1f} of its {:.1f} GiB in use before this job took any: another process is "
        "on it (nvidia-smi)",
        card.gpu, card.host, static_cast<double>(total - free) / kMuch, static_cast<double>(total) / kMuch);
}

std::vector<std::string> loaded_nccls() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        if (info->dlpi_name && std::string(info->dlpi_name).find("libnccl.so") != std::string::npos)
          static_cast<std::vector<std::string>*>(to)->push_back(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

void warn_of_versions(int running) {
  if (running / 100 != NCCL_VERSION_CODE / 100)
    log::warning("built with NCCL {}, running with {}", nccl_version_text(NCCL_VERSION_CODE),
                 nccl_version_text(running));
  const std::vector<std::string> loaded = loaded_nccls();
  if (loaded.size() > 1)
    log::warning(
        "two copies of NCCL are in this process, {} and {}: a common cause of hangs; let LD_LIBRARY_PATH lead "
        "to one",
        loaded[0], loaded[1]);
}

}  // namespace

std::vector<RankCard> exchange_cards(ProcessGroup& control, int device) {
  const RankCard mine = my_card(device);
  warn_of_versions(mine.nccl_version);
  warn_of_foreign_memory(mine);
  const std::string before = control.activity();
  control.set_activity("the exchange of names before NCCL starts");
  std::vector<RankCard> cards;
  for (const std::string& text : all_gather_bytes(control, to_text(mine))) cards.push_back(parse_card(text));
  control.set_activity(before);
  check_cards(cards);
  return cards;
}

}  // namespace shoal::comm
