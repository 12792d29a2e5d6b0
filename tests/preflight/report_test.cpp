#include "preflight/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace shoal::preflight {
namespace {

Record on(const std::string& host, int rank, Verdict verdict, ExitCode code = ExitCode::io) {
  return {.host = host, .rank = rank, .verdict = verdict, .found = "it", .advice = "mend it", .code = code};
}

const std::vector<std::string> kHosts{"n1", "n1", "n2", "n2", "n3", "n3"};

Report report_of(std::vector<CheckResult> checks) {
  return {.checks = std::move(checks), .hosts = kHosts, .seconds = 2};
}

TEST(Record, TravelsAsText) {
  Record record = on("n1", 3, Verdict::warn, ExitCode::device);
  record.value = 1.25;
  record.unit = "GB/s";
  record.found = "a path \xff that is no UTF-8";
  const auto there = parse_records(to_text({record, {}}));
  ASSERT_EQ(there.size(), 2u);
  EXPECT_EQ(there[0].host, "n1");
  EXPECT_EQ(there[0].rank, 3);
  EXPECT_EQ(there[0].verdict, Verdict::warn);
  EXPECT_EQ(there[0].value, 1.25);
  EXPECT_EQ(there[0].unit, "GB/s");
  EXPECT_EQ(there[0].advice, "mend it");
  EXPECT_EQ(there[0].code, ExitCode::device);
  EXPECT_FALSE(there[1].value);
}

TEST(Record, MedianAndRange) {
  EXPECT_EQ(median_of({3, 1, 2}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
  EXPECT_TRUE(std::isnan(median_of({})));
  EXPECT_EQ(range_of({{.value = 2, .unit = "s"}, {}, {.value = 1, .unit = "s"}, {.value = 4, .unit = "s"}}),
            "1 … 4 s, median 2");
  EXPECT_EQ(range_of({{.value = 2, .unit = "s"}}), "2 s");
  EXPECT_EQ(range_of({{}}), "");
}

TEST(Report, TheWorstRecordIsTheCheck) {
  EXPECT_EQ(worst_of({"a", "", {on("n1", 0, Verdict::ok), on("n2", 2, Verdict::warn)}}), Verdict::warn);
  EXPECT_EQ(worst_of({"a", "", {on("n1", 0, Verdict::fail), on("n2", 2, Verdict::warn)}}), Verdict::fail);
  EXPECT_EQ(worst_of({"a", "", {on("n1", 0, Verdict::ok), on("n2", 2, Verdict::skipped)}}), Verdict::ok);
  EXPECT_EQ(worst_of({"a", "", {on("n1", 0, Verdict::skipped)}}), Verdict::skipped);
  EXPECT_EQ(worst_of({"a", "", {}}), Verdict::skipped);
}

TEST(Report, BlamesHostsThatFailWhatOthersPass) {
  const CheckResult on_n2{"a", "", {on("n1", 0, Verdict::ok), on("n2", 2, Verdict::fail), on("n2", 3, Verdict::ok)}};
  EXPECT_EQ(bad_hosts(report_of({on_n2})), std::vector<std::string>{"n2"});
  const CheckResult everywhere{"a", "", {on("n1", 0, Verdict::fail), on("n2", 2, Verdict::fail)}};
  EXPECT_TRUE(bad_hosts(report_of({everywhere})).empty()) << "a full disk is no host's fault";
  const CheckResult most{"a", "", {on("n1", 0, Verdict::ok), on("n2", 2, Verdict::fail), on("n3", 4, Verdict::fail)}};
  EXPECT_TRUE(bad_hosts(report_of({most})).empty()) << "then it is rather n1 that is special";
  const CheckResult half{"a", "", {on("n1", 0, Verdict::ok), on("n2", 2, Verdict::fail)}};
  EXPECT_EQ(bad_hosts(report_of({half})), std::vector<std::string>{"n2"});
  const CheckResult warned{"a", "", {on("n1", 0, Verdict::ok), on("n2", 2, Verdict::warn)}};
  EXPECT_TRUE(bad_hosts(report_of({warned})).empty());
  const CheckResult on_n3{"b", "", {on("n3", 4, Verdict::fail), on("n1", 0, Verdict::ok)}};
  EXPECT_EQ(bad_hosts(report_of({on_n3, on_n2, everywhere})), (std::vector<std::string>{"n2", "n3"}));
}

TEST(Report, TheExitCodeIsOfTheWorstFailure) {
  const auto failed = [](ExitCode code) { return CheckResult{"a", "", {on("n1", 0, Verdict::fail, code)}}; };
  EXPECT_EQ(exit_code_of(report_of({})), ExitCode::ok);
  EXPECT_EQ(exit_code_of(report_of({{"a", "", {on("n1", 0, Verdict::warn)}}})), ExitCode::ok);
  EXPECT_EQ(exit_code_of(report_of({failed(ExitCode::usage)})), ExitCode::usage);
  EXPECT_EQ(exit_code_of(report_of({failed(ExitCode::usage), failed(ExitCode::io)})), ExitCode::io);
  EXPECT_EQ(exit_code_of(report_of({failed(ExitCode::io), failed(ExitCode::device)})), ExitCode::device);
  EXPECT_EQ(exit_code_of(report_of({failed(ExitCode::device), failed(ExitCode::communication), failed(ExitCode::io)})),
            ExitCode::communication);
}

TEST(Report, TableHasALineACheckAndOneAFinding) {
  const CheckResult well{"links", "all fast", {on("n1", 0, Verdict::ok)}};
  const CheckResult ill{"fs.write",
                        "slow",
                        {on("n1", 0, Verdict::ok), on("n2", 2, Verdict::fail), on("n2", 3, Verdict::fail),
                         on("n3", 5, Verdict::fail), on("n4", 6, Verdict::ok)}};
  EXPECT_EQ(table_of(report_of({well, ill})),
            "check                    found\n"
            "links              ok    all fast\n"
            "fs.write           fail  slow\n"
            "    fail n[2-3] (ranks 2-3,5): it: mend it\n"
            "\n"
            "preflight of 6 ranks on 3 hosts in 2.0 s: 2 checks, 1 failed, 0 with warnings, 0 skipped\n"
            "bad hosts: sbatch --exclude=n[2-3]");
}

TEST(Report, JsonSaysTheSame) {
  Record measured = on("n2", 2, Verdict::fail, ExitCode::communication);
  measured.value = 0.5;
  measured.unit = "GB/s";
  const auto json =
      nlohmann::json::parse(json_of(report_of({{"links", "slow", {on("n1", 0, Verdict::ok), measured}}})));
  EXPECT_EQ(json["ranks"], 6);
  EXPECT_EQ(json["hosts"], 3);
  EXPECT_EQ(json["exit_code"], 6);
  EXPECT_EQ(json["exclude"], "n2");
  EXPECT_EQ(json["bad_hosts"], nlohmann::json::array({"n2"}));
  const auto& check = json["checks"][0];
  EXPECT_EQ(check["check"], "links");
  EXPECT_EQ(check["verdict"], "fail");
  EXPECT_EQ(check["records"][1]["value"], 0.5);
  EXPECT_EQ(check["records"][1]["unit"], "GB/s");
  EXPECT_FALSE(check["records"][0].contains("value"));
}

}  // namespace
}  // namespace shoal::preflight
