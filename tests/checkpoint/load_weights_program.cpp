// load_weights_program MODEL SOURCE RANKS OUTPUT [rank0]: loads initial weights as a job of RANKS ranks does (threads)
// and writes the tensors' bytes one after the other to OUTPUT, for scripts to look at. Prints what the report says.
//
// MODEL is a text, a line a tensor: "NAME DTYPE EXTENT…", or "NAME = OTHER" for a tied name.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <sstream>

#include "checkpoint/weights_samples.h"

namespace {

struct Model {
  std::vector<shoal::TensorSpec> tensors;
  std::vector<std::pair<std::string, std::string>> aliases;
};

Model read_model(const char* path) {
  Model model;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name, type;
    words >> name >> type;
    if (type == "=") {
      words >> model.aliases.emplace_back(name, "").second;
      continue;
    }
    shoal::TensorSpec& spec = model.tensors.emplace_back(shoal::TensorSpec{name, shoal::dtype_from_name(type), {}});
    for (std::int64_t extent = 0; words >> extent;) spec.shape.push_back(extent);
  }
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  try {
    const Model model = read_model(argv[1]);
    const auto loaded =
        shoal::testing::load_on_ranks(argv[2], model.tensors, std::atoi(argv[3]), argc > 5, model.aliases);
    std::ofstream output(argv[4], std::ios::binary);
    for (const std::string& bytes : loaded.tensors)
      output.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    std::puts(loaded.report.text().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
