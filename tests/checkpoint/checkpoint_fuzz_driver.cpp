// checkpoint_fuzz [ROUNDS [SEED]]: gives LLVMFuzzerTestOneInput inputs that are grown from sound ones by small changes,
// the same ones for the same seed. Prints how many of them it tried.
// checkpoint_fuzz --corpus FOLDER: writes the sound ones there instead, for libFuzzer.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <random>

#include "checkpoint/checkpoint_fuzz.h"

namespace {

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  // Never the first byte, which is the kind.
  void change(std::string& text) {
    static constexpr const char* kPieces[] = {
        "1152921504606846976", "-1", "[", "{", "\"", "null", "1e999", "0", "9223372036854775807", "[[[[[[[[", "\\ud800",
        "18446744073709551615"};
    const std::size_t at = 1 + below(text.size());
    switch (below(6)) {
      case 0: text.insert(at, kPieces[below(std::size(kPieces))]); break;
      case 1: text.erase(at, 1 + below(8)); break;
      case 2: text.resize(at); break;
      case 3: text.insert(at, text.substr(at, below(200))); break;
      case 4: replace_number(text, at); break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
    }
  }

  // Of a text the next number; of other bytes eight of them.
  void replace_number(std::string& text, std::size_t at) {
    const std::size_t begin = text.find_first_of("0123456789", at);
    if (text[0] == 'm' && begin != std::string::npos) {
      const std::size_t end = text.find_first_not_of("0123456789", begin);
      text.replace(begin, end - begin, kNumbers[below(std::size(kNumbers))]);
    } else if (at + 8 < text.size()) {
      const std::uint64_t number = std::uint64_t{1} << below(64);
      std::memcpy(text.data() + at, &number, sizeof number);
    }
  }

  static constexpr const char* kNumbers[] = {"0",     "-1",        "1", "1152921504606846976", "9223372036854775807",
                                             "1e308", "4294967296"};
  std::vector<std::string> seeds_ = fuzz_seeds();
  std::mt19937 random_;
};

int write_corpus(const std::string& folder) {
  std::size_t number = 0;
  for (const std::string& seed : fuzz_seeds()) {
    std::ofstream file(folder + "/" + seed[0] + std::to_string(number++), std::ios::binary);
    file << seed;
    if (!file.flush()) return 1;
  }
  return 0;
}

}  // namespace

// Larger than all that these inputs can hold: whoever asks for more believed a number in them.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  constexpr std::size_t kMost = 256 << 20;
  if (bytes > kMost) {
    std::fputs("memory for what is only claimed\n", stderr);
    std::abort();
  }
  return std::malloc(bytes > 0 ? bytes : 1);
}
void* operator new(std::size_t bytes) {
  if (void* memory = ::operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--corpus") return write_corpus(argv[2]);
  const long rounds = argc > 1 ? std::atol(argv[1]) : 10000;
  Mutator mutator(argc > 2 ? static_cast<unsigned>(std::atol(argv[2])) : 1);
  for (long round = 0; round < rounds; ++round) {
    const std::string text = mutator.next();
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::printf("%ld inputs\n", rounds);
  return rounds > 0 ? 0 : 1;
}
