// When checkpoints are due.
#pragma once

#include <cstdint>
#include <string>

namespace shoal::train {

struct Cadence {
  std::int64_t steps = 0;   // every so many steps; 0: not by steps
  std::int64_t epochs = 0;  // at the end of every so many epochs; 0: not by epochs

  // "N" steps, "Ne" epochs, "0": never. OptionError that names --checkpoint-every.
  static Cadence parse(const std::string& text);
  // After `steps_done` steps; `epochs_done` epochs if the last of these steps ended one, else 0.
  bool due(std::int64_t steps_done, std::int64_t epochs_done) const {
    return (steps > 0 && steps_done % steps == 0) || (epochs > 0 && epochs_done > 0 && epochs_done % epochs == 0);
  }
};

}  // namespace shoal::train
