#include "preflight/clocks.h"

#include <time.h>

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <sstream>

#include "preflight/peer_messages.h"

namespace shoal::preflight {
namespace {

constexpr int kTrips = 10;
constexpr std::chrono::milliseconds kPatience{5000};
constexpr double kMostSkew = 1;  // seconds

double now() {
  timespec t{};
  clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void answer(PeerMessages& messages) {
  for (int i = 0; i < kTrips; ++i) {
    if (!messages.receive(0, i, sizeof(double), kPatience)) return;
    const double mine = now();
    std::memcpy(messages.data(), &mine, sizeof mine);
    if (!messages.send(0, i, sizeof(double), kPatience)) return;
  }
}

ClockReading ask(PeerMessages& messages, int rank, const std::string& host) {
  ClockReading reading{.rank = rank, .host = host};
  for (int i = 0; i < kTrips; ++i) {
    const double before = now();
    if (!messages.send(rank, i, sizeof(double), kPatience)) return reading;
    if (!messages.receive(rank, i, sizeof(double), kPatience)) return reading;
    const double after = now();
    double there = 0;
    std::memcpy(&there, messages.data(), sizeof there);
    const double uncertainty = (after - before) / 2;
    if (reading.answered && uncertainty >= reading.uncertainty_s) continue;
    reading.answered = true;
    reading.uncertainty_s = uncertainty;
    reading.offset_s = there - (before + after) / 2;
  }
  return reading;
}

}  // namespace

std::vector<ClockReading> read_clocks(Context& context) {
  constexpr const char* kActivity = "the comparison of clocks";
  context.begin(kActivity);
  PeerMessages messages(MPI_COMM_WORLD, sizeof(double));
  std::string mine;
  for (const int rank : context.first_ranks()) {
    if (context.rank() == rank && rank != 0) answer(messages);
    if (context.rank() != 0) continue;
    ClockReading reading{.rank = 0, .answered = true};
    if (rank != 0) reading = ask(messages, rank, "");
    mine +=
        fmt::format("{} {} {} {}\n", reading.rank, reading.answered ? 1 : 0, reading.offset_s, reading.uncertainty_s);
  }
  std::vector<ClockReading> readings;
  std::istringstream in(context.exchange(kActivity, mine)[0]);
  for (ClockReading r; in >> r.rank >> r.answered >> r.offset_s >> r.uncertainty_s;) {
    r.host = context.host_of(r.rank);
    readings.push_back(r);
  }
  return readings;
}

CheckResult judge_clocks(const std::vector<ClockReading>& readings) {
  std::vector<double> offsets;
  for (const ClockReading& reading : readings)
    if (reading.answered) offsets.push_back(reading.offset_s);
  const double median = median_of(offsets);
  CheckResult check{.name = "clocks", .summary = "", .records = {}};
  double most = 0;
  for (const ClockReading& reading : readings) {
    Record record{.host = reading.host, .rank = reading.rank, .unit = "s", .code = ExitCode::communication};
    if (!reading.answered) {
      record.verdict = Verdict::fail;
      record.found = "no answer within 5 s";
      record.advice = "look at its network; leave it out of the job";
    } else {
      record.value = reading.offset_s - median;
      most = std::max(most, std::abs(*record.value));
      if (std::abs(*record.value) - reading.uncertainty_s > kMostSkew) {
        record.verdict = Verdict::warn;
        record.found = fmt::format("its clock is {:.1f} s {} those of the others", std::abs(*record.value),
                                   *record.value > 0 ? "ahead of" : "behind");
        record.advice = "let the site mend its time service (chrony, ntp): times of files and logs will not agree";
      }
    }
    check.records.push_back(std::move(record));
  }
  check.summary = readings.size() < 2
                      ? "one node: nothing to compare"
                      : fmt::format("{:.2g} s at most from the median of {} nodes", most, readings.size());
  return check;
}

}  // namespace shoal::preflight
