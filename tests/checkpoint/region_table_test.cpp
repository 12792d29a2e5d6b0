#include "checkpoint/region_table.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace shoal::checkpoint {
namespace {

Manifest two_tensors() {
  Manifest manifest;
  manifest.tensors = {{{"model/a", DType::float32, {10}}, {}},
                      {{"model/empty", DType::float32, {0}}, {}},
                      {{"model/b", DType::float32, {3}}, {}}};
  manifest.files = {{"first", 0, 0, 0}, {"second", 0, 0, 0}};
  return manifest;
}

std::string complaint(const std::vector<RegionTable>& tables) {
  try {
    for (const RegionTable& table : tables) check_rows(table, two_tensors(), "CKPT");
    check_coverage(tables, two_tensors(), "CKPT");
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RegionTable, WholeCoverageIsAccepted) {
  EXPECT_EQ(complaint({{{0, 0, 4, 0}, {2, 1, 2, 0}}, {{0, 4, 6, 0}, {2, 0, 1, 0}}}), "accepted");
  EXPECT_EQ(complaint({{{0, 4, 6, 0}, {0, 0, 4, 0}, {2, 0, 3, 0}}, {}}), "accepted");
}

TEST(RegionTable, HolesAreNamed) {
  EXPECT_EQ(complaint({{{0, 0, 4, 0}}, {{0, 5, 5, 0}, {2, 0, 3, 0}}}),
            "CKPT: elements 4 to 4 of tensor 'model/a' are in none of its files");
  EXPECT_EQ(complaint({{{0, 0, 4, 0}}, {{2, 0, 3, 0}}}),
            "CKPT: elements 4 to 9 of tensor 'model/a' are in none of its files");
  EXPECT_EQ(complaint({{{0, 0, 10, 0}}, {{2, 1, 2, 0}}}),
            "CKPT: elements 0 to 0 of tensor 'model/b' are in none of its files");
  EXPECT_EQ(complaint({{{0, 0, 10, 0}}, {}}), "CKPT: elements 0 to 2 of tensor 'model/b' are in none of its files");
}

TEST(RegionTable, OverlapsAreNamed) {
  EXPECT_EQ(complaint({{{0, 0, 5, 0}}, {{0, 4, 6, 0}, {2, 0, 3, 0}}}),
            "CKPT: element 4 of tensor 'model/a' is in second and elsewhere too");
  EXPECT_EQ(
      complaint({{{0, 0, 10, 0}, {2, 0, 3, 0}}, {{2, 0, 3, 0}}}).find("CKPT: element 0 of tensor 'model/b' is in"), 0u);
}

TEST(RegionTable, ImpossibleRowsAreRefused) {
  EXPECT_NE(complaint({{{3, 0, 1, 0}}}), "accepted");
  EXPECT_NE(complaint({{{0, 0, 0, 0}}}), "accepted");
  EXPECT_NE(complaint({{{0, 0, 11, 0}}}), "accepted");
  EXPECT_NE(complaint({{{0, 10, 1, 0}}}), "accepted");
  EXPECT_NE(complaint({{{0, 5, ~0ull, 0}}}), "accepted");
  EXPECT_NE(complaint({{{1, 0, 1, 0}}}), "accepted");
  EXPECT_NE(complaint({{{2, 0, 3, 0}, {0, 0, 10, 0}}, {}}), "accepted");
}

TEST(RegionTable, BytesAreTheRows) {
  const RegionTable table{{1, 2, 3, 4}, {5, 6, 7, 8}};
  EXPECT_EQ(table_bytes(table).size(), 64u);
  EXPECT_EQ(table_bytes(table)[8], 2);
  EXPECT_EQ(table_from_bytes(table_bytes(table)), table);
  EXPECT_TRUE(table_from_bytes("").empty());
}

}  // namespace
}  // namespace shoal::checkpoint
