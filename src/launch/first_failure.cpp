#include "launch/first_failure.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "core/error.h"
#include "core/logging.h"
#include "launch/crash_signals.h"
#include "launch/signal_safe_text.h"

namespace shoal::launch {
namespace {

constexpr std::size_t kPathBytes = 4096, kRecordBytes = 16384;

// Made ready ahead: nothing of this may be computed in a handler of signals.
struct Ready {
  std::array<char, kPathBytes> file{}, draft{};
  std::array<char, 512> host{}, gpu{'"', '"'};
  int attempt = 0;
};
Ready g_ready;
std::atomic<bool> g_is_ready{false};
std::atomic<bool> g_publishing{false};  // by some thread of this process; others have nothing to add

template <std::size_t kBytes>
bool keep(const std::string& text, std::array<char, kBytes>& to) {
  if (text.size() >= kBytes) return false;
  std::memcpy(to.data(), text.c_str(), text.size() + 1);
  return true;
}

std::string as_json(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

using Record = SignalSafeText<kRecordBytes>;

// `reason`, `host`: as they stand in JSON.
void compose(Record& to, const activity::Reading& whose, const char* unit_name, std::string_view host, int exit_code,
             std::string_view reason) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const activity::Slot& teller = activity::slot();
  const bool own = whose.rank == teller.rank;
  to << "{\n  \"attempt\": " << std::int64_t{g_ready.attempt} << ",\n  \"rank\": " << std::int64_t{whose.rank}
     << ",\n  \"host\": " << host << ",\n  \"gpu\": ";
  if (own)
    to << g_ready.gpu.data();
  else
    to << "\"\"";
  to << ",\n  \"process\": " << whose.process << ",\n  \"time\": " << std::int64_t{now.tv_sec}
     << ",\n  \"exit_code\": " << std::int64_t{exit_code} << ",\n  \"reason\": " << reason
     << ",\n  \"told_by_rank\": " << std::int64_t{teller.rank} << ",\n  \"where\": {\"operation\": \""
     << activity::text_of(whose.operation) << "\", \"unit\": " << std::int64_t{whose.unit} << ", \"unit_name\": ";
  to.quoted(unit_name) << ", \"step\": " << whose.step << ", \"micro_step\": " << whose.micro_step << "}\n}\n";
}

bool write_all(int file, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t done = ::write(file, text.data(), text.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  return true;
}

bool write_file(const char* path, int how, std::string_view text) noexcept {
  const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | how, 0644);
  if (file < 0) return false;
  const bool written = write_all(file, text);
  return close(file) == 0 && written;
}

// A file that is there is complete: it is linked to its name when it is. Where the file system has no links, it is
// written under its name. Only what a handler of signals may call.
bool publish(std::string_view text) noexcept {
  const char* const file = g_ready.file.data();
  const char* const draft = g_ready.draft.data();
  if (access(file, F_OK) == 0 || g_publishing.exchange(true)) return false;
  bool first = false;
  if (write_file(draft, O_TRUNC, text)) {
    first = link(draft, file) == 0;
    if (!first && errno != EEXIST) first = write_file(file, O_EXCL, text);
    unlink(draft);
  }
  g_publishing = false;
  return first;
}

}  // namespace

void keep_failures_in(const std::filesystem::path& file, const FailureContext& context) {
  g_is_ready = false;
  if (file.empty()) return;
  const std::string name = file.string();
  const std::string draft = fmt::format("{}.rank-{}.draft", name, activity::slot().rank.load());
  if (!keep(name, g_ready.file) || !keep(draft, g_ready.draft))
    throw IoError("{}: the name is too long for a record of failures", name);
  if (!keep(as_json(context.host), g_ready.host)) keep("\"?\"", g_ready.host);
  g_ready.attempt = context.attempt;
  g_is_ready = true;
}

void name_gpu_of_failures(const std::string& gpu) {
  if (!keep(as_json(gpu), g_ready.gpu)) keep("\"?\"", g_ready.gpu);
}

bool record_failure(int exit_code, const std::string& reason) noexcept {
  try {
    return record_failure_of(activity::read(activity::slot()), std::string(), exit_code, reason);
  } catch (const std::exception&) {  // out of memory
    record_crash(exit_code, "out of memory");
    return false;
  }
}

bool record_failure_of(const activity::Reading& whose, const std::string& host, int exit_code,
                       const std::string& reason) noexcept {
  if (!g_is_ready) return false;
  try {
    constexpr std::size_t kLongestReason = kRecordBytes / 12;  // a character may become six
    Record record;
    compose(record, whose, whose.unit_name.c_str(), host.empty() ? std::string(g_ready.host.data()) : as_json(host),
            exit_code, as_json(reason.substr(0, kLongestReason)));
    return publish(record.view());
  } catch (const std::exception&) {
    record_crash(exit_code, "out of memory");
    return false;
  }
}

void record_crash(int exit_code, const char* reason) noexcept {
  if (!g_is_ready) return;
  const activity::Slot& slot = activity::slot();
  const std::uint64_t place = slot.place.load();
  activity::Reading whose;  // by hand: activity::read() makes a string of the unit's name
  whose.rank = slot.rank;
  whose.process = slot.process;
  whose.operation = activity::detail::operation_of(place);
  whose.unit = activity::detail::unit_of(place);
  whose.step = slot.step;
  whose.micro_step = slot.micro_step;
  SignalSafeText<512> quoted;
  quoted.quoted(reason);
  static Record record;  // the stack of a crash may be the reason for it
  const bool named = whose.unit >= 0 && whose.unit < slot.names;
  compose(record, whose, named ? slot.name[static_cast<std::size_t>(whose.unit)].data() : "", g_ready.host.data(),
          exit_code, quoted.view());
  publish(record.view());
}

void leave_now(int exit_code, const std::string& reason, std::chrono::milliseconds grace) noexcept {
  activity::leave_with(exit_code);
  if (!reason.empty()) {
    record_failure(exit_code, reason);
    log::write(log::Level::error, reason);
  }
  std::this_thread::sleep_for(grace);
  std::fflush(nullptr);
  std::_Exit(exit_code);
}

}  // namespace shoal::launch
