#include "formats/pickle_reader.h"

#include "formats/pickle.h"
#include "formats/text_source.h"

namespace shoal::formats {
namespace {

using Kind = PickleNode::Kind;
using namespace std::string_literals;

Pickle read(const std::string& bytes) {
  return read_pickle(bytes, "FILE", [](std::string_view global) { return global == "good.thing"; });
}
std::string error_of(const std::string& bytes) {
  return checkpoint_error([&] { read(bytes); });
}
std::int64_t integer_of(const std::string& bytes) { return read(bytes).nodes.at(0).integer; }

TEST(PickleReader, Numbers) {
  EXPECT_EQ(integer_of("\x80\x02K\xff."), 255);
  EXPECT_EQ(integer_of("M\xfe\xff."), 65534);
  EXPECT_EQ(integer_of("J\xfe\xff\xff\xff."), -2);
  EXPECT_EQ(integer_of(std::string("\x8a\x00.", 3)), 0);
  EXPECT_EQ(integer_of("\x8a\x01\xff."), -1);
  EXPECT_EQ(integer_of(std::string("\x8a\x05\x00\x00\x00\x00\x02.", 8)), std::int64_t{1} << 33);
  const Pickle real = read(std::string("G\x3f\xf8\x00\x00\x00\x00\x00\x00.", 10));
  EXPECT_EQ(real.at(real.root).real, 1.5);
}

// What our own writer writes, with calls and persistent ids as nodes that nobody ran.
TEST(PickleReader, ATreeOfCalls) {
  PickleWriter writer;
  writer.global("good", "thing");
  writer.empty_tuple();
  writer.reduce();
  writer.mark();
  writer.string("key");
  writer.integers({1, std::int64_t{1} << 40});
  writer.string("id");
  writer.string("x");
  writer.persistent_id();
  writer.set_items();
  const Pickle pickle = read(writer.finish());
  const PickleNode& root = pickle.at(pickle.root);
  ASSERT_EQ(root.kind, Kind::call);
  EXPECT_EQ(pickle.at(root.items[0]).text, "good.thing");
  ASSERT_EQ(root.entries.size(), 2u);
  EXPECT_EQ(pickle.at(root.entries[0].first).text, "key");
  EXPECT_EQ(pickle.at(pickle.at(root.entries[0].second).items[1]).integer, std::int64_t{1} << 40);
  EXPECT_EQ(pickle.at(root.entries[1].second).kind, Kind::persistent);
}

// Objects of classes, sets and bytes, as newer protocols write them: nodes, and nobody's code.
TEST(PickleReader, ObjectsSetsAndBytes) {
  const Pickle object = read(
      "\x80\x04"
      "cgood\nthing\n)\x81}X\1\0\0\0aK\7sb."s);
  const PickleNode& root = object.at(object.root);
  ASSERT_TRUE(root.kind == Kind::call && root.state.has_value());
  EXPECT_EQ(object.at(root.items[0]).text, "good.thing");
  EXPECT_EQ(object.at(object.at(*root.state).entries.at(0).second).integer, 7);
  const Pickle named = read("cgood\nthing\n)}\x92."s);
  EXPECT_EQ(named.at(named.root).kind, Kind::call);
  const Pickle set = read("\x8f(K\1K\2\x90."s);
  EXPECT_EQ(set.at(set.root).items.size(), 2u);
  const Pickle bytes = read("C\3a\0b."s);
  EXPECT_EQ(bytes.at(bytes.root).text, "a\0b"s);
  EXPECT_CONTAINS(error_of("]}b."), "what is no object");
}

// Protocol 4's opcodes, a shared list, and a dictionary that holds itself.
TEST(PickleReader, SharedAndCircular) {
  const Pickle shared = read(std::string("\x80\x04\x95\0\0\0\0\0\0\0\0]\x94(K\1K\2eh\0\x86.", 23));
  const PickleNode& pair = shared.at(shared.root);
  EXPECT_EQ(pair.items[0], pair.items[1]);
  EXPECT_EQ(shared.at(pair.items[0]).items.size(), 2u);
  const Pickle circle = read(std::string("}q\0X\1\0\0\0ah\0s.", 13));
  EXPECT_EQ(circle.at(circle.root).entries[0].second, circle.root);
}

TEST(PickleReader, OtherGlobalsAreRefusedByName) {
  EXPECT_CONTAINS(error_of("cos\nsystem\n(X\2\0\0\0lstR."), "'os.system'");
  EXPECT_CONTAINS(error_of("\x8c\2os\x8c\6system\x93."), "'os.system'");
  EXPECT_CONTAINS(error_of("cgood\nthing\nextra\n."), "damaged");
}

TEST(PickleReader, Damage) {
  for (const char* bytes : {"",
                            "N",
                            "\x80\x02",
                            ".",
                            "t.",
                            "(N",
                            "Nt.",
                            "a.",
                            "Na.",
                            "NNa.",
                            "Ns.",
                            "NNNs.",
                            "(Nu.",
                            "}(Nu.",
                            "h\7.",
                            "q\1.",
                            "R.",
                            "NNR.",
                            "Q.",
                            "b.",
                            "Nb.",
                            "NNb.",
                            "X\xff\xff\xff\xff.",
                            "cgood",
                            "cgood\nthing",
                            "\x80\x7f.",
                            "\x8a\x09"
                            "123456789.",
                            "i",
                            "\x93.",
                            "NN\x93.",
                            "N(.",
                            "(.",
                            "(N(\x85."})
    EXPECT_THROW(read(bytes), CheckpointError) << bytes;
}

}  // namespace
}  // namespace shoal::formats
