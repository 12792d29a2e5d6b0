#include "checkpoint/save_sample.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "checkpoint/checkpointer.h"
#include "checkpoint/file_names.h"
#include "checkpoint/sample_state.h"
#include "comm/fake_process_group.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/file_io.h"

namespace shoal::testing {

namespace fs = std::filesystem;
using checkpoint::Checkpointer;
using checkpoint::CheckpointerOptions;
using checkpoint::SavePoint;
using comm::FakeWorld;
using comm::ProcessGroup;

void save_sample(const fs::path& directory, std::int64_t step, int salt, const checkpoint::SaveObserver& observer,
                 const std::optional<checkpoint::Fence>& fence) {
  FakeWorld(kSavingRanks).run([&](ProcessGroup& world) {
    CheckpointerOptions options;
    options.directory = directory;
    options.keep = 2;
    options.observer = observer;
    if (world.rank() == 0) options.fence = fence;
    const StateDict state = sample_state(sample_tensors(), world.rank(), kSavingRanks, salt);
    Checkpointer(world, options).save(step, state, kTrainingState);
  });
}

std::int64_t restored_step(const fs::path& directory, const std::function<int(std::int64_t)>& salt_of) {
  std::int64_t step = -1;
  FakeWorld(3).run([&](ProcessGroup& world) {
    StateDict state = blank_state(sample_tensors(), world.rank(), 3);
    CheckpointerOptions options;
    options.directory = directory;
    const auto restored = Checkpointer(world, options).restore(state, "auto");
    ASSERT_TRUE(restored);
    const int salt = salt_of(restored->step);
    EXPECT_TRUE(same_elements(state, sample_state(sample_tensors(), world.rank(), 3, salt)));
    if (world.rank() == 0) step = restored->step;
  });
  return step;
}

checkpoint::Fence new_attempt(const fs::path& directory) {
  auto fence = checkpoint::Fence::take(directory, 0, "host new");
  fence.enter();
  return fence;
}

std::int64_t temporaries_in(const fs::path& directory) {
  const auto is_temporary = [](const fs::directory_entry& entry) {
    const auto name = checkpoint::parse_step_directory_name(entry.path().filename().string());
    return name && name->kind == checkpoint::DirectoryKind::temporary;
  };
  return std::count_if(fs::directory_iterator(directory), fs::directory_iterator(), is_temporary);
}

std::vector<SavePoint> all_save_points() {
  std::vector<SavePoint> points;
  for (int i = 0; i <= static_cast<int>(SavePoint::finished); ++i) points.push_back(static_cast<SavePoint>(i));
  return points;
}

std::map<std::string, std::uint32_t> contents_of(const fs::path& directory) {
  std::map<std::string, std::uint32_t> contents;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = fs::relative(entry.path(), directory).string();
    const std::string text = entry.is_regular_file() ? read_text_file(entry.path()) : "";
    contents[name] = crc32c(text.data(), text.size());
  }
  return contents;
}

int status_of_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 0;
    try {
      body();
    } catch (const Error& error) {
      code = static_cast<int>(error.exit_code());
    } catch (...) {
      code = 1;
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

}  // namespace shoal::testing
