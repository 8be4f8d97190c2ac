// names.h -- the names that Orbax gives to files and folders.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {

inline constexpr std::string_view kTreeMetadataFile = "_METADATA";
inline constexpr std::string_view kCheckpointMetadataFile = "_CHECKPOINT_METADATA";
inline constexpr std::string_view kShardingFile = "_sharding";
inline constexpr std::string_view kStringsFile = "_strings.json";
inline constexpr std::string_view kArrayMetadataFolder = "array_metadatas";
// the names of the files in kArrayMetadataFolder start with it
inline constexpr std::string_view kArrayMetadataPrefix = "process_";
inline constexpr std::string_view kAggregateFile = "checkpoint";
// The maximum size in bytes of each of the files above.
inline constexpr std::uint64_t kMaxMetadataFile = std::uint64_t{2} << 30U;
inline constexpr std::string_view kManifestFile = "manifest.ocdbt";
inline constexpr std::string_view kProcessPrefix = "ocdbt.process_";
inline constexpr std::string_view kCommitFile = "commit_success.txt";
// In a v1 checkpoint: the record of a deletion of one item that has not ended, and the prefix of
// the files that are written for it under another name first.
inline constexpr std::string_view kDeletionFile = "_CHECKPOINT_DELETION";
inline constexpr std::string_view kDeletionTemporaryPrefix = ".orbax-delete-";
inline constexpr std::string_view kV1Marker = "orbax.checkpoint";
// The last file of a Distributed Checkpoint of PyTorch.
inline constexpr std::string_view kDistributedFile = ".metadata";
inline constexpr std::string_view kDistributedDataEnding = ".distcp";
inline constexpr std::string_view kTemporaryMark = ".orbax-checkpoint-tmp";
// Ends the name of a step that is being removed. As older versions of Orbax name temporary folders,
// something follows kTemporaryMark.
inline constexpr std::string_view kRemovedMark = ".orbax-checkpoint-tmp-removed";
// kPartialMark ends the name of the folder that holds the pending partial saves.
inline constexpr std::string_view kPartialMark = ".partial_save";
inline constexpr std::string_view kPendingMark = ".partial_save.pending_";
inline constexpr std::string_view kRootMetadataFolder = "metadata";
inline constexpr std::string_view kRootMetadataFile = "_ROOT_METADATA";
inline constexpr std::string_view kLegacyRootMetadataFile = "metadata";

// The folders with the data files of a database.
inline constexpr std::array<std::string_view, 3> kDataFolders = {"d", "ocdbt_data", "ocdbt_meta"};

// Whether Orbax gives a file of this name a meaning of its own in the folder of an item.
bool is_item_file(std::string_view name);
// Whether the folder of a database may have an entry of this name. An item may be named as the
// database of a process is; its folder has other entries, too.
bool is_database_entry(std::string_view name, bool is_folder);

// Returns the step number of a folder name: "12" -> 12, "step_00000012" -> 12. Returns nullopt for
// other names, including temporary names.
std::optional<std::int64_t> parse_step(std::string_view name);

// Why Orbax cannot restore an array from a folder of the parameter's name; nullptr if it can.
const char* flaw_of_folder_name(std::string_view name);

// A directory that is being written or removed, judging by its name.
bool is_temporary(std::string_view name);
// The folder of a partial save that was not finalized.
bool is_partial(std::string_view name);
std::string without_temporary_mark(std::string_view name);

}  // namespace cairn::inline v0::orbax
