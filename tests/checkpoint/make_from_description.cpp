// make_from_description DIR DESCRIPTION: writes a checkpoint of what a script describes, for scripts that know what
// they put in. DESCRIPTION is a JSON file
//   {"step": 7, "ranks": 3, "training_state": {…}, "aliases": [[ALIAS, NAME], …],
//    "tensors": [{"name": "model/…", "dtype": …, "shape": […], "unit": …, "offset": …}, …]}
// beside which DESCRIPTION.bin has the elements, those of a tensor from byte `offset` on. Prints the checkpoint's path.
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/sample_state.h"
#include "core/file_io.h"

namespace {

using nlohmann::json;
using namespace shoal;

StateDict state_of(const json& described, const std::string& elements, int rank, int ranks) {
  std::vector<testing::SampleTensor> tensors;
  for (const json& tensor : described.at("tensors"))
    tensors.push_back({tensor.at("name"), dtype_from_name(tensor.at("dtype").get<std::string>()), tensor.at("shape"),
                       tensor.at("unit")});
  StateDict state = testing::blank_state(tensors, rank, ranks);
  state.aliases = described.at("aliases").get<std::vector<std::pair<std::string, std::string>>>();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Region& region = state.tensors[i].region;
    const std::int64_t element = size_of(tensors[i].dtype);
    const std::int64_t from = described["tensors"][i].at("offset").get<std::int64_t>() + region.begin * element;
    if (region.count > 0)
      std::memcpy(region.data, elements.data() + from, static_cast<std::size_t>(region.count * element));
  }
  return state;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    const std::string description = argv[2];
    const json described = json::parse(read_text_file(description));
    const std::string elements = read_text_file(description + ".bin");
    const int ranks = described.at("ranks");
    const auto path = testing::write_states(
        argv[1], described.at("step"), ranks, [&](int rank) { return state_of(described, elements, rank, ranks); },
        described.at("training_state").dump());
    std::puts(path.c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_from_description: %s\n", error.what());
    return 1;
  }
}
