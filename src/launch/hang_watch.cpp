#include "launch/hang_watch.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/logging.h"
#include "launch/first_failure.h"
#include "launch/node_report.h"
#include "launch/run_records.h"

namespace shoal::launch {
namespace fs = std::filesystem;
namespace {

using std::chrono::seconds;
using State = Whereabouts::State;

constexpr int kHang = static_cast<int>(ExitCode::hang), kCommunication = static_cast<int>(ExitCode::communication);
constexpr int kKilled = 128 + SIGKILL;  // as launchers have it
constexpr int kStopped = static_cast<int>(ExitCode::stopped);
// How often the file system, which may be that of thousands of nodes, is asked for a strike, and is told where ranks
// are.
constexpr seconds kPollPeriod{1}, kReportPeriod{30};

double seconds_of(std::chrono::steady_clock::duration t) { return std::chrono::duration<double>(t).count(); }

double now_in_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

ProcessIdentity identity_of(const activity::Slot& slot) {
  return {slot.process, slot.process_start, slot.process_space};
}

bool is_failure(int code) { return code > 0 && code != kStopped; }

fs::path strike_file(const fs::path& where, int attempt) {
  return where / fmt::format("strike.attempt-{:06}", attempt);
}
fs::path teller_file(const fs::path& where, int attempt) {
  return where / fmt::format("teller.attempt-{:06}", attempt);
}

}  // namespace

HangWatch::HangWatch(std::vector<activity::Slot*> slots, std::size_t own, HangWatchOptions options)
    : own_(own), options_(std::move(options)), last_look_(Clock::now()) {
  for (const activity::Slot* slot : slots) neighbours_.push_back({slot});
}

std::optional<std::string> HangWatch::trouble() {
  activity::beat();
  if (auto line = look_at_own_end()) return line;
  if (auto line = look_at_neighbours()) return line;
  count_unchanged();
  return speaks() ? look_at_strike() : std::nullopt;
}

std::optional<std::string> HangWatch::end(int code, std::string line) {
  exit_code_ = code;
  return line;
}

// The main thread has failed and is on its way out, or so it said.
std::optional<std::string> HangWatch::look_at_own_end() {
  const int code = neighbours_[own_].slot->leaving;
  if (!is_failure(code)) return std::nullopt;
  const auto now = Clock::now();
  if (!leaving_since_) leaving_since_ = now;
  if (now - *leaving_since_ < options_.last_words) return std::nullopt;
  return end(code, "");
}

std::optional<std::string> HangWatch::look_at_neighbours() {
  for (Neighbour& n : neighbours_) {
    if (n.slot == neighbours_[own_].slot) continue;
    const int leaving = n.slot->leaving;
    const bool dead = leaving == activity::kStays && state_of(identity_of(*n.slot)) == ProcessState::ended;
    if (!dead && !is_failure(leaving)) continue;
    if (!n.gone) {
      n.gone = Clock::now();
      if (dead) tell_dead(*n.slot);
    }
    if (Clock::now() - *n.gone >= options_.patience) return end(dead ? kKilled : leaving, "");
  }
  return std::nullopt;
}

// At once, before whoever ends the rest of the job comes to this rank; by the first who finds it.
void HangWatch::tell_dead(const activity::Slot& slot) const {
  const activity::Reading whose = activity::read(slot);
  const std::string& host = options_.hosts[static_cast<std::size_t>(whose.rank)];
  const std::string how = "ended without a word: killed, perhaps for its use of memory (dmesg tells)";
  if (record_failure_of(whose, host, kKilled, how) || (options_.where.empty() && speaks()))
    log::error("rank {} (process {} on host {}), which was in {}, {}", whose.rank, whose.process, host,
               place_text(whose), how);
}

// All ranks count, since any of them may have to speak.
void HangWatch::count_unchanged() {
  constexpr seconds kLongestGap{1};  // a process that was stopped for a while has not watched
  const auto now = Clock::now();
  const auto passed = std::min<Clock::duration>(now - std::exchange(last_look_, now), kLongestGap);
  for (Neighbour& n : neighbours_) {
    const std::uint64_t changes = n.slot->changes.load(std::memory_order_acquire);
    n.unchanged = std::exchange(n.changes, changes) == changes ? n.unchanged + passed : Clock::duration{};
  }
}

bool HangWatch::speaks() const {
  constexpr double kSilence = 2;  // seconds without a beat
  for (std::size_t i = 0; i < own_; ++i)
    if (activity::seconds_since_beat(*neighbours_[i].slot) < kSilence) return false;
  return true;
}

bool HangWatch::overdue() const {
  if (options_.timeout.count() == 0) return false;
  return std::any_of(neighbours_.begin(), neighbours_.end(), [&](const Neighbour& n) {
    return n.unchanged >= options_.timeout && n.slot->leaving == activity::kStays &&
           activity::read(*n.slot).operation != activity::Operation::waiting;
  });
}

std::optional<std::string> HangWatch::look_at_strike() {
  const auto now = Clock::now();
  if (!struck_at_ && now - last_report_ >= kReportPeriod) report(false);
  if (!struck_at_ && (overdue() || strike_seen())) strike();
  if (!struck_at_ && failure_seen_ && now - *failure_seen_ >= options_.last_words) return leave_as_the_first();
  if (!struck_at_) return std::nullopt;
  // Others leave when the teller has had the time to tell, and be it that it was killed meanwhile.
  if (!tells_) return now - *struck_at_ < options_.answers + seconds(3) ? std::nullopt : end(kHang, "");
  if (now - last_poll_ < std::chrono::milliseconds(500)) return std::nullopt;
  last_poll_ = now;
  bool complete = false;
  const std::vector<Whereabouts> all = all_whereabouts(complete);
  if (!complete && now - *struck_at_ < options_.answers) return std::nullopt;
  std::string line = verdict(all);
  const Whereabouts* first = suspect(all);
  if (first) record_failure_of(first->at, first->host, kHang, line);
  return end(kHang, std::move(line));
}

// The file is there, empty, from the first look on: NFS may remember for half a minute that a file is not there, but
// asks for the size of one that is opened.
bool HangWatch::strike_seen() {
  const auto now = Clock::now();
  if (options_.where.empty() || now - last_poll_ < kPollPeriod) return false;
  last_poll_ = now;
  std::error_code none;
  if (!failure_seen_ && !options_.first_failure.empty() && fs::exists(options_.first_failure, none))
    failure_seen_ = now;
  try {
    const fs::path file = strike_file(options_.where, options_.attempt);
    if (create_text_file(file, "")) return false;
    return InputFile(file).size() > 0;
  } catch (const Error&) {  // a file system that is away now may be back at the next look
    return false;
  }
}

// A rank of another node has failed, and no launcher has ended this one.
std::optional<std::string> HangWatch::leave_as_the_first() {
  try {
    const std::string name = options_.first_failure.string();
    const FailureRecord first = parse_failure(read_text_file(name), name);
    return end(is_failure(first.exit_code) ? first.exit_code : kCommunication, "");
  } catch (const Error&) {
    return end(kCommunication, "");
  }
}

void HangWatch::strike() {
  struck_at_ = Clock::now();
  if (options_.where.empty()) {
    tells_ = true;
    return;
  }
  try {
    const std::string who = fmt::format("rank {}\n", neighbours_[own_].slot->rank.load());
    tells_ = create_text_file(teller_file(options_.where, options_.attempt), who);
    if (tells_) replace_text_file(strike_file(options_.where, options_.attempt), who, false);
  } catch (const Error& error) {
    log::warning("{}; what other nodes do cannot be asked for", error.what());
    tells_ = true;
  }
  report(true);
}

void HangWatch::report(bool struck) {
  last_report_ = Clock::now();
  if (options_.where.empty()) return;
  const NodeReport now{.time = now_in_seconds(), .struck = struck, .ranks = node_whereabouts()};
  const int node = options_.nodes[static_cast<std::size_t>(neighbours_[own_].slot->rank)];
  try {
    replace_text_file(node_report_file(options_.where, node, options_.attempt), to_json(now), false);
  } catch (const Error& error) {
    if (struck) log::warning("{}", error.what());
  }
}

std::vector<Whereabouts> HangWatch::node_whereabouts() const {
  std::vector<Whereabouts> all;
  for (const Neighbour& n : neighbours_) {
    Whereabouts w{.rank = n.slot->rank, .at = activity::read(*n.slot)};
    w.host = options_.hosts[static_cast<std::size_t>(w.rank)];
    w.at.unchanged_seconds = seconds_of(n.unchanged);
    const ProcessState state = n.slot == neighbours_[own_].slot ? ProcessState::runs : state_of(identity_of(*n.slot));
    if (state == ProcessState::stopped) w.state = State::stopped;
    if (state == ProcessState::ended) w.state = State::ended;
    all.push_back(std::move(w));
  }
  return all;
}

// Those of this node as they are, of the others by their reports since the strike.
std::vector<Whereabouts> HangWatch::all_whereabouts(bool& complete) const {
  std::vector<Whereabouts> all = node_whereabouts();
  const int own_node = options_.nodes[static_cast<std::size_t>(neighbours_[own_].slot->rank)];
  complete = true;
  for (int rank = 0; rank < static_cast<int>(options_.nodes.size()); ++rank) {
    if (options_.nodes[static_cast<std::size_t>(rank)] != rank || rank == own_node) continue;
    if (options_.where.empty()) continue;
    NodeReport report;
    try {
      report = parse_node_report(read_text_file(node_report_file(options_.where, rank, options_.attempt)));
    } catch (const Error&) {
      report.struck = false;  // not there yet
    }
    if (report.struck) {
      all.insert(all.end(), report.ranks.begin(), report.ranks.end());
      continue;
    }
    complete = false;
    for (int r = rank; r < static_cast<int>(options_.nodes.size()); ++r) {
      if (options_.nodes[static_cast<std::size_t>(r)] != rank) continue;
      Whereabouts silent{.rank = r, .host = options_.hosts[static_cast<std::size_t>(r)], .state = State::unheard};
      silent.at.rank = r;
      all.push_back(std::move(silent));
    }
  }
  return all;
}

std::string HangWatch::verdict(const std::vector<Whereabouts>& all) const {
  double longest = 0;
  for (const Whereabouts& w : all) longest = std::max(longest, w.at.unchanged_seconds);
  const bool is_all = all.size() == options_.nodes.size();
  return fmt::format("HANG: no progress for {:.0f} s (--hang-timeout {:g}): {}{}", longest,
                     static_cast<double>(options_.timeout.count()) / 1e3, describe(all),
                     is_all ? "" : "; where the ranks of other nodes are would be known with --run-dir");
}

}  // namespace shoal::launch
