#include "checkpoint/checkpointer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "checkpoint/agreement.h"
#include "checkpoint/background_writer.h"
#include "checkpoint/file_groups.h"
#include "checkpoint/group_activity.h"
#include "checkpoint/restore.h"
#include "checkpoint/save_in_flight.h"
#include "checkpoint/shard_layout.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/file_io.h"
#include "core/host_name.h"

namespace shoal::checkpoint {
namespace {

// What the next forward pass may change is small.
void copy_buffers(StateDict& state) {
  for (ShardedTensor& tensor : state.tensors) {
    Region& region = tensor.region;
    if (!tensor.changes_in_forward || !tensor.saves || region.count == 0) continue;
    const auto bytes = static_cast<std::size_t>(region.count * size_of(tensor.spec.dtype));
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes);
    read_region(region, 0, copy->data(), bytes);
    region.data = copy->data();
    region.fetch = nullptr;
    state.owned.push_back(copy);
  }
}

// Collective over `world`.
FileGroup file_group_of(comm::ProcessGroup& world, int files) {
  const std::vector<int> file = file_of_ranks(comm::all_gather_bytes(world, host_name()), files);
  FileGroup group{file[static_cast<std::size_t>(world.rank())], 1 + *std::max_element(file.begin(), file.end()), {}};
  if (group.files < world.size()) group.ranks = world.split(group.index);
  return group;
}

}  // namespace

Checkpointer::Checkpointer(comm::ProcessGroup& world, CheckpointerOptions options)
    : world_(&world),
      options_(std::move(options)),
      file_group_(file_group_of(world, options_.files)),
      pool_(options_.allocate_stage) {
  SHOAL_CHECK(options_.keep >= 1, OptionError, "--keep {} would keep no checkpoint; it is 1 or more", options_.keep);
  SHOAL_CHECK(options_.keep_every >= 0, OptionError, "--keep-every {}: a number of steps, or 0 for none",
              options_.keep_every);
  run_on_root(*world_, [&] {
    make_directories(options_.directory);
    SHOAL_CHECK(::access(options_.directory.c_str(), R_OK | W_OK | X_OK) == 0, IoError,
                "--checkpoint-dir {} cannot be written: {}", options_.directory.string(),
                std::generic_category().message(errno));
    return std::string();
  });
}

Checkpointer::~Checkpointer() = default;

void Checkpointer::enter() {
  run_on_root(*world_, [&] {
    if (fence() != nullptr) fence()->enter();
    return std::string();
  });
}

void Checkpointer::check() {
  run_on_root(*world_, [&] {
    if (fence() != nullptr) fence()->check();
    return std::string();
  });
}

void Checkpointer::start(std::int64_t step, StateDict state, const std::string& training_state,
                         std::int64_t stage_bytes) {
  SHOAL_CHECK(!saving(), InternalError, "checkpoint step {} is to be saved while another save is in flight", step);
  const activity::During during(activity::Operation::save);
  const GroupActivity activity(*world_, fmt::format("the saving of checkpoint step {}", step));
  committed_despite_error_.reset();
  in_flight_ = std::make_unique<SaveInFlight>(*world_, file_group_, options_, step, std::move(state), training_state,
                                              pool_, stage_bytes, remover_);
}

SaveReport Checkpointer::save(std::int64_t step, StateDict state, const std::string& training_state) {
  start(step, std::move(state), training_state, 0);
  return finish_save();
}

void Checkpointer::prepare_saves(const StateDict& state) {
  std::int64_t bytes = 0;
  for (const RegionRow& row : table_of(state)) bytes += bytes_of(row, state);
  const std::int64_t needed = (bytes + kChunkBytes - 1) / kChunkBytes * kChunkBytes;
  pool_.reserve(std::min(needed, options_.stage_bytes / kChunkBytes * kChunkBytes));
}

void Checkpointer::start_save(std::int64_t step, StateDict state, const std::string& training_state) {
  copy_buffers(state);
  start(step, std::move(state), training_state, options_.stage_bytes);
}

void Checkpointer::await_copies() {
  if (in_flight_ != nullptr) in_flight_->wait_copied();
}

bool Checkpointer::save_idle() const { return in_flight_ == nullptr || in_flight_->idle(); }

std::optional<SaveReport> Checkpointer::continue_save() {
  SHOAL_ASSERT(saving());
  const activity::During during(activity::Operation::save);
  const GroupActivity activity(*world_, fmt::format("the saving of checkpoint step {}", in_flight_->step()));
  try {
    std::optional<SaveReport> report = in_flight_->go_on();
    if (report) in_flight_.reset();
    return report;
  } catch (...) {
    committed_despite_error_ = in_flight_->committed();
    in_flight_.reset();
    throw;
  }
}

SaveReport Checkpointer::finish_save() {
  for (;;)
    if (const std::optional<SaveReport> report = continue_save()) return *report;
}

std::optional<Restored> Checkpointer::restore(StateDict& state, const std::string& from, const MatchRules& rules) {
  const activity::During restoring(activity::Operation::restore);
  const GroupActivity activity(*world_, fmt::format("the restoring of '{}'", from));
  world_->barrier();  // so that a rank that does not come is named before data travel
  if (from == "auto") return restore_newest_sound(*world_, options_.directory, state, rules, options_.read_workers);
  return restore_from(*world_, from, state, rules, options_.read_workers);
}

}  // namespace shoal::checkpoint
