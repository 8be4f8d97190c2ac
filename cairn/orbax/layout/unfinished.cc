#include <cairn/orbax/layout/unfinished.h>

#include <cairn/base/errors.h>
#include <cairn/orbax/layout/detect.h>
#include <cairn/orbax/layout/metadata.h>

#include <filesystem>

namespace cairn::inline v0::orbax {
namespace {

namespace fs = std::filesystem;

// A save to a store writes to the final names, and its marker last. On gs:// Orbax asks for the
// marker. Elsewhere a checkpoint may have been uploaded from a folder in which an older version of
// Orbax wrote none; then it has a commit time, or no record of a save.
std::string unfinished_in_store(const Listing& listing) {
  if (listing.folder == nullptr || listing.folder->is_local()) return "";
  const std::string no_marker = "there is no " + std::string(kCommitFile);
  const bool is_recorded = listing.has_file(kCheckpointMetadataFile);
  if (listing.path.starts_with("gs://") && (is_recorded || listing.has_file(kTreeMetadataFile)))
    return no_marker + ", which a save to gs:// writes last";
  if (!is_recorded || listing.has_file(kV1Marker)) return "";
  const auto metadata = try_call([&] {
    return read_checkpoint_metadata(*listing.folder, join(listing.path, kCheckpointMetadataFile));
  });
  const bool is_started =
      metadata && metadata.value().init_time_ns && !metadata.value().commit_time_ns;
  return is_started ? no_marker + ", and " + std::string(kCheckpointMetadataFile) +
                          " has no commit time: its save has not ended"
                    : "";
}

}  // namespace

std::string unfinished_name(const std::string& path) {
  for (const auto& part : fs::path(path)) {
    const std::string name = part.string();
    if (is_temporary(name))
      return "its name has the mark of a temporary directory, '" + std::string(kTemporaryMark) +
             "'";
    if (is_partial(name)) return "it is a partial save that was not finalized";
  }
  return "";
}

std::string unfinished_content(const Listing& listing) {
  if (listing.has_file(kCommitFile)) return "";
  if (std::string why = unfinished_in_store(listing); !why.empty()) return why;
  if (listing.has_file(kCheckpointMetadataFile) && !listing.has_file(kV1Marker)) {
    const auto metadata = try_call([&] {
      return read_checkpoint_metadata(*listing.folder, join(listing.path, kCheckpointMetadataFile));
    });
    if (metadata && is_unfinished(metadata.value()))
      return "its save was started but never committed: no " + std::string(kCommitFile) + ", and " +
             std::string(kCheckpointMetadataFile) + " has no commit time and no handlers";
  }
  if (!listing.has_file(kManifestFile) && has_process_database(listing))
    return "the databases of its processes were not merged: there is no " +
           std::string(kManifestFile);
  return "";
}

std::string unfinished_part(const Layout& layout, const Listing& listing) {
  std::string why = unfinished_content(listing);
  for (const auto& item : layout.items) {
    if (!why.empty()) break;
    if (is_temporary(fs::path(item.path).filename().string()))
      why = "its item '" + item.name + "' has the mark of a temporary directory";
    else if (const auto listed =
                 try_call([&] { return list_directory(listing.folder, item.path); });
             listed && is_pytree(item) && !listing.has_file(kCommitFile)) {
      why = unfinished_content(listed.value());
      if (!why.empty() && !item.name.empty()) why.insert(0, item.path + ": ");
    }
  }
  return why;
}

}  // namespace cairn::inline v0::orbax
