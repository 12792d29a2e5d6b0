// What a run is asked to do between two steps: by signals on any rank, by the rest on rank 0.
#pragma once

#include <array>
#include <functional>

namespace shoal::train {

struct Asks {
  bool signal = false;      // stop: SIGTERM and the others
  bool deadline = false;    // stop: what is left of the time limit is needed for saving
  bool stop_file = false;   // stop: the user's STOP
  bool superseded = false;  // a newer attempt seems to have taken over
  bool save = false;        // the user's SAVE
  bool writing = false;     // no wish: this rank still works on the save in flight

  bool stop() const { return signal || deadline || stop_file; }
};

// In the order in which they travel.
inline constexpr std::array kAsks{&Asks::signal,     &Asks::deadline, &Asks::stop_file,
                                  &Asks::superseded, &Asks::save,     &Asks::writing};

}  // namespace shoal::train
