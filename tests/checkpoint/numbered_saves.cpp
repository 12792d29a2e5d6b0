#include "checkpoint/numbered_saves.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "checkpoint/catalog.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "checkpoint/save_sample.h"
#include "checkpoint/verify.h"
#include "comm/fake_process_group.h"
#include "core/file_io.h"

namespace shoal::testing {
namespace {

namespace fs = std::filesystem;
using checkpoint::Checkpointer;
using comm::FakeWorld;
using comm::ProcessGroup;

std::vector<SampleTensor> few_tensors() {
  return {{"model/w", DType::float32, {67, 5}, "u"},
          {"model/b", DType::bfloat16, {13}, "v"},
          {"model/count", DType::int64, {}, ""}};
}

std::string training_state(int number) { return fmt::format(R"({{"save":{}}})", number); }

int number_in(const std::string& training_state) { return std::atoi(training_state.c_str() + 8); }

}  // namespace

SaveOutcome save_numbered(const fs::path& directory, int ranks, std::int64_t step, int number,
                          const std::optional<checkpoint::Fence>& fence) {
  std::mutex mutex;
  std::vector<SaveOutcome> outcomes;
  FakeWorld(ranks).run([&](ProcessGroup& world) {
    checkpoint::CheckpointerOptions options;
    options.directory = directory;
    options.keep = 2;
    if (world.rank() == 0) options.fence = fence;
    const StateDict state = sample_state(few_tensors(), world.rank(), ranks, number);
    SaveOutcome outcome{true, "", ExitCode::ok};
    try {
      Checkpointer(world, options).save(step, state, training_state(number));
    } catch (const Error& error) {
      outcome = {false, error.what(), error.exit_code()};
    }
    const std::lock_guard lock(mutex);
    outcomes.push_back(outcome);
  });
  for (const SaveOutcome& outcome : outcomes) {
    EXPECT_EQ(outcome.error, outcomes[0].error);
    EXPECT_EQ(outcome.code, outcomes[0].code) << outcome.error;
  }
  return outcomes[0];
}

std::optional<Found> restore_numbered(const fs::path& directory, int ranks) {
  std::optional<Found> found;
  FakeWorld(ranks).run([&](ProcessGroup& world) {
    StateDict state = blank_state(few_tensors(), world.rank(), ranks);
    checkpoint::CheckpointerOptions options;
    options.directory = directory;
    const auto restored = Checkpointer(world, options).restore(state, "auto");
    if (!restored) return;
    const int number = number_in(restored->training_state);
    EXPECT_TRUE(same_elements(state, sample_state(few_tensors(), world.rank(), ranks, number)));
    if (world.rank() == 0) found = Found{restored->step, number};
  });
  return found;
}

void expect_settled(const fs::path& directory) {
  EXPECT_EQ(temporaries_in(directory), 0);
  for (const auto& entry : checkpoint::list_checkpoints(directory)) {
    try {
      EXPECT_EQ(checkpoint::verify(entry.path).problem_count(), 0) << entry.path;
    } catch (const CheckpointError& error) {
      ADD_FAILURE() << error.what();
    }
  }
  const fs::path latest = directory / checkpoint::kLatestName;
  if (!fs::exists(latest)) return;
  std::string name = read_text_file(latest);
  ASSERT_TRUE(name.ends_with('\n')) << name;
  name.pop_back();
  EXPECT_TRUE(fs::exists(directory / name)) << "latest names " << name;
}

QuietErrors::QuietErrors() : before_(::dup(STDERR_FILENO)) {
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(nowhere, STDERR_FILENO);
  ::close(nowhere);
}

QuietErrors::~QuietErrors() {
  ::dup2(before_, STDERR_FILENO);
  ::close(before_);
}

std::int64_t number_from_environment(const char* name, std::int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

}  // namespace shoal::testing
