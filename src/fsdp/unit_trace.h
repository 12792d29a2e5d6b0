// What a Trace hears of a run(): the units that the compute stream works for, and the collectives of the mesh.
//
// A span of the compute lane goes from the first operator that uses a unit's parameters to the first that uses another
// unit's ("forward h.3", "backward h.3"); where the stream waits for a collective in between, the span ends before the
// wait and the next begins after it, so that gaps between spans are what communication costs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/device_mesh.h"
#include "core/trace.h"
#include "fsdp/device_clock.h"

namespace shoal::fsdp {

class Unit;

// Calls come from the thread that works on the run(), one at a time. An exception from a run() needs no call.
class UnitTrace {
 public:
  // `trace` and `mesh` outlive this.
  UnitTrace(Trace& trace, comm::DeviceMesh& mesh, c10::Device device);
  ~UnitTrace();

  void begin_run();
  void end_run();
  // Before the parameters of `unit` are waited for, and after; nothing where its span is open already.
  void leave_for(const Unit& unit);
  void enter(const Unit& unit);
  void begin_backward();
  void end_backward();
  // Around a wait for something else.
  void pause();
  void resume();

  // The end of what this thread has queued for the device by now, for add(); null where the step is not recorded.
  std::shared_ptr<Moment> mark();
  // A span of another lane, from `start` to now; nothing where that is null.
  void add(Trace::Lane lane, std::string name, std::shared_ptr<Moment> start, std::int64_t bytes = 0);

  // No more collectives are heard of; what is under way is waited for.
  void finish();

 private:
  class Observer;
  struct Place {
    const Unit* unit = nullptr;  // null: no operator has used a unit yet
    bool backward = false;
    bool operator==(const Place&) const = default;
  };
  void observe(bool on);
  void move_to(Place place);
  void close();

  Trace* trace_;
  comm::DeviceMesh* mesh_;
  DeviceClock clock_;
  std::shared_ptr<Observer> observer_;  // null while nothing is recorded
  std::int64_t step_ = -1;              // that clock_ was rebased for

  Place place_;
  double run_start_ = 0;           // host
  std::shared_ptr<Moment> start_;  // of the open span; null: none is open
  bool paused_ = false;
};

// null where `trace` is.
std::unique_ptr<UnitTrace> make_unit_trace(Trace* trace, comm::DeviceMesh& mesh, c10::Device device);

}  // namespace shoal::fsdp
