// How a run that came to its end is known to the attempts after it.
#pragma once

#include <cstdint>
#include <optional>

#include "launch/run_directory.h"
#include "train/options.h"

namespace shoal::train {

struct DoneMark {
  int attempt = 0;
  std::int64_t step = 0, epoch = 0;  // done
};

// IoError.
void write_done(const launch::RunDirectory& directory, const DoneMark& mark);

// Whether a run with these options has nothing left to do: it came to its end, with as many steps or epochs as are
// asked for now, its newest checkpoint says the same, and its --output is there. Only --resume auto asks. Says so in a
// line. Another model, optimizer or seed than the checkpoint's is the usual error (training_state.h).
bool run_is_done(const TrainOptions& options, const launch::RunDirectory& directory);

}  // namespace shoal::train
