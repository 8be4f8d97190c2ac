// short_files.cc -- compares the sizes of the data files with what a version refers to.
#include <cairn/ocdbt/read/short_files.h>

#include <cairn/ocdbt/read/node_reader.h>
#include <cairn/ocdbt/read/scan.h>
#include <cairn/ocdbt/read/versions.h>

#include <algorithm>
#include <map>

namespace cairn::inline v0::ocdbt {
namespace {

using Ends = std::map<std::string, std::uint64_t>;  // data file -> the end of its last value

// Adds the values of one leaf. A value of an impossible length counts as one that nothing holds.
void add_ends(const LoadedNode& leaf, Ends& ends) {
  std::vector<std::uint64_t> by_file(leaf.node.files.size());
  for (const LeafValue& value : leaf.node.values) {
    if (value.is_inline()) continue;
    const std::uint64_t end =
        value.length > UINT64_MAX - value.offset ? UINT64_MAX : value.offset + value.length;
    by_file.at(value.file) = std::max(by_file.at(value.file), end);
  }
  for (std::size_t i = 0; i < by_file.size(); ++i) {
    if (by_file[i] == 0) continue;
    std::uint64_t& end = ends[leaf.file(i).path];
    end = std::max(end, by_file[i]);
  }
}

}  // namespace

std::string find_short_file(const StorePtr& base) {
  const auto info = read_database_info(*base);
  if (!info)
    throw Error(Code::kNotFound, base->describe(std::string(kManifestKey)) + ": is missing");
  const auto version = find_version(*base, *info, {});
  if (!version || version->empty()) return "";
  NodeReader reader(base);
  Ends ends;
  for (const LeafAt& at : load_leaves(reader, version->expect_root())) add_ends(*at.leaf, ends);
  for (const auto& [file, end] : ends) {
    const auto size = base->size(file);
    if (!size) return base->describe(file) + " is missing";
    if (*size < end)
      return base->describe(file) + " has " + std::to_string(*size) +
             " bytes, but the database refers to " + std::to_string(end) +
             short_file_remark(*base, file);
  }
  return "";
}

}  // namespace cairn::inline v0::ocdbt
