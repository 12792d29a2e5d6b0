#include "preflight/filesystem.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <sstream>

#include "core/error.h"
#include "preflight/hdf5_lock.h"
#include "preflight/scratch.h"
#include "preflight/space.h"
#include "preflight/trial_files.h"

namespace shoal::preflight {
namespace {

using std::chrono::milliseconds;
namespace fs = std::filesystem;

constexpr int kExclusiveNames = 16;
constexpr const char* kNotShared = "the directory is not one for all nodes: give a path on the parallel file system";

class Trial {
 public:
  Trial(Context& context, const FilesystemPlan& plan);
  std::vector<CheckResult> run();

 private:
  using Body = std::function<Record()>;

  CheckResult make();
  CheckResult shared();
  CheckResult exclusive();
  CheckResult lock();
  CheckResult hdf5_lock();
  CheckResult write();
  CheckResult read();
  CheckResult rename();
  CheckResult space();
  CheckResult quota();

  Record see_root();
  Record see_nodes();
  double needed() const { return plan_.checkpoint_bytes * plan_.checkpoints; }
  std::string activity(const char* part) const {
    return fmt::format("the check {}.{} of {}", plan_.prefix, part, plan_.directory.string());
  }
  fs::path own(const char* kind, int rank) const { return scratch_.path() / fmt::format("{}-{}", kind, rank); }
  // Every rank that sees the folder runs `body`; the others count as skipped.
  CheckResult trial(const char* name, const Body& body);
  // A rank's speed, and those of all.
  std::vector<FileSpeed> exchange(const char* name, const FileSpeed& mine);

  Context& context_;
  const FilesystemPlan& plan_;
  std::vector<std::string> paths_;  // the folder's name, then the directories that rank 0 makes
  Scratch scratch_;
  std::vector<bool> usable_;  // of each rank: it sees the folder that rank 0 made
  std::vector<FileSpeed> written_;
};

// What rank 0 tells all: a name of no other run on whatever host, and which directories it has to make; a line each.
std::vector<std::string> agree_on_paths(Context& context, const fs::path& directory) {
  std::string mine = fmt::format(".shoal-preflight-{}-{}-{:x}", context.host(), getpid(), std::time(nullptr));
  for (const fs::path& missing : missing_directories(directory)) mine += '\n' + missing.string();
  std::istringstream in(context.exchange("the name of the folder for trials", mine)[0]);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Trial::Trial(Context& context, const FilesystemPlan& plan)
    : context_(context),
      plan_(plan),
      paths_(agree_on_paths(context, plan.directory)),
      scratch_(context.guard(), plan.directory, paths_[0]),
      usable_(static_cast<std::size_t>(context.size()), true) {}

std::vector<CheckResult> Trial::run() {
  std::vector<CheckResult> results{make()};
  if (worst_of(results[0]) == Verdict::fail) return results;
  results.push_back(shared());
  results.push_back(exclusive());
  results.push_back(lock());
  if (plan_.bytes > 0) {
    results.push_back(write());
    if (worst_of(results.back()) != Verdict::fail) results.push_back(read());
    results.push_back(hdf5_lock());
  }
  results.push_back(rename());
  results.push_back(space());
  results.push_back(quota());
  // Nobody removes the folder while others are still in it.
  context_.exchange("the end of the trials", "");
  return results;
}

CheckResult Trial::trial(const char* name, const Body& body) {
  const bool mine = usable_[static_cast<std::size_t>(context_.rank())];
  CheckResult check{.name = fmt::format("{}.{}", plan_.prefix, name)};
  check.records = context_.gather(activity(name), [&]() -> Record {
    if (!mine) return {.verdict = Verdict::skipped, .found = "this rank does not see the folder of rank 0"};
    return body();
  });
  return check;
}

std::vector<FileSpeed> Trial::exchange(const char* name, const FileSpeed& mine) {
  std::vector<FileSpeed> speeds;
  for (const std::string& text : context_.exchange(activity(name), fmt::format("{} {}", mine.bytes, mine.seconds))) {
    std::istringstream in(text);
    FileSpeed speed;
    in >> speed.bytes >> speed.seconds;
    speeds.push_back(speed);
  }
  return speeds;
}

CheckResult Trial::make() {
  CheckResult check{.name = plan_.prefix + ".make", .summary = plan_.directory.string()};
  check.records = context_.gather_all(activity("make"), [&]() -> std::vector<Record> {
    if (context_.rank() != 0) return {};
    scratch_.adopt({paths_.begin() + 1, paths_.end()});
    scratch_.make();
    write_text_file(scratch_.path() / "root", paths_[0]);
    return {{.found = "a folder can be made"}};
  });
  return check;
}

Record Trial::see_root() {
  const double seconds = wait_for_text(scratch_.path() / "root", paths_[0], plan_.seen_within);
  if (seconds < 0)
    return {.verdict = Verdict::fail,
            .found = fmt::format("what rank 0 on {} wrote to {} is not seen within {:g} s", context_.host_of(0),
                                 plan_.directory.string(), static_cast<double>(plan_.seen_within.count()) / 1e3),
            .advice = kNotShared,
            .code = ExitCode::io};
  // They are the same here, so whichever rank ends last removes them.
  scratch_.adopt({paths_.begin() + 1, paths_.end()});
  write_text_file(own("seen", context_.rank()), paths_[0]);
  return {.value = seconds, .unit = "s", .code = ExitCode::io};
}

// One rank of each node is enough: the others go through the same client.
Record Trial::see_nodes() {
  double longest = 0;
  for (const int first : context_.first_ranks()) {
    if (!usable_[static_cast<std::size_t>(first)]) continue;
    const double seconds = wait_for_text(own("seen", first), paths_[0], plan_.seen_within);
    longest = std::max(longest, seconds);
    if (seconds >= 0) continue;
    return {.verdict = Verdict::fail,
            .found = fmt::format("what rank {} on {} wrote is not seen within {:g} s", first, context_.host_of(first),
                                 static_cast<double>(plan_.seen_within.count()) / 1e3),
            .advice = kNotShared,
            .code = ExitCode::io};
  }
  return {.value = longest, .unit = "s", .code = ExitCode::io};
}

CheckResult Trial::shared() {
  const CheckResult root = trial("shared", [&] { return see_root(); });
  for (std::size_t rank = 0; rank < usable_.size(); ++rank) usable_[rank] = root.records[rank].verdict != Verdict::fail;
  CheckResult check = trial("shared", [&] { return see_nodes(); });
  for (std::size_t rank = 0; rank < usable_.size(); ++rank)
    if (!usable_[rank]) check.records[rank] = root.records[rank];
  const std::string range = range_of(check.records);
  check.summary = range.empty() ? "no rank sees what others write" : "files of others are seen after " + range;
  return check;
}

CheckResult Trial::exclusive() {
  CheckResult check = trial("exclusive", [&]() -> Record {
    std::string won;
    for (int i = 0; i < kExclusiveNames; ++i)
      if (create_text_file(scratch_.path() / fmt::format("once-{}", i), paths_[0])) won += fmt::format("{} ", i);
    return {.found = won, .code = ExitCode::io};
  });
  std::vector<std::vector<int>> won;
  for (Record& record : check.records) {
    won.emplace_back();
    if (record.verdict != Verdict::ok) continue;
    std::istringstream in(std::exchange(record.found, ""));
    for (int i; in >> i;) won.back().push_back(i);
  }
  const std::vector<Record> judged = judge_exclusive(won, kExclusiveNames);
  for (std::size_t rank = 0; rank < judged.size(); ++rank) {
    if (judged[rank].verdict != Verdict::fail || check.records[rank].verdict != Verdict::ok) continue;
    Record record = judged[rank];
    record.host = check.records[rank].host;
    record.rank = check.records[rank].rank;
    check.records[rank] = record;
  }
  const bool well = worst_of(check) != Verdict::fail;
  check.summary = well ? fmt::format("each of {} files was made by one rank alone", kExclusiveNames)
                       : std::string("files that should be made once were made by several ranks, or by none");
  return check;
}

CheckResult Trial::lock() {
  const fs::path path = scratch_.path() / "lock";
  LockAttempt held;
  CheckResult holder = trial("lock", [&]() -> Record {
    if (context_.rank() == 0) held = try_lock(path);
    return {.found = held.error != 0 ? std::generic_category().message(held.error) : "", .code = ExitCode::io};
  });
  const std::string refused = holder.records[0].found;
  constexpr const char* kAdvice =
      "Shoal needs no locks; other programs may (Lustre: mount with -o flock; HDF5: HDF5_USE_FILE_LOCKING=FALSE)";
  CheckResult check = trial("lock", [&]() -> Record {
    if (!refused.empty())
      return {.verdict = Verdict::warn, .found = "no locks: " + refused, .advice = kAdvice, .code = ExitCode::io};
    if (context_.rank() == 0 || try_lock(path).busy) return {.code = ExitCode::io};
    return {.verdict = Verdict::warn,
            .found = fmt::format("the lock that rank 0 on {} holds is not seen", context_.host_of(0)),
            .advice = kAdvice,
            .code = ExitCode::io};
  });
  if (worst_of(holder) == Verdict::fail) check.records[0] = holder.records[0];
  check.summary = worst_of(check) == Verdict::ok ? "flock() keeps ranks apart" : "flock() does not keep ranks apart";
  return check;
}

CheckResult Trial::hdf5_lock() {
  CheckResult check = trial("hdf5-lock", [&]() -> Record { return try_hdf5_lock(own("locked", context_.rank())); });
  check.summary = check.records[0].found.empty() ? "HDF5 can lock its files" : check.records[0].found;
  return check;
}

CheckResult Trial::write() {
  const milliseconds limit = std::min(context_.remaining() / 4, milliseconds(30000));
  FileSpeed mine;
  CheckResult check = trial("write", [&]() -> Record {
    mine = write_pattern(own("data", context_.rank()), plan_.bytes, static_cast<std::uint64_t>(context_.rank()), limit);
    return {.value = static_cast<double>(mine.bytes) / 1e9 / mine.seconds, .unit = "GB/s", .code = ExitCode::io};
  });
  written_ = exchange("write", mine);
  check.summary = summary_of(written_);
  warn_of_slow(check.records);
  return check;
}

CheckResult Trial::read() {
  // What another node wrote is not in this one's memory.
  const int neighbour = (context_.rank() + context_.local_size()) % context_.size();
  const int owner = usable_[static_cast<std::size_t>(neighbour)] ? neighbour : context_.rank();
  FileSpeed mine;
  CheckResult check = trial("read", [&]() -> Record {
    mine = read_pattern(own("data", owner), written_[static_cast<std::size_t>(owner)].bytes,
                        static_cast<std::uint64_t>(owner));
    return {.value = static_cast<double>(mine.bytes) / 1e9 / mine.seconds, .unit = "GB/s", .code = ExitCode::io};
  });
  check.summary = summary_of(exchange("read", mine));
  warn_of_slow(check.records);
  return check;
}

CheckResult Trial::rename() {
  CheckResult check = trial("rename", [&]() -> Record {
    const double ms = time_commit(scratch_.path(), fmt::format("commit-{}", context_.rank()));
    return {.value = ms, .unit = "ms", .code = ExitCode::io};
  });
  const std::string range = range_of(check.records);
  check.summary = range.empty() ? "no file could be replaced" : "a synced file replaces another in " + range;
  return check;
}

CheckResult Trial::space() {
  CheckResult check = trial("space", [&]() -> Record { return judge_space(read_space(scratch_.path()), needed()); });
  check.summary = check.records[0].found;
  return check;
}

CheckResult Trial::quota() {
  CheckResult check{.name = plan_.prefix + ".quota"};
  check.records = context_.gather_all(activity("quota"), [&]() -> std::vector<Record> {
    if (context_.rank() != 0) return {};
    std::string none;
    const auto quota = read_quota(scratch_.path(), read_space(scratch_.path()).type, none);
    return {judge_quota(quota, none, needed())};
  });
  check.summary = check.records[0].found;
  return check;
}

}  // namespace

std::vector<CheckResult> check_filesystem(Context& context, const FilesystemPlan& plan) {
  return Trial(context, plan).run();
}

}  // namespace shoal::preflight
