#include <cairn/orbax/layout/names.h>

#include <cairn/io/temporary_name.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>

namespace cairn::inline v0::orbax {

bool is_temporary(std::string_view name) {
  return name.find(kTemporaryMark) != std::string_view::npos;
}

bool is_partial(std::string_view name) {
  return name.ends_with(kPartialMark) || name.find(kPendingMark) != std::string_view::npos;
}

std::string without_temporary_mark(std::string_view name) {
  return std::string(name.substr(0, name.find(kTemporaryMark)));
}

bool is_item_file(std::string_view name) {
  for (const auto known : {kTreeMetadataFile, kCheckpointMetadataFile, kShardingFile, kStringsFile,
                           kAggregateFile, kCommitFile, kV1Marker, kDeletionFile})
    if (name == known) return true;
  return false;
}

bool is_database_entry(std::string_view name, bool is_folder) {
  if (is_folder)
    return name.starts_with(kProcessPrefix) ||
           std::find(kDataFolders.begin(), kDataFolders.end(), name) != kDataFolders.end();
  return name.starts_with("manifest.") || is_temporary_name(name) || name.ends_with(".__lock");
}

const char* flaw_of_folder_name(std::string_view name) {
  if (name == "/") return "is a slash, so Orbax cannot restore it from a folder of its own";
  constexpr std::string_view kTaken[] = {kTreeMetadataFile, kShardingFile,
                                         kStringsFile,      kArrayMetadataFolder,
                                         kCommitFile,       kCheckpointMetadataFile};
  const std::string_view folder = name.substr(0, name.find('/'));
  if (std::find(std::begin(kTaken), std::end(kTaken), folder) != std::end(kTaken))
    return "begins with the name of a file that Orbax keeps beside the folders of the arrays";
  if (folder.starts_with(kProcessPrefix))
    return "begins as the folder of a process's database, which a save would merge and remove";
  // TensorStore's file paths take a backslash as a slash, so Orbax would look elsewhere.
  return name.find('\\') == std::string_view::npos
             ? nullptr
             : "has a backslash, so Orbax cannot restore it from a folder of its own";
}

std::optional<std::int64_t> parse_step(std::string_view name) {
  const std::size_t last_other = name.find_last_not_of("0123456789");
  const std::string_view digits =
      last_other == std::string_view::npos ? name : name.substr(last_other + 1);
  if (digits.empty() ||
      (last_other != std::string_view::npos && (name[last_other] != '_' || last_other == 0)))
    return std::nullopt;
  if (is_temporary(name) || is_partial(name)) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return status == std::errc() && end == digits.data() + digits.size() ? std::optional(step)
                                                                       : std::nullopt;
}

}  // namespace cairn::inline v0::orbax
