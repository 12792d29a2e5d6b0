#include "checkpoint/file_names.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace shoal::checkpoint {
namespace {

TEST(FileNames, DirectoriesAreBuiltAndParsed) {
  const std::string id = "0123456789abcdef";
  EXPECT_EQ(step_directory_name(1000), "step_00001000");
  EXPECT_EQ(temporary_directory_name(1000, 0, id), "step_00001000.tmp.0123456789abcdef");
  EXPECT_EQ(temporary_directory_name(1000, 3, id), "step_00001000.tmp.000003.0123456789abcdef");
  EXPECT_EQ(displaced_directory_name(1000, id), "step_00001000.old.0123456789abcdef");
  EXPECT_EQ(shard_file_name(id, 3, true), "shards/0123456789abcdef_rank_00003.h5");
  EXPECT_EQ(shard_file_name(id, 3, false), "shards/0123456789abcdef_group_00003.h5");
  for (const std::int64_t step :
       {std::int64_t{0}, std::int64_t{7}, std::int64_t{99999999}, std::int64_t{123456789012}}) {
    EXPECT_EQ(parse_step_directory_name(step_directory_name(step))->step, step);
    EXPECT_EQ(parse_step_directory_name(step_directory_name(step))->kind, DirectoryKind::complete);
    for (const int attempt : {0, 1, 999999, 1234567}) {
      const auto parsed = parse_step_directory_name(temporary_directory_name(step, attempt, id));
      EXPECT_EQ(parsed->kind, DirectoryKind::temporary);
      EXPECT_EQ(parsed->attempt, attempt);
    }
    EXPECT_EQ(parse_step_directory_name(displaced_directory_name(step, id))->kind, DirectoryKind::displaced);
  }
}

TEST(FileNames, WhatTheUserNamedIsNotOurs) {
  for (const char* name : {"", "latest", "step_", "step_1", "step_0000001x", "step_00000001.bak", "step_-0000001",
                           "step_000000001", "step_00000001.tmp.", "step_00000001.tmp.0123", "step_00000001.old.mine",
                           "step_00000001.tmp.3.0123456789abcdef", "step_00000001.tmp.000000.0123456789abcdef",
                           "step_00000001.tmp.000003.", "step_00000001.old.000003.0123456789abcdef", "my_step_00000001",
                           "step_99999999999999999999"})
    EXPECT_FALSE(parse_step_directory_name(name)) << name;
}

TEST(FileNames, AttemptsAreBuiltAndParsed) {
  EXPECT_EQ(attempt_file_name(3, false), "000003");
  EXPECT_EQ(attempt_file_name(3, true), "000003.writer");
  for (const int attempt : {1, 999999, 1234567})
    for (const bool writer : {false, true}) {
      const auto parsed = parse_attempt_file_name(attempt_file_name(attempt, writer));
      ASSERT_TRUE(parsed);
      EXPECT_EQ(parsed->attempt, attempt);
      EXPECT_EQ(parsed->writer, writer);
    }
  for (const char* name : {"", "3", "000000", ".writer", "000003.write", "000003.tmp", "-00003", "0000003"})
    EXPECT_FALSE(parse_attempt_file_name(name)) << name;
}

TEST(FileNames, IdsAreDistinct) {
  EXPECT_TRUE(is_checkpoint_id(make_checkpoint_id()));
  EXPECT_NE(make_checkpoint_id(), make_checkpoint_id());
}

TEST(FileNames, DatasetsOfTensors) {
  EXPECT_EQ(shard_dataset_path("model/fc1.weight"), "/model/fc1.weight");
  EXPECT_EQ(shard_dataset_path("optimizer/exp_avg/fc1.weight"), "/optimizer/exp_avg/fc1.weight");
  EXPECT_EQ(shard_dataset_path("model/a/b%c"), "/model/a%2Fb%25c");
  EXPECT_EQ(shard_dataset_path("optimizer/exp_avg/a/b"), "/optimizer/exp_avg/a%2Fb");
  EXPECT_EQ(shard_dataset_path("model/."), "/model/%2E");
  EXPECT_EQ(consolidated_dataset_path("model/fc1.weight"), "/fc1.weight");
  EXPECT_EQ(consolidated_dataset_path("optimizer/exp_avg/fc1.weight"), "/optimizer/exp_avg/fc1.weight");
  EXPECT_EQ(parameter_name("optimizer/exp_avg/a/b"), "a/b");
}

TEST(FileNames, OtherTensorNamesAreRefused) {
  for (const char* name : {"fc1.weight", "model/", "optimizer/exp_avg", "optimizer/exp_avg/", "models/x"})
    EXPECT_THROW(shard_dataset_path(name), InternalError) << name;
}

}  // namespace
}  // namespace shoal::checkpoint
