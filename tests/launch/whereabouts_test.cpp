#include "launch/whereabouts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "core/error.h"
#include "core/file_io.h"
#include "launch/node_report.h"

namespace shoal::launch {
namespace {

using activity::Operation;
using State = Whereabouts::State;

Whereabouts at(int rank, const std::string& host, Operation operation, int unit = -1, const std::string& name = "",
               State state = State::runs) {
  Whereabouts w{.rank = rank, .host = host, .state = state};
  w.at.rank = rank;
  w.at.operation = operation;
  w.at.unit = unit;
  w.at.unit_name = name;
  w.at.step = 12;
  return w;
}

TEST(Whereabouts, TheOddOneIsNamedFirstAndTheOthersAreOneClause) {
  const std::vector<Whereabouts> all{at(0, "n1", Operation::backward, 7, "h.6"),
                                     at(1, "n1", Operation::backward, 7, "h.6"), at(3, "n2", Operation::save),
                                     at(2, "n2", Operation::backward, 7, "h.6")};
  EXPECT_EQ(describe(all),
            "rank 3 on host n2 is in checkpoint save of step 12; ranks 0-2 on hosts n[1-2] are in backward of unit 7 "
            "'h.6', step 12");
  ASSERT_NE(suspect(all), nullptr);
  EXPECT_EQ(suspect(all)->rank, 3);
}

TEST(Whereabouts, WhoDoesNotRunComesBeforeSmallerGroups) {
  const std::vector<Whereabouts> all{at(0, "a", Operation::data), at(1, "a", Operation::forward, 0, "", State::stopped),
                                     at(2, "a", Operation::forward, 0, "", State::stopped),
                                     at(3, "b", Operation::start, -1, "", State::unheard)};
  EXPECT_EQ(describe(all),
            "rank 3 on host b is not heard of (is the node down, or its network?); ranks 1-2 on host a are stopped "
            "(SIGSTOP, or a debugger) in forward of unit 0, step 12; rank 0 on host a is in reading data of step 12");
  EXPECT_EQ(suspect(all)->rank, 3);
}

TEST(Whereabouts, WhereAllAreAtOnePlaceOrHalvesAreNobodyStandsOut) {
  std::vector<Whereabouts> all{at(0, "a", Operation::sums), at(1, "a", Operation::sums)};
  EXPECT_EQ(suspect(all), nullptr);
  EXPECT_EQ(describe(all), "ranks 0-1 on host a are in sums of a step of step 12");
  all[1].at.operation = Operation::data;
  EXPECT_EQ(suspect(all), nullptr);
  EXPECT_EQ(suspect({}), nullptr);
}

TEST(Whereabouts, MicroStepsAndStepsTellRanksApart) {
  std::vector<Whereabouts> all{at(0, "a", Operation::forward, 1, "x"), at(1, "a", Operation::forward, 1, "x"),
                               at(2, "a", Operation::forward, 1, "x")};
  all[1].at.micro_step = 2;
  EXPECT_EQ(
      describe(all),
      "rank 1 on host a is in forward of unit 1 'x', step 12, micro-step 2; ranks 0,2 on host a are in forward of "
      "unit 1 'x', step 12");
  all[2].at.unchanged_seconds = 1000;  // how long is no place
  EXPECT_EQ(suspect(all)->rank, 1);
}

TEST(Whereabouts, TheMessageOfManyRanksIsShort) {
  std::vector<Whereabouts> all;
  for (int rank = 0; rank < 4096; ++rank)
    all.push_back(at(rank, "node" + std::to_string(1000 + rank / 8), Operation::backward, rank % 64, "unit"));
  const std::string text = describe(all);
  EXPECT_LT(text.size(), 4000u) << text;
  EXPECT_NE(text.find("and 3584 ranks at 56 other places"), std::string::npos) << text;
}

TEST(NodeReport, GoesThroughTextAndBack) {
  NodeReport report{.time = 1796000000.5, .struck = true};
  report.ranks = {at(0, "n1", Operation::backward, 7, "h.6"), at(1, "n\xff", Operation::save, -1, "", State::stopped)};
  report.ranks[0].at.unchanged_seconds = 612.25;
  report.ranks[0].at.micro_step = 3;
  report.ranks[0].at.process = 4711;
  const NodeReport back = parse_node_report(to_json(report));
  EXPECT_EQ(back.time, report.time);
  EXPECT_TRUE(back.struck);
  ASSERT_EQ(back.ranks.size(), 2u);
  EXPECT_EQ(describe({back.ranks[0]}), describe({report.ranks[0]}));
  EXPECT_EQ(back.ranks[0].at.unchanged_seconds, 612.25);
  EXPECT_EQ(back.ranks[0].at.process, 4711);
  EXPECT_EQ(back.ranks[1].state, State::stopped);
  EXPECT_EQ(back.ranks[1].at.operation, Operation::save);
}

TEST(NodeReport, ForeignTextIsAnError) {
  EXPECT_THROW(parse_node_report(""), IoError);
  EXPECT_THROW(parse_node_report("{}"), IoError);
  EXPECT_THROW(parse_node_report(R"({"time": 1, "struck": false, "ranks": [{"rank": "x"}]})"), IoError);
  NodeReport report;
  report.ranks = {at(0, "n1", Operation::save)};
  std::string text = to_json(report);
  text.replace(text.find("checkpoint save"), 15, "knitting");
  EXPECT_THROW(parse_node_report(text), IoError);
}

TEST(NodeReport, TheLastAttemptIsDescribedByItsOwnReportsAlone) {
  const std::filesystem::path where = std::filesystem::temp_directory_path() / fmt::format("shoal-where-{}", getpid());
  std::filesystem::create_directories(where);
  EXPECT_EQ(last_seen(where, 1), std::nullopt);
  EXPECT_EQ(last_seen(where / "missing", 1), std::nullopt);
  NodeReport report{.time = 1796000000};
  report.ranks = {at(0, "n1", Operation::forward, 1, "a")};
  write_text_file(node_report_file(where, 0, 1), to_json(report));
  report.ranks = {at(1, "n2", Operation::forward, 1, "a")};
  report.time += 5;
  write_text_file(node_report_file(where, 1, 1), to_json(report));
  report.ranks = {at(0, "n9", Operation::save)};
  write_text_file(node_report_file(where, 0, 2), to_json(report));
  write_text_file(node_report_file(where, 3, 1), "half a rep");
  EXPECT_EQ(last_seen(where, 1),
            "last seen at 2026-11-30 00:53:25 UTC: ranks 0-1 on hosts n[1-2] are in forward of unit 1 'a', step 12");
  write_text_file(where / "strike.attempt-000001", "");
  write_text_file(where / "notes of the user", "");
  forget_reports_before(where, 2);
  EXPECT_EQ(last_seen(where, 1), std::nullopt);
  EXPECT_NE(last_seen(where, 2), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(where / "strike.attempt-000001"));
  EXPECT_TRUE(std::filesystem::exists(where / "notes of the user"));
  std::filesystem::remove_all(where);
}

}  // namespace
}  // namespace shoal::launch
