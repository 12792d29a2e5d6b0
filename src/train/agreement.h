// Failures that all ranks know of. Such a job ends like any other program, with one line from rank 0; any other error
// takes the job down at once, since other ranks may be waiting where the failed one will never come.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "core/error.h"

namespace shoal::train {

class AgreedError : public Error {
 public:
  using Error::Error;
};

// Collective over `world`. Every rank runs `body`, which must not communicate; returns the results of all, in rank
// order. Where it threw on some rank, all ranks throw an AgreedError with the text of the first of these.
std::vector<std::string> run_everywhere(comm::ProcessGroup& world, const std::function<std::string()>& body);

// For a collective call whose errors are the same on all ranks, as the Checkpointer's are: they become AgreedErrors.
// CommunicationError passes: it means that ranks no longer hear each other.
void run_agreeing(const std::function<void()>& body);

}  // namespace shoal::train
