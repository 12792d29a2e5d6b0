#include "checkpoint/save_in_flight.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "checkpoint/agreement.h"
#include "checkpoint/file_names.h"
#include "checkpoint/manifest_origin.h"
#include "checkpoint/state_checks.h"
#include "checkpoint/view.h"
#include "checkpoint/wait_for_all.h"
#include "core/check.h"
#include "core/logging.h"
#include "core/timer.h"

namespace shoal::checkpoint {
namespace {

// Small records on their way from one rank to the others: numbers, separated by spaces.
std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at)
    at = std::from_chars(at, end, numbers.emplace_back()).ptr;
  return numbers;
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

// A convenience, without which the checkpoint is complete.
void add_view(const std::filesystem::path& path, const Manifest& manifest) {
  if (static_cast<std::int64_t>(manifest.files.size()) > kMostViewFiles) return;
  try {
    write_view(path, manifest, /*with_optimizer=*/false);
  } catch (const Error& error) {
    log::warning("the checkpoint of step {} is saved without a view: {}", manifest.step, error.what());
  }
}

Manifest make_manifest(const Attempt& attempt, const StateDict& state, const std::string& training_state, int ranks) {
  Manifest manifest;
  manifest.id = attempt.id;
  manifest.sequence = attempt.sequence;
  manifest.step = attempt.step;
  manifest.ranks = ranks;
  note_origin(manifest);
  for (const ShardedTensor& tensor : state.tensors) manifest.tensors.push_back({tensor.spec, tensor.rule});
  manifest.aliases = state.aliases;
  manifest.training_state = training_state;
  return manifest;
}

}  // namespace

SaveInFlight::SaveInFlight(comm::ProcessGroup& world, const FileGroup& file_group, const CheckpointerOptions& options,
                           std::int64_t step, StateDict state, const std::string& training_state, StagingPool& pool,
                           std::int64_t stage_bytes, Remover& remover)
    : world_(world), file_group_(file_group), options_(options), step_(step), remover_(remover) {
  check_state(world, step, state, training_state);
  // So that no more than one is kept too many, and nothing that is on its way out is taken for a leftover.
  wait_for_all(world, "rank 0 deletes an old checkpoint",
               {[&](auto limit) { return remover.idle_within(limit); }, [&] { return remover.moves(); }});
  attempt_ = begin(world, options.directory, step, fence(), options.observer);
  if (world.rank() == 0) manifest_ = make_manifest(attempt_, state, training_state, world.size());
  try {
    start_writing(std::move(state), pool, stage_bytes);
  } catch (const CommunicationError&) {
    give_up();
    throw;
  } catch (...) {
    start_error_ = std::current_exception();  // for go_on(), where all hear of it
  }
}

// Collective over the file's ranks. Where this throws, it does so on all of them before any is missing in a collective.
void SaveInFlight::start_writing(StateDict state, StagingPool& pool, std::int64_t stage_bytes) {
  pass(options_.observer, SavePoint::attempt_made);
  const ShardHeader header{attempt_.id, step_, file_group_.index, file_group_.files, world_.size()};
  const auto write = [&](ShardOutput output) {
    writer_ = std::make_unique<BackgroundWriter>(std::move(output), std::move(state), pool, stage_bytes);
  };
  if (file_group_.ranks == nullptr) {
    write({attempt_.path, header, state, options_.observer});
  } else {
    shared_.emplace(*file_group_.ranks, attempt_.path, header, state);
    write(shared_->output(state, options_.observer));
  }
}

SaveInFlight::~SaveInFlight() {
  if (!over_) give_up();
}

void SaveInFlight::give_up() noexcept {
  writer_.reset();
  if (commit_.valid()) commit_.wait();
  if (world_.rank() == 0 && !committed_) abandon(attempt_);
  over_ = true;
}

void SaveInFlight::wait_copied() {
  if (writer_ != nullptr) writer_->wait_copied();
}

bool SaveInFlight::idle() const {
  if (writer_ != nullptr) return writer_->done();
  return !commit_.valid() || commit_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::optional<SaveReport> SaveInFlight::go_on() {
  try {
    if (committing_) return finish();
    finish_writing();
    collect_files();
    start_commit();
    return std::nullopt;
  } catch (const CommunicationError&) {
    give_up();
    throw;
  } catch (...) {
    give_up();
    explain_failure();
    throw;
  }
}

std::optional<SaveReport> SaveInFlight::committed() const {
  if (!committed_) return std::nullopt;
  return SaveReport{committed_path_, report_.bytes, report_.seconds};
}

// Collective over `world`.
void SaveInFlight::finish_writing() {
  wait_for_all(world_, "every rank writes its file",
               {[&](auto limit) { return writer_ == nullptr || writer_->done_within(limit); },
                [&] { return writer_ == nullptr ? 0 : writer_->moves(); }});
  run_everywhere(world_, "every rank writes its file", [&] {
    if (start_error_) std::rethrow_exception(start_error_);
    writer_->finish();
    return std::string();
  });
}

// Collective over `world`. Every file is told of by the first of its ranks.
void SaveInFlight::collect_files() {
  const ShardOutput& output = writer_->finish();
  std::exception_ptr error;
  ShardFile file;
  try {
    file = shared_ ? shared_->complete(output.table()) : output.description();
  } catch (const IoError&) {
    error = std::current_exception();
  }
  const bool tells = file_group_.ranks == nullptr || file_group_.ranks->rank() == 0;
  const std::vector<std::string> reports = run_everywhere(world_, "the files are completed", [&] {
    if (error) std::rethrow_exception(error);
    const auto milliseconds = static_cast<std::int64_t>(writer_->seconds() * 1e3);
    if (!tells) return std::to_string(milliseconds);
    return fmt::format("{} {} {} {} {}", milliseconds, file_group_.index, file.bytes, file.regions, file.table_crc);
  });
  writer_.reset();
  manifest_.files.resize(static_cast<std::size_t>(file_group_.files));
  for (const std::string& report : reports) {
    const std::vector<std::int64_t> numbers = numbers_of(report);
    report_.seconds = std::max(report_.seconds, static_cast<double>(numbers.at(0)) / 1e3);
    if (numbers.size() == 1) continue;
    const int index = static_cast<int>(numbers.at(1));
    manifest_.files.at(static_cast<std::size_t>(index)) = {
        shard_file_name(attempt_.id, index, file_group_.files == world_.size()), numbers.at(2), numbers.at(3),
        static_cast<std::uint32_t>(numbers.at(4))};
    report_.bytes += numbers.at(2);
  }
}

void SaveInFlight::start_commit() {
  committing_ = true;
  if (world_.rank() != 0) return;
  commit_ = std::async(std::launch::async, [this] {
    const Timer timer;
    if (options_.view) add_view(attempt_.path, manifest_);
    const SaveObserver observer = [this](SavePoint point) {
      ++commit_moves_;
      pass(options_.observer, point);
    };
    committed_path_ = commit(attempt_, manifest_, observer);
    committed_ = true;
    tidy_up(options_.directory, {options_.keep, options_.keep_every}, fence(), observer,
            [this](const std::filesystem::path& old) { remover_.remove(old); });
    return Committed{committed_path_, timer.seconds()};
  });
}

SaveReport SaveInFlight::finish() {
  const auto committed_within = [&](std::chrono::milliseconds limit) {
    return !commit_.valid() || commit_.wait_for(limit) == std::future_status::ready;
  };
  wait_for_all(world_, "rank 0 commits it and tidies up", {committed_within, [&] { return commit_moves_.load(); }});
  const std::string shared = run_on_root(world_, "rank 0 commits it and tidies up", [&] {
    const Committed done = commit_.get();
    return fmt::format("{} {}", static_cast<std::int64_t>(done.seconds * 1e3), done.path.string());
  });
  over_ = true;
  const std::size_t space = shared.find(' ');
  report_.seconds += static_cast<double>(numbers_of(shared.substr(0, space)).at(0)) / 1e3;
  report_.path = shared.substr(space + 1);
  return report_;
}

// Collective, after a failure of which all ranks have heard: files that cannot be written may have been taken away by a
// newer attempt, and then that is the reason.
void SaveInFlight::explain_failure() const {
  run_on_root(world_, [&] {
    try {
      if (fence() != nullptr) fence()->check();
    } catch (const IoError&) {
      // The failure itself says more.
    }
    return std::string();
  });
}

}  // namespace shoal::checkpoint
