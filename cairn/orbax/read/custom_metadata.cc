// custom_metadata.cc -- finds array metadata by its content instead of its name.
#include <cairn/orbax/read/custom_metadata.h>

#include <cairn/base/json/json.h>
#include <cairn/base/text.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

// The maximum size of one array's metadata; larger values are skipped.
constexpr std::uint64_t kMaxMetadata = std::uint64_t{1} << 20U;
constexpr std::size_t kMaxLookedAt = 16;  // the maximum number of keys examined below one name

// Returns 2 or 3 if the text is array metadata of that Zarr version; otherwise 0.
int zarr_format_of(std::string_view text) {
  const auto json = try_call([&] { return parse_json(text); });
  if (!json || json.value().as_object() == nullptr) return 0;
  const Json* format = json.value().find("zarr_format");
  if (format == nullptr || json.value().find("shape") == nullptr) return 0;
  const std::int64_t number = format->as_int64().value_or(0);
  return number == 2 || number == 3 ? static_cast<int>(number) : 0;
}

// Returns true if metadata with the usual name exists. It then takes precedence, even if it is
// damaged.
bool has_usual_metadata(const PytreeItem& item, const std::string& name) {
  const auto has = [&](int format) {
    const std::string key = zarr::ZarrArray::metadata_key(name, format);
    const auto it =
        std::lower_bound(item.keys.begin(), item.keys.end(), key,
                         [](const auto& entry, const auto& k) { return entry.key < k; });
    return it != item.keys.end() && it->key == key;
  };
  return has(2) || has(3);
}

// Returns true if the rest of the key, after the array's name, is a chunk ("0.1", "c/0") or has a
// usual metadata name.
bool is_of_array(std::string_view rest) {
  return handlers::is_metadata_key(rest) ||
         rest.find_first_not_of("0123456789./c") == std::string_view::npos;
}

class Search {
 public:
  Search(PytreeItem& item, const NameTable& names) : item_(item), names_(names) {}

  void open(std::size_t i, const std::string& wanted) {
    TensorInfo& tensor = item_.tensors[i];
    const std::string prefix = zarr::ZarrArray::key_prefix(tensor.name);
    try {
      auto found = wanted.empty() ? std::nullopt : read_metadata(prefix + wanted, wanted);
      if (!found && !item_.stored[i] && !has_usual_metadata(item_, tensor.name))
        found = look_for(prefix);
      if (!found) return;
      tensor.error.clear();
      open_found(i, *found);
      note_key(found->rest, tensor.name);
    } catch (const Error& e) {
      item_.stored[i].reset();
      tensor.kind = LeafKind::kUnknown;
      tensor.error = e.message();
      tensor.error_code = e.code();
    }
  }

 private:
  struct Found {
    std::string rest;  // the key without the array's name
    Bytes text;
    int format = 0;
  };

  // Reads and parses the value of `key`; format 0 if it is not metadata.
  std::optional<Found> read_metadata(const std::string& key, std::string rest) {
    auto text = item_.arrays->read_at_most(key, zarr::kMaxMetadataBytes);
    if (!text) return std::nullopt;
    const int format = zarr_format_of(as_text(*text));
    return Found{std::move(rest), *std::move(text), format};
  }

  // Returns true if the key starts with the name of another leaf: names may contain '/'.
  [[nodiscard]] bool is_another_leafs(const std::string& key, std::size_t prefix) const {
    const auto is_name = [&](std::string_view parent) {
      return names_.contains(parent) ||
             names_.contains(std::string_view(key).substr(0, parent.size() + 1));
    };
    return any_parent(key, is_name, prefix);
  }

  std::optional<Found> look_for(const std::string& prefix) {
    std::optional<Found> found;
    std::size_t looked_at = 0;
    auto it = std::lower_bound(item_.keys.begin(), item_.keys.end(), prefix,
                               [](const auto& entry, const auto& key) { return entry.key < key; });
    for (; it != item_.keys.end() && it->key.starts_with(prefix); ++it) {
      const std::string rest = it->key.substr(prefix.size());
      if (it->size > kMaxMetadata || is_of_array(rest) || is_another_leafs(it->key, prefix.size()))
        continue;
      if (++looked_at > kMaxLookedAt) break;
      auto candidate = read_metadata(it->key, rest);
      if (!candidate || candidate->format == 0) continue;
      if (found)
        throw Error(Code::kFailedPrecondition,
                    "the array's metadata may be '" + found->rest + "' or '" + rest +
                        "'; choose one with --metadata-key (metadata_key)");
      found = std::move(candidate);
    }
    return found;
  }

  void open_found(std::size_t i, const Found& found) {
    const std::string key = zarr::ZarrArray::key_prefix(item_.tensors[i].name) + found.rest;
    with_context([&] { return item_.arrays->describe(key); },
                 [&] {
                   if (found.format == 0)
                     throw Error(Code::kDataLoss,
                                 "no Zarr metadata: 'zarr_format' or 'shape' is missing");
                   item_.stored[i].emplace(item_.arrays, item_.tensors[i].name,
                                           cache_.parse(found.format, as_text(found.text)));
                   handlers::describe_array(item_.stored[i]->metadata(), item_.tensors[i]);
                 });
  }

  void note_key(const std::string& rest, const std::string& name) {
    item_.custom_keys[rest].push_back(name);
  }

  PytreeItem& item_;
  const NameTable& names_;
  zarr::MetadataCache cache_;
};

}  // namespace

void open_custom_arrays(PytreeItem& item, const NameTable& names, const std::string& wanted) {
  Search search(item, names);
  for (std::size_t i = 0; i < item.tensors.size(); ++i) {
    const TensorInfo& tensor = item.tensors[i];
    if (!tensor.is_array() || item.values[i].inside) continue;
    if (wanted.empty() && item.stored[i]) continue;
    search.open(i, wanted);
  }
}

std::vector<std::string> find_custom_names(const PytreeItem& item, std::string_view wanted) {
  std::vector<std::string> names;
  const std::string below = "/" + std::string(wanted);
  for (const auto& entry : item.keys) {
    if (entry.key == wanted)
      names.emplace_back();
    else if (entry.key.ends_with(below))
      names.push_back(entry.key.substr(0, entry.key.size() - below.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cairn::inline v0::orbax
