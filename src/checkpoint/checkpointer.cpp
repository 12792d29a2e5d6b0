#include "checkpoint/checkpointer.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <ctime>
#include <system_error>

#include "checkpoint/agreement.h"
#include "checkpoint/attempt.h"
#include "checkpoint/file_names.h"
#include "checkpoint/restore.h"
#include "checkpoint/shard_writer.h"
#include "core/activity.h"
#include "core/check.h"
#include "core/file_io.h"
#include "core/hash.h"
#include "core/timer.h"
#include "hdf5/call.h"

namespace shoal::checkpoint {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Small records on their way from one rank to the others: numbers, separated by spaces.
std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at)
    at = std::from_chars(at, end, numbers.emplace_back()).ptr;
  return numbers;
}

// What a time-out of the group calls the thing in which a rank is missing.
class Activity {
 public:
  Activity(comm::ProcessGroup& group, std::string activity) : group_(&group), before_(group.activity()) {
    group.set_activity(std::move(activity));
  }
  ~Activity() { group_->set_activity(std::move(before_)); }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

 private:
  comm::ProcessGroup* group_;
  std::string before_;
};

// Of all that must be the same on every rank.
std::uint64_t fingerprint(std::int64_t step, const StateDict& state, const std::string& training_state) {
  std::uint64_t h = hash_combine(static_cast<std::uint64_t>(step), hash_string(training_state));
  const auto mix_number = [&h](std::int64_t value) { h = hash_combine(h, static_cast<std::uint64_t>(value)); };
  const auto mix_text = [&h](const std::string& text) { h = hash_combine(h, hash_string(text)); };
  for (const ShardedTensor& tensor : state.tensors) {
    mix_text(tensor.spec.name);
    mix_number(static_cast<std::int64_t>(tensor.spec.dtype));
    for (const std::int64_t extent : tensor.spec.shape) mix_number(extent);
    mix_text(tensor.rule.unit);
    mix_number(tensor.rule.unit_offset);
    mix_number(tensor.rule.shard_numel);
  }
  for (const auto& [alias, name] : state.aliases) {
    mix_text(alias);
    mix_text(name);
  }
  return h;
}

// Collective over `world`.
void check_same_on_all(comm::ProcessGroup& world, std::uint64_t mine) {
  const std::vector<std::string> all = comm::all_gather_bytes(world, std::to_string(mine));
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    SHOAL_CHECK(all[rank] == all[0], InternalError,
                "rank {} saves other tensors, another step or another training state than rank 0", rank);
}

// Collective over `world`. A hole is found here, while the data are still in memory, and not by a restart.
void check_all_is_saved(comm::ProcessGroup& world, const StateDict& state) {
  std::vector<std::int64_t> counts;
  for (const ShardedTensor& tensor : state.tensors) counts.push_back(tensor.saves ? tensor.region.count : 0);
  if (counts.empty()) return;
  world.all_reduce(counts.data(), static_cast<std::int64_t>(counts.size()), DType::int64, comm::ReduceOp::sum)->wait();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const TensorSpec& spec = state.tensors[i].spec;
    SHOAL_CHECK(counts[i] == spec.numel(), InternalError, "the ranks save {} elements of tensor '{}', which has {}",
                counts[i], spec.name, spec.numel());
  }
}

// Collective over `world`.
Attempt begin(comm::ProcessGroup& world, const std::filesystem::path& directory, std::int64_t step, const Fence* fence,
              const SaveObserver& observer) {
  Attempt attempt;
  const std::string shared = run_on_root(world, "rank 0 makes its directory", [&] {
    attempt = begin_attempt(directory, step, fence, observer);
    return fmt::format("{}{}", attempt.id, attempt.path.string());
  });
  attempt.id = shared.substr(0, kIdDigits);
  attempt.path = shared.substr(kIdDigits);
  return attempt;
}

// Collective over `world`. The shard files of all ranks, in rank order.
std::vector<ShardFile> write_shards(comm::ProcessGroup& world, const Attempt& attempt, std::int64_t step,
                                    const StateDict& state, const SaveObserver& observer) {
  const auto reports = run_everywhere(world, "every rank writes its file", [&] {
    const ShardFile file = write_shard(attempt.path, {attempt.id, step, world.rank(), world.size()}, state, observer);
    return fmt::format("{} {} {}", file.bytes, file.regions, file.table_crc);
  });
  std::vector<ShardFile> files;
  for (const std::string& report : reports) {
    const std::vector<std::int64_t> numbers = numbers_of(report);
    const int rank = static_cast<int>(files.size());
    files.push_back(
        {shard_file_name(attempt.id, rank), numbers.at(0), numbers.at(1), static_cast<std::uint32_t>(numbers.at(2))});
  }
  return files;
}

Manifest make_manifest(const Attempt& attempt, const StateDict& state, const std::string& training_state,
                       std::vector<ShardFile> files) {
  Manifest manifest;
  manifest.id = attempt.id;
  manifest.sequence = attempt.sequence;
  manifest.step = attempt.step;
  manifest.ranks = static_cast<int>(files.size());
  manifest.created = utc_now();
  manifest.libraries = {{"shoal", SHOAL_VERSION}, {"hdf5", hdf5::library_version()}};
  for (const ShardedTensor& tensor : state.tensors) manifest.tensors.push_back({tensor.spec, tensor.rule});
  manifest.aliases = state.aliases;
  manifest.files = std::move(files);
  manifest.training_state = training_state;
  return manifest;
}

}  // namespace

Checkpointer::Checkpointer(comm::ProcessGroup& world, CheckpointerOptions options)
    : world_(&world), options_(std::move(options)) {
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

// Collective, after a failure of which all ranks have heard: files that cannot be written may have been taken away by a
// newer attempt, and then that is the reason.
void Checkpointer::explain_failure() const {
  run_on_root(*world_, [&] {
    try {
      if (fence() != nullptr) fence()->check();
    } catch (const IoError&) {
      // The failure itself says more.
    }
    return std::string();
  });
}

SaveReport Checkpointer::save(std::int64_t step, const StateDict& state, const std::string& training_state) {
  const Timer timer;
  const activity::During saving(activity::Operation::save);
  const Activity activity(*world_, fmt::format("the saving of checkpoint step {}", step));
  check_same_on_all(*world_, fingerprint(step, state, training_state));
  check_all_is_saved(*world_, state);
  const Attempt attempt = begin(*world_, options_.directory, step, fence(), options_.observer);
  SaveReport report;
  try {
    pass(options_.observer, SavePoint::attempt_made);
    std::vector<ShardFile> files = write_shards(*world_, attempt, step, state, options_.observer);
    for (const ShardFile& file : files) report.bytes += file.bytes;
    report.path = run_on_root(*world_, "rank 0 commits it", [&] {
      const Manifest manifest = make_manifest(attempt, state, training_state, std::move(files));
      return commit(attempt, manifest, options_.observer).string();
    });
  } catch (const CommunicationError&) {
    if (world_->rank() == 0) abandon(attempt);
    throw;
  } catch (...) {
    if (world_->rank() == 0) abandon(attempt);
    explain_failure();
    throw;
  }
  run_on_root(*world_, "it is complete, and rank 0 tidies up", [&] {
    tidy_up(options_.directory, {options_.keep, options_.keep_every}, fence(), options_.observer);
    return std::string();
  });
  report.seconds = timer.seconds();
  return report;
}

std::optional<Restored> Checkpointer::restore(StateDict& state, const std::string& from) {
  const activity::During restoring(activity::Operation::restore);
  const Activity activity(*world_, fmt::format("the restoring of '{}'", from));
  world_->barrier();  // so that a rank that does not come is named before data travel
  return from == "auto" ? restore_newest_sound(*world_, options_.directory, state) : restore_from(*world_, from, state);
}

}  // namespace shoal::checkpoint
