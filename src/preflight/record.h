// What a check of the preflight found: one record a rank (or host), and the check as a whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/exit_code.h"

namespace shoal::preflight {

enum class Verdict { ok, skipped, warn, fail };  // in the order of weight

const char* name_of(Verdict verdict);  // "ok", "skip", "warn", "fail"

struct Record {
  std::string host;
  int rank = 0;
  Verdict verdict = Verdict::ok;
  std::optional<double> value;  // what was measured, in `unit`
  std::string unit;
  std::string found;   // in words, one line
  std::string advice;  // how to mend it; empty where nothing is to do
  // The program's exit code where this is the worst failure.
  ExitCode code = ExitCode::internal;
};

struct CheckResult {
  std::string name;     // "fs.write"
  std::string summary;  // of all ranks, one line: what the table shows
  std::vector<Record> records;
};

Verdict worst_of(const CheckResult& check);

std::string to_text(const std::vector<Record>& records);     // JSON, for another rank
std::vector<Record> parse_records(const std::string& text);  // InternalError for what to_text() did not write

// "0.9 … 1.3 GB/s, median 1.1" of the records that have a value; "" where none has.
std::string range_of(const std::vector<Record>& records);

double median_of(std::vector<double> values);  // NaN of none

}  // namespace shoal::preflight
