// shoal-tokenize: makes token files from text. Needs the files alone: no GPU, no MPI, no LibTorch.
#include <filesystem>
#include <string>
#include <vector>

#include "apps/run_program.h"
#include "apps/tokenize_options.h"
#include "core/check.h"
#include "core/logging.h"
#include "core/timer.h"
#include "data/text_file.h"
#include "data/token_writer.h"
#include "data/tokenizer.h"

namespace shoal::apps {
namespace {

namespace fs = std::filesystem;

// Before hours of work, not after them.
void check_paths(const TokenizeOptions& options) {
  for (const fs::path& path : options.texts) {
    std::error_code error;
    SHOAL_CHECK(fs::is_regular_file(path, error), DataError, "--text {}: {}", path.string(),
                error ? error.message() : "this is no file");
  }
  for (const fs::path& path : options.output.files()) {
    std::error_code ignored;
    SHOAL_CHECK(options.force || !fs::exists(path, ignored), OptionError,
                "{} exists; give --force to replace it, or another --output", path.string());
    for (const fs::path& text : options.texts)
      SHOAL_CHECK(!fs::equivalent(path, text, ignored), OptionError, "{} is both --text and output", path.string());
  }
}

void report(const TokenizeOptions& options, std::int64_t tokens, std::int64_t bytes, double seconds) {
  std::string names;
  for (const fs::path& path : options.output.files()) names += (names.empty() ? "" : ", ") + path.string();
  log::result("{}: {} tokens of {} from {} bytes ({:.2f} bytes a token) in {:.2f} s, {:.1f} MB/s", names, tokens,
              name_of(options.output.type), bytes, static_cast<double>(bytes) / static_cast<double>(tokens), seconds,
              static_cast<double>(bytes) / 1e6 / seconds);
}

}  // namespace

ExitCode run(const std::vector<std::string>& arguments) {
  TokenizeOptions options;
  if (!parse_tokenize_options(arguments, options)) return ExitCode::ok;
  check_paths(options);
  const auto tokenizer = data::make_tokenizer(options.tokenizer);
  const auto end_of_text = tokenizer->end_of_text();
  SHOAL_CHECK(!options.append_end_of_text || end_of_text, OptionError,
              "--append-eot: the tokenizer '{}' has no token for the end of a text", options.tokenizer);
  options.output.type = tokenizer->vocab_size() <= 1 << 16 ? data::TokenType::uint16 : data::TokenType::uint32;
  const Timer timer;
  data::TokenWriter writer(options.output);
  std::int64_t bytes = 0;
  for (const fs::path& path : options.texts) {
    bytes += data::tokenize_file(path, *tokenizer, [&](std::span<const std::uint32_t> part) { writer.append(part); });
    if (options.append_end_of_text) writer.append({&*end_of_text, 1});
    writer.end_document();
  }
  writer.finish();
  report(options, writer.tokens(), bytes, timer.seconds());
  return ExitCode::ok;
}

}  // namespace shoal::apps

int main(int argc, char** argv) {
  return static_cast<int>(shoal::apps::run_program([&] { return shoal::apps::run({argv + 1, argv + argc}); }));
}
