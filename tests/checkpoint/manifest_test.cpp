#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/commit_record.h"
#include "core/error.h"

namespace shoal::checkpoint {
namespace {

constexpr const char* kId = "0123456789abcdef";

Manifest sample() {
  Manifest manifest;
  manifest.id = kId;
  manifest.sequence = 12;
  manifest.step = 1000;
  manifest.ranks = 2;
  manifest.created = "2026-01-02T03:04:05Z";
  manifest.libraries = {{"hdf5", "1.10.8"}, {"shoal", "0.1.0"}};
  manifest.tensors = {{{"model/w", DType::bfloat16, {3, 4}}, {"root", 5, 9}}, {{"model/s", DType::int64, {}}, {}}};
  manifest.aliases = {{"model/tied", "model/w"}};
  manifest.files = {{"shards/0123456789abcdef_rank_00000.h5", 4096, 2, 0xFFFFFFFFu},
                    {"shards/0123456789abcdef_rank_00001.h5", 2048, 0, 0}};
  manifest.training_state = R"({"z":1,"a":{"seed":18446744073709551615,"lr":0.1}})";
  return manifest;
}

// The message of the CheckpointError that parsing a changed manifest gives.
std::string complaint(const std::function<void(nlohmann::json&)>& change) {
  auto json = nlohmann::json::parse(format_manifest(sample()));
  change(json);
  try {
    parse_manifest(json.dump(), "DIR/manifest.json");
  } catch (const CheckpointError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("DIR/manifest.json", 0), 0u) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(Manifest, SurvivesTheFile) {
  const Manifest before = sample();
  const Manifest after = parse_manifest(format_manifest(before), "test");
  EXPECT_EQ(format_manifest(after), format_manifest(before));
  EXPECT_EQ(after.id, before.id);
  EXPECT_EQ(after.sequence, 12);
  EXPECT_EQ(after.tensors[0].spec, before.tensors[0].spec);
  EXPECT_EQ(after.tensors[0].rule, before.tensors[0].rule);
  EXPECT_TRUE(after.tensors[1].spec.shape.empty());
  EXPECT_TRUE(after.tensors[1].rule.unit.empty());
  EXPECT_EQ(after.aliases, before.aliases);
  EXPECT_EQ(after.files[0].table_crc, 0xFFFFFFFFu);
  EXPECT_EQ(after.training_state, before.training_state);
  EXPECT_EQ(after.tensor_bytes(), 3 * 4 * 2 + 8);
}

// Numbers in a damaged file that are taken for a size would take the memory of the machine.
TEST(Manifest, ClaimsOfImpossibleSizes) {
  static constexpr std::int64_t kHuge = std::int64_t{1} << 60;
  EXPECT_NE(complaint([](auto& json) {
              json["tensors"][0]["shape"] = {kHuge, 8};
            }).find("impossible shape"),
            std::string::npos);
  // One of them alone can be counted in bytes, all of them cannot.
  EXPECT_NE(complaint([](auto& json) {
              json["tensors"][0]["shape"] = {kHuge};
              for (const char* name : {"model/x", "model/y", "model/z"}) {
                json["tensors"].push_back(json["tensors"][0]);
                json["tensors"].back()["name"] = name;
              }
            }).find("the tensors up to 'model/z' have an impossible size"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& json) { json["files"][1]["regions"] = kHuge; }).find("too few for a table of"),
            std::string::npos);
  EXPECT_NE(complaint([](auto& json) { json["files"][1]["bytes"] = -1; }).find("negative size"), std::string::npos);
}

TEST(Manifest, DeeplyNestedText) {
  std::string text = format_manifest(sample());
  const std::size_t at = text.find("\"lr\"");
  ASSERT_NE(at, std::string::npos);
  text.insert(at, "\"deep\": " + std::string(1'000'000, '[') + std::string(1'000'000, ']') + ", ");
  EXPECT_THROW(parse_manifest(text, "test"), CheckpointError);
}

TEST(Manifest, NewerVersionIsNamed) {
  EXPECT_NE(complaint([](auto& json) { json["version"] = 2; }).find("update Shoal"), std::string::npos);
}

TEST(Manifest, WrongContentsAreRefused) {
  EXPECT_NE(complaint([](auto& json) { json["format"] = "other"; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json.erase("tensors"); }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["ranks"] = "two"; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["ranks"] = 3; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["checkpoint"] = "../../etc"; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["files"][0]["name"] = "../x.h5"; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["files"][1]["bytes"] = -1; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["tensors"][0]["dtype"] = "float8"; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["tensors"][0]["name"] = "w"; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["tensors"][0]["shape"] = {3, -4}; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["tensors"][0]["shape"] = {1ll << 40, 1ll << 40}; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["tensors"][1]["name"] = "model/w"; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["aliases"][0][1] = "model/none"; }), "accepted");
  EXPECT_NE(complaint([](auto& json) { json["aliases"][0][0] = "model/s"; }), "accepted");
  EXPECT_THROW(parse_manifest("", "x"), CheckpointError);
  EXPECT_THROW(parse_manifest("[]", "x"), CheckpointError);
  EXPECT_THROW(parse_manifest("{\"format\"", "x"), CheckpointError);
}

TEST(Manifest, TrainingStateMustBeAnObject) {
  Manifest manifest = sample();
  for (const char* text : {"", "3", "[1]", "{"}) {
    manifest.training_state = text;
    EXPECT_THROW(format_manifest(manifest), InternalError) << text;
  }
}

TEST(CommitRecord, SurvivesTheFile) {
  const CommitRecord record{kId, 12, 345, 0xDEADBEEF};
  const std::string text = format_commit(record);
  EXPECT_EQ(text,
            "shoal-checkpoint 1\ncheckpoint 0123456789abcdef\nsequence 12\nmanifest_bytes 345\n"
            "manifest_crc32c deadbeef\n");
  const CommitRecord parsed = parse_commit(text, "COMMIT");
  EXPECT_EQ(parsed.id, kId);
  EXPECT_EQ(parsed.sequence, 12);
  EXPECT_EQ(parsed.manifest_bytes, 345);
  EXPECT_EQ(parsed.manifest_crc, 0xDEADBEEFu);
}

TEST(CommitRecord, AnythingElseIsRefused) {
  const std::string text = format_commit({kId, 12, 345, 0xDEADBEEF});
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_THROW(parse_commit(text.substr(0, length), "COMMIT"), CheckpointError) << length;
  EXPECT_THROW(parse_commit(text + "\n", "COMMIT"), CheckpointError);
  EXPECT_THROW(parse_commit("shoal-checkpoint 2\nsomething new\n", "COMMIT"), CheckpointError);
}

}  // namespace
}  // namespace shoal::checkpoint
