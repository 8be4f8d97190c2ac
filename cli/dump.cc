// dump.cc -- cairn dump: prints raw structures as JSON, for debugging.
#include "arguments/stores.h"
#include "commands.h"
#include "screen/terminal.h"
#include "source.h"

#include <charconv>

namespace cairn::cli {
namespace {

struct DumpOptions {
  std::string file;
  std::string node;
  std::optional<std::uint64_t> shard_chunks;
  StoreOptions store;
};

// Parses FILE:OFFSET:LENGTH, split at the last two colons.
DumpRange parse_range(const std::string& text) {
  const std::size_t second = text.rfind(':');
  const std::size_t first =
      second == std::string::npos || second == 0 ? std::string::npos : text.rfind(':', second - 1);
  if (first == std::string::npos)
    throw UsageError("--node '" + text + "': expected FILE:OFFSET:LENGTH");
  const auto number = [&](std::size_t begin, std::size_t end) {
    std::uint64_t value = 0;
    const auto read = std::from_chars(text.data() + begin, text.data() + end, value);
    if (read.ec != std::errc() || read.ptr != text.data() + end)
      throw UsageError("--node '" + text +
                       "': OFFSET and LENGTH must be whole numbers of at most 64 bits");
    return value;
  };
  return {text.substr(0, first), number(first + 1, second), number(second + 1, text.size())};
}

int run_dump(const DumpOptions& options) {
  if (options.file.empty() == options.node.empty())
    throw UsageError("expected either FILE or --node FILE:OFFSET:LENGTH");
  DumpRange range =
      options.node.empty() ? DumpRange{options.file, 0, {}} : parse_range(options.node);
  range.store = options.store;
  try {
    out().show_json(options.shard_chunks ? dump_shard_index(range, *options.shard_chunks)
                                         : dump_file(range));
  } catch (const Error& e) {
    throw Failure(e.message());
  }
  return kGood;
}

}  // namespace

void setup_dump(CLI::App& app, int& status) {
  const auto options = std::make_shared<DumpOptions>();
  CLI::App* command = app.add_subcommand("dump", "Show a raw structure as JSON, for debugging");
  check_path(command->add_option("FILE", options->file,
                                 "A manifest.ocdbt (or its directory), or a .safetensors, "
                                 ".npy,\nmsgpack, JSON, .pt or pickle file"));
  command
      ->add_option(
          "--node", options->node,
          "Bytes of a data file: an OCDBT B+tree or version node, as a\nmanifest refers to it")
      ->type_name("FILE:OFFSET:LENGTH");
  check_uint64(
      command->add_option("--shard-index", options->shard_chunks,
                          "The bytes are a Zarr v3 shard of N inner chunks: show its index"))
      ->type_name("N");
  add_store_options(*command, options->store);
  command->footer(
      "Examples:\n"
      "  cairn dump ckpt/manifest.ocdbt\n"
      "  cairn dump --node ckpt/d/0c9e14ed3:4096:512\n"
      "  cairn dump model.safetensors | jq keys\n"
      "  cairn dump model.pt | jq '.pickles[].unsafe_globals'");
  command->callback([options, &status] { status = run_dump(*options); });
}

}  // namespace cairn::cli
