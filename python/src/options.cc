// options.cc -- reads the options of saves.
#include "options.h"

#include <cairn/error.h>

#include <nanobind/stl/string.h>

#include <charconv>
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

using Setter = std::function<void(SaveOptions&, const std::string&, nb::handle)>;

const std::map<std::string, Setter, std::less<>>& setters() {
  static const std::map<std::string, Setter, std::less<>> all{
      {"if_exists",
       [](SaveOptions& o, const std::string& n, nb::handle v) {
         o.if_exists =
             choice<IfExists>(n, v, {{"fail", IfExists::kFail}, {"replace", IfExists::kReplace}});
       }},
      {"durability",
       [](SaveOptions& o, const std::string& n, nb::handle v) {
         o.durability = choice<Durability>(
             n, v, {{"synced", Durability::kSynced}, {"unsynced", Durability::kUnsynced}});
       }},
      {"compression", [](SaveOptions& o, const std::string& n,
                         nb::handle v) { o.compression = parse_compression(text(n, v)); }},
      {"use_ocdbt",
       [](SaveOptions& o, const std::string& n, nb::handle v) { o.use_ocdbt = boolean(n, v); }},
      {"use_zarr3",
       [](SaveOptions& o, const std::string& n, nb::handle v) { o.use_zarr3 = boolean(n, v); }},
      {"v1", [](SaveOptions& o, const std::string& n, nb::handle v) { o.v1 = boolean(n, v); }},
      {"support_rich_types", [](SaveOptions& o, const std::string& n,
                                nb::handle v) { o.support_rich_types = boolean(n, v); }},
      {"item", [](SaveOptions& o, const std::string& n, nb::handle v) { o.item = text(n, v); }},
      {"custom_metadata",
       [](SaveOptions& o, const std::string& n, nb::handle v) { o.custom_metadata = text(n, v); }},
      {"chunk_bytes", [](SaveOptions& o, const std::string& n,
                         nb::handle v) { o.chunk_bytes = number<std::int64_t>(n, v); }},
      {"target_file_bytes", [](SaveOptions& o, const std::string& n,
                               nb::handle v) { o.target_file_bytes = number<std::int64_t>(n, v); }},
      {"threads", [](SaveOptions& o, const std::string& n,
                     nb::handle v) { o.resources.threads = number<std::size_t>(n, v); }},
      {"memory", [](SaveOptions& o, const std::string& n,
                    nb::handle v) { o.resources.memory = number<std::uint64_t>(n, v); }},
  };
  return all;
}

}  // namespace

Compression parse_compression(const std::string& text) {
  const auto colon = text.find(':');
  const std::string method = text.substr(0, colon);
  std::optional<int> level;
  if (colon != std::string::npos) {
    int value = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end)
      throw Error(Code::kInvalidArgument, "compression: '" + text + "' has no level after ':'");
    level = value;
  }
  if (method == "zstd") return Compression::zstd(level.value_or(1));
  if (method == "blosc") return level ? Compression::blosc(*level) : Compression::blosc();
  if (method == "auto" && !level) return Compression::kAuto;
  if (method == "none" && !level) return Compression::kNone;
  if (method == "smallest" && !level) return Compression::kSmallest;
  if (method == "reproducible" && !level) return Compression::kReproducible;
  throw Error(
      Code::kInvalidArgument,
      "compression: '" + text +
          "' is not one of 'auto', 'reproducible', 'smallest', 'none', 'zstd', 'zstd:LEVEL', "
          "'blosc', 'blosc:LEVEL'");
}

SaveOptions save_options(nb::dict options) {
  SaveOptions result;
  for (const auto [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    const auto setter = setters().find(name);
    if (setter == setters().end())
      throw Error(Code::kInvalidArgument, "unknown option '" + name + "'");
    if (!value.is_none()) setter->second(result, name, value);
  }
  return result;
}

PyTreeCheckpointHandlerOptions handler_options(const SaveOptions& options) {
  if (options.v1 || options.durability != Durability::kSynced)
    throw Error(Code::kInvalidArgument,
                "a save in the background or by several processes has no options 'v1' and "
                "'durability'");
  if (options.chunk_bytes)
    throw Error(Code::kInvalidArgument,
                "a save in the background or by several processes has no option 'chunk_bytes'");
  PyTreeCheckpointHandlerOptions result;
  result.use_ocdbt = options.use_ocdbt;
  result.use_zarr3 = options.use_zarr3;
  result.compression = options.compression;
  result.use_compression = options.compression.method != Compression::kNone;
  result.pytree_metadata_options.support_rich_types = options.support_rich_types;
  result.resources = options.resources;
  return result;
}

}  // namespace cairn::python
