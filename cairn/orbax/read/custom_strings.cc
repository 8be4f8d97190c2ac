// custom_strings.cc -- finds strings in a file of another name than _strings.json.
#include <cairn/orbax/read/custom_strings.h>

#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

// Whether the file may be the JSON object that a StringHandler writes. Other files may be large, so
// they are not read.
bool may_have_strings(const PytreeItem& item, const std::string& path) {
  const File file = item.item.folder->open_file(path);
  if (file.size() == 0) return false;
  std::array<std::byte, 1> first{};
  file.read_into(0, first);
  return first[0] == std::byte{'{'};
}

// The strings of a file; nullopt if the file cannot be read or lacks one of the names.
std::optional<Strings> strings_of(const PytreeItem& item, const std::string& name,
                                  const std::vector<std::string>& names) {
  const std::string path = join(item.item.path, name);
  auto strings = try_call([&] {
    return may_have_strings(item, path)
               ? parse_strings(as_text(item.item.folder->read_text(path, kMaxMetadataFile)))
               : Strings();
  });
  if (!strings) return std::nullopt;
  const Strings& found = strings.value();
  const auto has = [&](const std::string& wanted) { return found.contains(wanted); };
  if (!std::all_of(names.begin(), names.end(), has)) return std::nullopt;
  return std::move(strings).value();
}

}  // namespace

Strings find_custom_strings(PytreeItem& item, const std::vector<std::string>& names) {
  std::string all;  // the names of the files found
  Strings strings;
  for (const std::string& name : list_directory(item.item.folder, item.item.path).files) {
    if (is_item_file(name)) continue;
    auto found = strings_of(item, name, names);
    if (!found) continue;
    if (!all.empty()) {
      item.strings_file.clear();
      all += ", ";
    } else {
      item.strings_file = name;
      strings = *std::move(found);
    }
    all += "'" + name + "'";
  }
  if (!item.strings_file.empty()) return strings;
  throw Error(Code::kNotFound,
              std::string(kStringsFile) + " is missing, and " +
                  (all.empty() ? "no other file of the folder has its strings"
                               : "several files have its strings: " + all) +
                  "; if a StringHandler stored them under another file name, restore them with "
                  "that handler");
}

}  // namespace cairn::inline v0::orbax
