// commands.h -- changes of an OCDBT database as lines of text, for the tool that tests run beside
// TensorStore and for golden databases. Keys and values are in hexadecimal:
//      w KEY VALUE      writes            z KEY SIZE SEED     writes bytes that follow from the
//                                                             seed (see filler)
//      d KEY            removes           r FIRST LAST        removes a range; LAST "-": up to the
//                                                             end
//      m PREFIX         copies the database there (not in hexadecimal)
//      c                commits; what follows is another commit
//      x                compacts and removes orphans
//      i PREFIX         what follows is about the database below that prefix (not in hexadecimal);
//                       "i" alone: the one at the top
// Options: new=1 (take the configuration below), uuid=HEX, kind=single|numbered, inline=N, node=N,
// arity=N, zstd=LEVEL|none, value=PREFIX, btree=PREFIX, version=PREFIX, target=N, seed=N
// (deterministic; every commit has the next seed and nanosecond).
#pragma once

#include <cairn/ocdbt/write/compact.h>
#include <cairn/ocdbt/write/writer.h>

#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>

#include "tests/support/hex.h"

namespace cairn::ocdbt::testing {

using cairn::testing::text_from_hex;
using Options = std::map<std::string, std::string>;

// Byte i is the top byte of (i + seed) * 2654435761 modulo 2^32.
inline std::string filler(std::size_t size, std::uint32_t seed) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>(((static_cast<std::uint32_t>(i) + seed) * 2654435761U) >> 24U);
  return text;
}

// Of the commit of that number.
inline WriterOptions writer_options(const Options& given, std::uint64_t commit) {
  const auto number = [&](const std::string& name, std::uint64_t otherwise) {
    return given.contains(name) ? std::stoull(given.at(name)) : otherwise;
  };
  WriterOptions options;
  if (given.contains("new")) {
    Config config;
    if (given.contains("kind") && given.at("kind") == "numbered")
      config.manifest_kind = ManifestKind::kNumbered;
    config.max_inline_value_bytes =
        static_cast<std::uint32_t>(number("inline", config.max_inline_value_bytes));
    config.max_decoded_node_bytes =
        static_cast<std::uint32_t>(number("node", config.max_decoded_node_bytes));
    config.version_tree_arity_log2 =
        static_cast<std::uint8_t>(number("arity", config.version_tree_arity_log2));
    if (given.contains("zstd"))
      config.zstd_level =
          given.at("zstd") == "none" ? std::nullopt : std::optional(std::stoi(given.at("zstd")));
    if (given.contains("uuid")) {
      const std::string uuid = text_from_hex(given.at("uuid"));
      for (std::size_t i = 0; i < config.uuid.size(); ++i)
        config.uuid[i] = static_cast<std::uint8_t>(uuid.at(i));
    }
    options.config = config;
  }
  if (given.contains("value")) options.value_prefix = given.at("value");
  if (given.contains("btree")) options.btree_prefix = given.at("btree");
  if (given.contains("version")) options.version_prefix = given.at("version");
  options.target_data_file_size = number("target", options.target_data_file_size);
  if (given.contains("seed"))
    options.deterministic = {
        .uuid = {1}, .seed = number("seed", 0) + commit, .commit_time_ns = 1000 + commit};
  return options;
}

inline void apply(Writer& writer, Writer::Stream& stream, const std::string& line) {
  std::istringstream words(line);
  std::string what, key, second;
  words >> what >> key;
  if (what == "m") return writer.copy_database(key);
  key = text_from_hex(key);
  words >> second;
  if (what == "w") {
    stream.write(key, as_bytes(text_from_hex(second)));
  } else if (what == "z") {
    std::uint32_t seed = 0;
    words >> seed;
    stream.write(key, as_bytes(filler(std::stoull(second), seed)));
  } else if (what == "d") {
    stream.remove(key);
  } else if (what == "r") {
    stream.remove_range(
        {.first = key,
         .last = second == "-" ? std::nullopt : std::optional(text_from_hex(second))});
  } else {
    throw Error(Code::kInvalidArgument, "what is \"" + line + "\"?");
  }
}

// Prints a line of numbers a commit or compaction.
inline void run_commands(const StorePtr& store, const Options& given, std::istream& in,
                         std::ostream& out) {
  StorePtr base = store;
  std::uint64_t commits = 0;
  std::unique_ptr<Writer> writer;
  Writer::Stream* stream = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line == "i" || line.starts_with("i ")) {
      base = line == "i" ? store : prefix_store(store, line.substr(2));
      continue;
    }
    const WriterOptions options = writer_options(given, commits);
    if (line == "x") {
      const Compacted done = compact(base, {.orphans = Orphans::kRemove, .writer = options});
      out << done.version.generation << ' ' << done.files_before << ' ' << done.files_after
          << std::endl;
      ++commits;
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
    out << done.generation << ' ' << done.commit_time_ns << ' ' << done.num_keys << std::endl;
    writer.reset();
    ++commits;
  }
}

// "new=1 zstd=none"
inline Options parse_options(const std::string& line) {
  Options given;
  std::istringstream words(line);
  for (std::string option; words >> option;)
    given[option.substr(0, option.find('='))] = option.substr(option.find('=') + 1);
  return given;
}

}  // namespace cairn::ocdbt::testing
