#include "core/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/trace_json.h"
#include "core/trace_summary.h"

namespace shoal {
namespace {

using Lane = Trace::Lane;
using Json = nlohmann::json;

// Known from the start, but counts how often it was asked.
class FixedMoment final : public Moment {
 public:
  explicit FixedMoment(double time) : time_(time) {}
  double time() override {
    ++asked;
    return time_;
  }
  int asked = 0;

 private:
  double time_;
};

TEST(TraceTest, RecordsTheStepsItWasAskedForAndNoOthers) {
  Trace trace(2, 3);
  for (int step = 1; step <= 4; ++step) {
    trace.begin_step(step);
    EXPECT_EQ(trace.recording(), step == 2 || step == 3);
    const double start = trace.now();
    trace.add(Lane::compute, "work", start, trace.now());
  }
  trace.end_step();
  std::map<std::string, int> names;
  for (const Trace::Span& span : trace.spans()) {
    ++names[span.name];
    EXPECT_TRUE(span.step == 2 || span.step == 3);
    EXPECT_GE(span.end, span.start);
  }
  EXPECT_EQ(names, (std::map<std::string, int>{{"step 2", 1}, {"step 3", 1}, {"work", 2}}));
}

TEST(TraceTest, AsksForMomentsAtTheEndAlone) {
  Trace trace(1, 1);
  const auto start = std::make_shared<FixedMoment>(10), end = std::make_shared<FixedMoment>(25);
  trace.add(Lane::copy, "before the step", start, end);
  trace.begin_step(1);
  trace.add(Lane::copy, "h.3", start, end, 4096);
  EXPECT_EQ(start->asked + end->asked, 0);
  trace.end_step();
  for (int again = 0; again < 2; ++again) {
    const auto spans = trace.spans();
    ASSERT_EQ(spans.size(), 2u);  // and the step itself
    const Trace::Span& copy = spans[spans[0].lane == Lane::copy ? 0 : 1];
    EXPECT_EQ(copy.name, "h.3");
    EXPECT_EQ(copy.start, 10);
    EXPECT_EQ(copy.end, 25);
    EXPECT_EQ(copy.bytes, 4096);
  }
  EXPECT_EQ(start->asked, 1);
}

TEST(TraceTest, WhatIsHeardOfLateBelongsToTheStepThatBeganBeforeIt) {
  Trace trace(1, 2);
  trace.begin_step(1);
  trace.add(Lane::compute, "forward", 100, 200);
  trace.begin_step(2);
  trace.add(Lane::compute, "forward", 300, 400);
  trace.end_step();
  trace.add_late(Lane::all_gather, "of step 2", 310, 320);
  trace.add_late(Lane::all_gather, "of step 1", 250, 310);
  trace.add_late(Lane::all_gather, "of no recorded step", 50, 350);
  std::map<std::string, std::int64_t> steps;
  for (const Trace::Span& span : trace.spans())
    if (span.lane == Lane::all_gather) steps[span.name] = span.step;
  EXPECT_EQ(steps, (std::map<std::string, std::int64_t>{{"of step 1", 1}, {"of step 2", 2}}));
}

TEST(TraceTest, AStepThatIsTakenIsForgottenUnlessItWasWantedAnyway) {
  Trace trace(2, 2);
  for (int step = 1; step <= 3; ++step) {
    trace.begin_step(step, /*also=*/true);
    trace.add(Lane::compute, "work", 100 * step, 100 * step + 50);
  }
  trace.end_step();
  trace.add_late(Lane::all_gather, "of step 3", 310, 320);
  EXPECT_EQ(trace.take(3).size(), 3u);  // with the step itself
  EXPECT_EQ(trace.take(2).size(), 2u);
  EXPECT_EQ(trace.take(3).size(), 0u);
  EXPECT_EQ(trace.take(2).size(), 2u);
  trace.add_late(Lane::all_gather, "of step 3, later", 330, 340);  // not of step 2, though that is the last one kept
  EXPECT_EQ(trace.take(2).size(), 2u);
  EXPECT_EQ(trace.take(1).size(), 2u);
  EXPECT_EQ(trace.spans().size(), 2u);
}

TEST(TraceSummaryTest, CollectivesAreExposedWhereNothingIsComputed) {
  const std::vector<Trace::Span> spans{
      {Lane::host, "step 7", 7, 0, 1000},          {Lane::compute, "a", 7, 100, 200},
      {Lane::compute, "b", 7, 250, 300},  // 50 of nothing before it
      {Lane::optimizer, "o", 7, 400, 410},         {Lane::copy, "c", 7, 0, 2000},
      {Lane::all_gather, "hidden", 7, 110, 190},   {Lane::all_gather, "in the gap", 7, 180, 260},
      {Lane::reduce, "over the end", 7, 290, 350}, {Lane::all_reduce, "beside it", 7, 340, 405},
      {Lane::all_reduce, "alone", 8, 500, 530},
  };
  const auto times = step_times(spans);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].step, 7);
  EXPECT_DOUBLE_EQ(times[0].length, 310);  // 100 … 410
  EXPECT_DOUBLE_EQ(times[0].compute, 100 + 50 + 10);
  EXPECT_DOUBLE_EQ(times[0].optimizer, 10);
  EXPECT_DOUBLE_EQ(times[0].collectives, 150 + 115);  // 110 … 260, 290 … 405
  EXPECT_DOUBLE_EQ(times[0].exposed, 50 + 100);       // 200 … 250, 300 … 400
  EXPECT_DOUBLE_EQ(times[1].exposed, 30);
  EXPECT_DOUBLE_EQ(times[1].compute, 0);
  EXPECT_EQ(text_of({times[0]}),
            "exposed communication 0.1 ms of a step's 0.3 ms (48.4 %): compute 0.2 ms, collectives 0.3 ms; means of 1 "
            "steps");
}

Json parsed(const std::vector<Trace::Span>& spans, int rank, double shift) {
  return Json::parse(trace_document({trace_events(spans, rank, "rank \"x\"", shift)})).at("traceEvents");
}

TEST(TraceJsonTest, NamesAreEscapedAndTimesShifted) {
  const std::string hostile = "h.\"3\"\\\n\t\x01 ü \xff";
  const Json events = parsed({{Lane::copy, hostile, 5, 10.5, 12.25, 64}}, 3, 100);
  int complete = 0;
  for (const Json& event : events) {
    EXPECT_EQ(event.at("pid"), 3);
    if (event.at("ph") != "X") continue;
    ++complete;
    EXPECT_EQ(event.at("name"), "h.\"3\"\\\n\t\x01 ü \xef\xbf\xbd");  // what is no UTF-8 is replaced
    EXPECT_DOUBLE_EQ(event.at("ts"), 110.5);
    EXPECT_DOUBLE_EQ(event.at("dur"), 1.75);
    EXPECT_EQ(event.at("args").at("bytes"), 64);
    EXPECT_EQ(event.at("args").at("step"), 5);
  }
  EXPECT_EQ(complete, 1);
}

TEST(TraceJsonTest, SpansOfARowFollowEachOtherOrNest) {
  const Json events = parsed({{Lane::host, "step", 1, 0, 100},
                              {Lane::host, "run", 1, 0, 60},
                              {Lane::all_gather, "first", 1, 0, 50},
                              {Lane::all_gather, "overlaps it", 1, 40, 80},
                              {Lane::all_gather, "follows the first", 1, 50, 60}},
                             0, 0);
  std::map<std::string, int> row;
  std::map<int, std::string> names;
  for (const Json& event : events) {
    if (event.at("ph") == "X") row[event.at("name")] = event.at("tid");
    if (event.at("name") == "thread_name") names[event.at("tid")] = event.at("args").at("name");
  }
  EXPECT_EQ(row["step"], row["run"]);
  EXPECT_EQ(row["first"], row["follows the first"]);
  EXPECT_NE(row["first"], row["overlaps it"]);
  EXPECT_EQ(names[row["run"]], "host");
  EXPECT_EQ(names[row["first"]], "all-gather");
  EXPECT_EQ(names[row["overlaps it"]], "all-gather 2");
}

TEST(TraceJsonTest, ADocumentHoldsTheRanksThatHaveEvents) {
  const std::vector<Trace::Span> spans{{Lane::compute, "forward", 1, 0, 1}};
  const Json document =
      Json::parse(trace_document({trace_events(spans, 0, "a", 0), "", trace_events(spans, 2, "b", 0)}));
  std::set<int> ranks;
  for (const Json& event : document.at("traceEvents")) ranks.insert(event.at("pid").get<int>());
  EXPECT_EQ(ranks, (std::set<int>{0, 2}));
  EXPECT_TRUE(Json::parse(trace_document({"", ""})).at("traceEvents").empty());
}

}  // namespace
}  // namespace shoal
