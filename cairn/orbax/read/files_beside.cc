// files_beside.cc -- reads the files of shardings and strings, and those in array_metadatas.
#include <cairn/orbax/read/files_beside.h>

#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/read/custom_strings.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

std::optional<Buffer> read_if_there(const PytreeItem& item, const std::string& path) {
  if (!item.item.folder->exists(path)) return std::nullopt;
  return item.item.folder->read_text(path, kMaxMetadataFile);
}

void attach_shardings(PytreeItem& out, const NameTable& names) {
  const std::string file = join(out.item.path, kShardingFile);
  out.try_file(file, [&] {
    const auto text = read_if_there(out, file);
    if (!text) return;
    out.has_shardings = true;
    for (auto& [name, sharding] : parse_shardings(as_text(*text)))
      if (const auto i = names.find(name); i && out.tensors[*i].is_array())
        out.tensors[*i].sharding = std::move(sharding);
    for (const auto& [later, first] : names.repeated())
      if (out.tensors[later].is_array()) out.tensors[later].sharding = out.tensors[first].sharding;
  });
}

void attach_random_keys(PytreeItem& out) {
  const std::string folder = join(out.item.path, kArrayMetadataFolder);
  out.array_metadata_files = list_directory(out.item.folder, folder).files;
  for (const auto& name : out.array_metadata_files) {
    try {
      const Buffer text = out.item.folder->read_text(join(folder, name), kMaxMetadataFile);
      // Parse only if the file can contain a typed PRNG key.
      if (as_text(text).find("random_key_impl") == std::string_view::npos) continue;
      for (auto& array : parse_array_metadatas(as_text(text)))
        if (!array.random_key_impl.empty())
          out.random_keys.emplace(std::move(array.name), std::move(array.random_key_impl));
    } catch (const Error& e) {
      out.unread_array_metadata.emplace_back(name, e.message());
    }
  }
}

void attach_strings(PytreeItem& out, StringsFile allowed) {
  const auto is_missing = [&](std::size_t i) {
    const bool in_array = i < out.stored.size() && out.stored[i];
    return out.tensors[i].typestr == "string" && !out.values[i].text && !in_array;
  };
  std::vector<std::size_t> wanted;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < out.tensors.size(); ++i) {
    if (!is_missing(i)) continue;
    wanted.push_back(i);
    names.push_back(out.tensors[i].name);
  }
  if (wanted.empty()) return;
  const std::string file = join(out.item.path, kStringsFile);
  Strings strings;
  std::string error = "it is not in " + std::string(kStringsFile);
  out.try_file(file, [&] {
    if (const auto text = read_if_there(out, file)) {
      const std::unordered_set<std::string_view> leaves(names.begin(), names.end());
      strings = parse_strings(as_text(*text), [&](const std::string& name) {
        return leaves.find(name) != leaves.end();
      });
      return;
    }
    error = std::string(kStringsFile) + " is missing";
    if (allowed == StringsFile::kUsual) return;
    auto found = try_call([&] { return find_custom_strings(out, names); });
    if (found)
      strings = std::move(found).value();
    else
      error = found.error().message();
  });
  Code code = Code::kDataLoss;
  if (!out.broken.empty() && out.broken.back().file == file) {
    error = file + ": " + out.broken.back().why;
    code = out.broken.back().code;
  }
  for (const auto i : wanted) {
    const auto it = strings.find(out.tensors[i].name);
    if (it == strings.end()) {
      out.tensors[i].error = error;
      out.tensors[i].error_code = code;
      continue;
    }
    out.values[i].text = std::make_shared<const std::string>(it->second);
    out.tensors[i].nbytes = it->second.size();
  }
}

}  // namespace

void attach_files(PytreeItem& out, const NameTable& names, StringsFile strings) {
  attach_shardings(out, names);
  attach_strings(out, strings);
  attach_random_keys(out);
}

}  // namespace cairn::inline v0::orbax
