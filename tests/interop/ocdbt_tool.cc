// ocdbt_tool.cc -- commits to an OCDBT database what it reads from standard input, so that the tests can run it beside
// TensorStore. One command a line; keys and values in hexadecimal:
//      w KEY VALUE      writes            z KEY SIZE SEED     writes bytes that follow from the seed (see filler)
//      d KEY            removes           r FIRST LAST        removes a range; LAST "-": up to the end
//      m PREFIX         copies the database there (not in hexadecimal)
//      c                commits; what follows is another commit
//      x                compacts and removes orphans
// Arguments: the folder, then options: new=1 (take the configuration below), uuid=HEX, kind=single|numbered, inline=N, node=N,
// arity=N, zstd=LEVEL|none, value=PREFIX, btree=PREFIX, version=PREFIX, target=N, seed=N (deterministic), sync=0.
#include <cairn/ocdbt/compact.h>
#include <cairn/ocdbt/writer.h>

#include <iostream>
#include <map>
#include <sstream>
#include <string>

namespace cairn::ocdbt {
namespace {

using Options = std::map<std::string, std::string>;

std::string from_hex(const std::string& hex) {
  std::string text;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return text;
}

// Byte i is the top byte of (i + seed) * 2654435761 modulo 2^32.
std::string filler(std::size_t size, std::uint32_t seed) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(((static_cast<std::uint32_t>(i) + seed) * 2654435761U) >> 24U);
  return text;
}

WriterOptions writer_options(const Options& given) {
  const auto number = [&](const std::string& name, std::uint64_t otherwise) {
    return given.contains(name) ? std::stoull(given.at(name)) : otherwise;
  };
  WriterOptions options;
  if (given.contains("new")) {
    Config config;
    if (given.contains("kind") && given.at("kind") == "numbered") config.manifest_kind = ManifestKind::kNumbered;
    config.max_inline_value_bytes = static_cast<std::uint32_t>(number("inline", config.max_inline_value_bytes));
    config.max_decoded_node_bytes = static_cast<std::uint32_t>(number("node", config.max_decoded_node_bytes));
    config.version_tree_arity_log2 = static_cast<std::uint8_t>(number("arity", config.version_tree_arity_log2));
    if (given.contains("zstd")) config.zstd_level = given.at("zstd") == "none" ? std::nullopt : std::optional(std::stoi(given.at("zstd")));
    if (given.contains("uuid")) {
      const std::string uuid = from_hex(given.at("uuid"));
      for (std::size_t i = 0; i < config.uuid.size(); ++i) config.uuid[i] = static_cast<std::uint8_t>(uuid.at(i));
    }
    options.config = config;
  }
  if (given.contains("value")) options.value_prefix = given.at("value");
  if (given.contains("btree")) options.btree_prefix = given.at("btree");
  if (given.contains("version")) options.version_prefix = given.at("version");
  options.target_data_file_size = number("target", options.target_data_file_size);
  if (given.contains("seed")) options.deterministic = {.uuid = {1}, .seed = number("seed", 0), .commit_time_ns = 1000};
  return options;
}

void apply(Writer& writer, Writer::Stream& stream, const std::string& line) {
  std::istringstream words(line);
  std::string what, key, second;
  words >> what >> key;
  if (what == "m") return writer.copy_database(key);
  key = from_hex(key);
  words >> second;
  if (what == "w") {
    stream.write(key, as_bytes(from_hex(second)));
  } else if (what == "z") {
    std::uint32_t seed = 0;
    words >> seed;
    stream.write(key, as_bytes(filler(std::stoull(second), seed)));
  } else if (what == "d") {
    stream.remove(key);
  } else if (what == "r") {
    stream.remove_range({.first = key, .last = second == "-" ? std::nullopt : std::optional(from_hex(second))});
  } else {
    throw Error(Code::kInvalidArgument, "what is \"" + line + "\"?");
  }
}

void run(const std::string& folder, const Options& given) {
  const bool synced = !given.contains("sync") || given.at("sync") != "0";
  const StorePtr base = open_file_store(folder, synced ? Durability::kSynced : Durability::kUnsynced);
  const WriterOptions options = writer_options(given);
  std::unique_ptr<Writer> writer;
  Writer::Stream* stream = nullptr;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "x") {
      const Compacted done = compact(base, {.orphans = Orphans::kRemove, .writer = options});
      std::cout << done.version.generation << ' ' << done.files_before << ' ' << done.files_after << std::endl;
      continue;
    }
    if (!writer) {
      writer = std::make_unique<Writer>(base, options);
      stream = &writer->stream();
    }
    if (line != "c") {
      apply(*writer, *stream, line);
      continue;
    }
    const CommittedVersion done = writer->commit();
    std::cout << done.generation << ' ' << done.commit_time_ns << ' ' << done.num_keys << std::endl;
    writer.reset();
  }
}

}  // namespace
}  // namespace cairn::ocdbt

int main(int argc, char** argv) {
  try {
    cairn::ocdbt::Options given;
    for (int i = 2; i < argc; ++i) {
      const std::string option = argv[i];
      const auto equals = option.find('=');
      given[option.substr(0, equals)] = option.substr(equals + 1);
    }
    cairn::ocdbt::run(argv[1], given);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
