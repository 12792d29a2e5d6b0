#include "train/agreement.h"

#include "checkpoint/agreement.h"

namespace shoal::train {
namespace {

// What fails on rank 0 mostly fails on all: a wrong option, missing data. Then no rank need be named.
std::string without_rank_0(const std::string& text) {
  constexpr std::string_view kRank0 = "rank 0: ";
  return text.starts_with(kRank0) ? text.substr(kRank0.size()) : text;
}

}  // namespace

std::vector<std::string> run_everywhere(comm::ProcessGroup& world, const std::function<std::string()>& body) {
  std::vector<std::string> results;
  run_agreeing([&] { results = checkpoint::run_everywhere(world, body); });
  return results;
}

void run_agreeing(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommunicationError&) {
    throw;
  } catch (const Error& error) {
    throw AgreedError(error.exit_code(), without_rank_0(error.what()));
  }
}

}  // namespace shoal::train
