// options.cc -- reads the options of saves.
#include "options.h"

#include "values/text.h"

#include <cairn/error.h>

#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string_view>

namespace nb = nanobind;

namespace cairn::python {
namespace {

template <class T>
T cast_option(const std::string& name, nb::handle value, const char* expected) {
  T result;
  if (!nb::try_cast(value, result))
    throw Error(Code::kInvalidArgument, name + ": expected " + expected + ", not " +
                                            nb::cast<std::string>(nb::repr(value)));
  return result;
}
bool boolean(const std::string& name, nb::handle value) {
  return cast_option<bool>(name, value, "True or False");
}
std::string text(const std::string& name, nb::handle value) {
  return cast_option<std::string>(name, value, "a str");
}
template <class T>
T number(const std::string& name, nb::handle value) {
  return cast_option<T>(name, value, "an int that is not negative");
}

// A positive number of seconds.
std::chrono::milliseconds milliseconds(const std::string& name, nb::handle value) {
  constexpr double kLongest = 1e9;
  const auto seconds = cast_option<double>(name, value, "a number of seconds");
  if (!(seconds > 0))
    throw Error(Code::kInvalidArgument, name + ": " + nb::cast<std::string>(nb::repr(value)) +
                                            " is not a positive number of seconds");
  return std::chrono::ceil<std::chrono::milliseconds>(
      std::chrono::duration<double>(std::min(seconds, kLongest)));
}

template <class Enum>
Enum choice(const std::string& name, nb::handle value,
            const std::vector<std::pair<std::string_view, Enum>>& choices) {
  const std::string chosen = text(name, value);
  std::string known;
  for (const auto& [word, meaning] : choices) {
    if (word == chosen) return meaning;
    known += (known.empty() ? "'" : ", '") + std::string(word) + "'";
  }
  throw Error(Code::kInvalidArgument, name + ": '" + chosen + "' is not one of " + known);
}

using Setter = std::function<void(SaveChoices&, const std::string&, nb::handle)>;

const std::map<std::string, Setter, std::less<>>& setters() {
  static const std::map<std::string, Setter, std::less<>> all{
      {"if_exists",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.if_exists =
             choice<IfExists>(n, v, {{"fail", IfExists::kFail}, {"replace", IfExists::kReplace}});
       }},
      {"durability",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.durability = choice<Durability>(
             n, v, {{"synced", Durability::kSynced}, {"unsynced", Durability::kUnsynced}});
       }},
      {"compression", [](SaveChoices& o, const std::string& n,
                         nb::handle v) { o.compression = parse_compression(text(n, v)); }},
      {"use_ocdbt",
       [](SaveChoices& o, const std::string& n, nb::handle v) { o.use_ocdbt = boolean(n, v); }},
      {"use_zarr3",
       [](SaveChoices& o, const std::string& n, nb::handle v) { o.use_zarr3 = boolean(n, v); }},
      {"v1", [](SaveChoices& o, const std::string& n, nb::handle v) { o.v1 = boolean(n, v); }},
      {"support_rich_types", [](SaveChoices& o, const std::string& n,
                                nb::handle v) { o.support_rich_types = boolean(n, v); }},
      {"item", [](SaveChoices& o, const std::string& n, nb::handle v) { o.item = text(n, v); }},
      {"custom_metadata",
       [](SaveChoices& o, const std::string& n, nb::handle v) { o.custom_metadata = text(n, v); }},
      {"item_metadata",
       [](SaveChoices& o, const std::string& n, nb::handle v) { o.item_metadata = text(n, v); }},
      {"chunk_bytes", [](SaveChoices& o, const std::string& n,
                         nb::handle v) { o.chunk_bytes = number<std::int64_t>(n, v); }},
      {"target_file_bytes", [](SaveChoices& o, const std::string& n,
                               nb::handle v) { o.target_file_bytes = number<std::int64_t>(n, v); }},
      {"commit_protocol",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.commit_protocol =
             choice<CommitProtocol>(n, v,
                                    {{"atomic_rename", CommitProtocol::kAtomicRename},
                                     {"commit_file", CommitProtocol::kCommitMarker}});
       }},
      {"reuse_from",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.reuse = Reuse::kUnchanged;
         o.reuse_from = cast_option<PathText>(n, v, "a path").local();
       }},
      {"save_timeout", [](SaveChoices& o, const std::string& n,
                          nb::handle v) { o.save_timeout = milliseconds(n, v); }},
      {"background_copy_bytes",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.background_copy_bytes = number<std::uint64_t>(n, v);
       }},
      {"threads", [](SaveChoices& o, const std::string& n,
                     nb::handle v) { o.resources.threads = number<std::size_t>(n, v); }},
      {"memory",
       [](SaveChoices& o, const std::string& n, nb::handle v) {
         o.resources.memory = working_memory(number<std::uint64_t>(n, v));
       }},
  };
  return all;
}

}  // namespace

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
  for (const auto [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    const auto setter = setters().find(name);
    if (setter == setters().end())
      throw Error(Code::kInvalidArgument, "unknown option '" + name + "'");
    if (!value.is_none()) setter->second(result, name, value);
  }
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
  return result;
}

}  // namespace cairn::python
