#include "apps/tokenize_options.h"

#include <boost/program_options/value_semantic.hpp>

#include "apps/command_line.h"
#include "core/check.h"

namespace shoal::apps {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

const Verb kVerb{
    .name = "tokenize",
    .synopsis = "shoal tokenize --text FILE... --output FILE [options]",
    .summary =
        "Makes a token file for shoal train --data from text, in memory that does not grow with the text.\n"
        "Each FILE, plain or compressed by gzip, is a document.",
    .example = "shoal tokenize --text book1.txt book2.txt.gz --output train.bin --split 0.1",
    .see = "docs/data.md tells more."};

po::options_description described() {
  po::options_description all("Options");
  const auto add = [&](const char* name, const char* value, const char* text) {
    all.add_options()(name, po::value<std::string>()->value_name(value), text);
  };
  all.add_options()("text", po::value<std::vector<std::string>>()->multitoken()->value_name("FILE..."),
                    "the text, in this order");
  add("output", "FILE", "the file to write");
  add("tokenizer", "NAME",
      "gpt2 (the default): byte-pair encoding, 50257 tokens; bytes: 256 tokens; or a folder with vocab.bpe or "
      "merges.txt");
  add("format", "NAME",
      "plain: uint16, or uint32 where the vocabulary is larger than 65536; llmc: the same with llm.c's header; "
      "megatron: FILE.bin and FILE.idx; hdf5. Unless given, the suffix tells: .h5 .hdf5, else plain");
  add("split", "FRACTION", "this part of the tokens, the last ones, goes to another file, for validation");
  add("val-output", "FILE",
      "that file. Unless given, it is named as the output with 'val' for 'train', or with '_val' behind the name");
  all.add_options()("append-eot", "put the token <|endoftext|> behind each document");
  all.add_options()("force", "replace files that exist");
  return all;
}

std::string text_of(const po::variables_map& values, const char* name, const std::string& otherwise) {
  return values.count(name) ? values[name].as<std::string>() : otherwise;
}

double fraction_of(const po::variables_map& values) {
  const std::string text = text_of(values, "split", "0");
  std::size_t used = 0;
  double fraction = -1;
  try {
    fraction = std::stod(text, &used);
  } catch (const std::logic_error&) {  // no number: `used` stays 0
  }
  const bool is_fraction = used == text.size() && fraction < 1 && (fraction > 0 || !values.count("split"));
  SHOAL_CHECK(is_fraction, OptionError, "--split {} is no number above 0 and below 1", text);
  return fraction;
}

fs::path val_path_beside(const fs::path& output) {
  std::string name = output.filename().string();
  const std::size_t train = name.rfind("train");
  if (train != name.npos) return output.parent_path() / name.replace(train, 5, "val");
  return output.parent_path() / (output.stem().string() + "_val" + output.extension().string());
}

data::TokenOutput output_of(const po::variables_map& values) {
  SHOAL_CHECK(values.count("output"), OptionError, "shoal tokenize: give --output FILE");
  data::TokenOutput output{.path = values["output"].as<std::string>()};
  const std::string suffix = output.path.extension().string();
  const bool is_hdf5 = suffix == ".h5" || suffix == ".hdf5";
  output.format = data::parse_token_format(text_of(values, "format", is_hdf5 ? "hdf5" : "plain"));
  SHOAL_CHECK(output.format != data::TokenFormat::megatron || suffix == ".bin", OptionError,
              "--format megatron writes a pair of files: --output must end in .bin, not '{}'", output.path.string());
  output.val_fraction = fraction_of(values);
  SHOAL_CHECK(output.val_fraction > 0 || !values.count("val-output"), OptionError,
              "--val-output needs --split FRACTION");
  if (output.val_fraction > 0) output.val_path = text_of(values, "val-output", val_path_beside(output.path).string());
  SHOAL_CHECK(output.val_path != output.path, OptionError, "--val-output and --output name the same file");
  return output;
}

}  // namespace

bool parse_tokenize_options(const std::vector<std::string>& arguments, TokenizeOptions& options) {
  po::variables_map values;
  if (!parse_verb(kVerb, {described()}, arguments, values)) return false;
  SHOAL_CHECK(values.count("text"), OptionError, "shoal tokenize: give --text FILE...");
  for (const std::string& path : values["text"].as<std::vector<std::string>>()) options.texts.emplace_back(path);
  options.tokenizer = text_of(values, "tokenizer", "gpt2");
  options.output = output_of(values);
  options.append_end_of_text = values.count("append-eot") > 0;
  options.force = values.count("force") > 0;
  return true;
}

}  // namespace shoal::apps
