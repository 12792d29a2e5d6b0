// hostlist_fuzz_driver [ROUNDS [SEED]]: gives LLVMFuzzerTestOneInput texts that are grown from good and bad ones by
// small changes, the same ones for the same seed. Prints how many of them it tried.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string next() {
    std::string text = any_seed();
    for (std::size_t changes = 1 + below(6); changes > 0; --changes) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  std::string any_seed() {
    static constexpr const char* kSeeds[] = {"",
                                             "host",
                                             "a,b,c",
                                             "n[08,10-12]",
                                             "a[9-10]",
                                             "d05-[41-42]",
                                             "r[1-2]n[3-4]",
                                             "node[1-2]-ib",
                                             "x[000-002]y[1,3]z",
                                             "nodeA,nodeB[001,003],nodeC",
                                             "n[3-1]",
                                             "n[1",
                                             "n[]",
                                             "n[1--2]",
                                             "n[0-999999999].b[0-9]",
                                             "bgl[000x133]",
                                             "4(x2),3",
                                             "2(x3),1",
                                             "4(x)",
                                             "(x2)",
                                             "4x2",
                                             "1(x262144)"};
    return kSeeds[below(std::size(kSeeds))];
  }

  void change(std::string& text) {
    static const std::string kLetters =
        "[],-()x0123456789 \tn.\0\xff"
        "\n";
    const std::size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0: text.insert(at, 1, kLetters[below(kLetters.size())]); break;
      case 1: text.erase(at, 1 + below(3)); break;
      case 2: text.insert(at, any_seed()); break;
      case 3: text.insert(at, text.substr(0, below(40))); break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
    }
  }

  std::mt19937 random_;
};

}  // namespace

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::atol(argv[1]) : 100000;
  Mutator mutator(argc > 2 ? static_cast<unsigned>(std::atol(argv[2])) : 1);
  for (long round = 0; round < rounds; ++round) {
    const std::string text = mutator.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::printf("%ld texts\n", rounds);
  return rounds > 0 ? 0 : 1;
}
