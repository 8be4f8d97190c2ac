// options.cc -- reads the options of saves.
#include "options.h"

#include "option_values.h"
#include "store_options.h"
#include "values/text.h"

#include <cairn/error.h>

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>

namespace nb = nanobind;

namespace cairn::python {
namespace {

const Setters<SaveChoices>& setters() {
  static const Setters<SaveChoices> all{
      {"if_exists",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.if_exists = choice_option<IfExists>(
             n, v, {{"fail", IfExists::kFail}, {"replace", IfExists::kReplace}});
       }},
      {"durability", [](SaveChoices& o, const std::string& n,
                        nb::handle v) { o.durability = durability_option(n, v); }},
      {"compression", [](SaveChoices& o, const std::string& n,
                         nb::handle v) { o.compression = parse_compression(text_option(n, v)); }},
      {"use_ocdbt",
       [](SaveChoices& o, const std::string& n, nb::handle v) { o.use_ocdbt = bool_option(n, v); }},
      {"use_zarr3",
       [](SaveChoices& o, const std::string& n, nb::handle v) { o.use_zarr3 = bool_option(n, v); }},
      {"v1", [](SaveChoices& o, const std::string& n, nb::handle v) { o.v1 = bool_option(n, v); }},
      {"support_rich_types", [](SaveChoices& o, const std::string& n,
                                nb::handle v) { o.support_rich_types = bool_option(n, v); }},
      {"item",
       [](SaveChoices& o, const std::string& n, nb::handle v) { o.item = text_option(n, v); }},
      {"custom_metadata", [](SaveChoices& o, const std::string& n,
                             nb::handle v) { o.custom_metadata = text_option(n, v); }},
      {"item_metadata", [](SaveChoices& o, const std::string& n,
                           nb::handle v) { o.item_metadata = text_option(n, v); }},
      {"chunk_bytes", [](SaveChoices& o, const std::string& n,
                         nb::handle v) { o.chunk_bytes = number_option<std::int64_t>(n, v); }},
      {"target_file_bytes",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.target_file_bytes = number_option<std::int64_t>(n, v);
       }},
      {"commit_protocol", [](SaveChoices& o, const std::string& n,
                             nb::handle v) { o.commit_protocol = commit_protocol_option(n, v); }},
      {"reuse_from",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.reuse = Reuse::kUnchanged;
         o.reuse_from = cast_option<PathText>(n, v, "a path").local();
       }},
      {"save_timeout", [](SaveChoices& o, const std::string& n,
                          nb::handle v) { o.save_timeout = seconds_option(n, v); }},
      {"background_copy_bytes",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.background_copy_bytes = number_option<std::uint64_t>(n, v);
       }},
      {"storage_options",
       [](SaveChoices& o, const std::string& /*n*/, nb::handle v) { o.store = store_options(v); }},
      {"threads", [](SaveChoices& o, const std::string& n,
                     nb::handle v) { o.resources.threads = number_option<std::size_t>(n, v); }},
      {"memory",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.resources.memory = working_memory(number_option<std::uint64_t>(n, v));
       }},
  };
  return all;
}

}  // namespace

std::chrono::milliseconds seconds_option(const std::string& name, nb::handle value) {
  constexpr double kLongest = 1e9;
  const auto seconds = cast_option<double>(name, value, "a number of seconds");
  if (!(seconds > 0))
    throw Error(Code::kInvalidArgument, name + ": " + nb::cast<std::string>(nb::repr(value)) +
                                            " is not a positive number of seconds");
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(std::min(seconds, kLongest)));
}

Durability durability_option(const std::string& name, nb::handle value) {
  return choice_option<Durability>(
      name, value, {{"synced", Durability::kSynced}, {"unsynced", Durability::kUnsynced}});
}

CommitProtocol commit_protocol_option(const std::string& name, nb::handle value) {
  return choice_option<CommitProtocol>(name, value,
                                       {{"atomic_rename", CommitProtocol::kAtomicRename},
                                        {"commit_file", CommitProtocol::kCommitMarker}});
}

std::uint64_t working_memory(std::uint64_t bytes) {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 20U;
  if (bytes < kLeast)
    throw Error(Code::kInvalidArgument, "memory: " + std::to_string(bytes) +
                                            " is too few bytes; expected at least 1048576 (1 MiB)");
  return bytes;
}

Compression parse_compression(const std::string& text) {
  return with_context([] { return std::string("compression"); },
                      [&] { return compression_from_text(text); });
}

SaveChoices save_options(nb::dict options) {
  SaveChoices result;
  set_options(options, {&setters()}, result);
  return result;
}

PyTreeCheckpointHandlerOptions handler_options(const SaveChoices& options) {
  PyTreeCheckpointHandlerOptions result;
  result.use_ocdbt = options.use_ocdbt;
  result.use_zarr3 = options.use_zarr3;
  result.compression = options.compression;
  result.use_compression = options.compression.method != Compression::kNone;
  result.chunk_bytes = options.chunk_bytes;
  result.durability = options.durability;
  result.pytree_metadata_options.support_rich_types = options.support_rich_types;
  result.commit_protocol = options.commit_protocol;
  result.reuse = options.reuse;
  result.save_timeout = options.save_timeout;
  result.background_copy_bytes = options.background_copy_bytes;
  result.resources = options.resources;
  result.store = options.store;
  return result;
}

}  // namespace cairn::python
