// in_store.h -- the checkpoints of an object store, which are written in place (in_place.h).
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/tree/folder_handle.h>
#include <cairn/storage/kvstore.h>

#include <optional>
#include <string>

namespace cairn::inline v0::orbax {

// Whether a save or a removal has left the folder unfinished: nothing is written in it yet, or it
// has a start time but no commit time, no handlers and no marker.
bool is_unfinished(const FolderHandle& folder);

// The record of the checkpoint as the folder shows it; nullopt: it has none.
std::optional<Buffer> seen_record(const FolderHandle& seen);
// Whether the key has this value now; nullopt: whether it is absent.
bool holds_value(const KvStore& store, const std::string& key, std::optional<ByteView> value);

// Replaces the record of an unfinished or older checkpoint by one of a save that has just begun,
// and returns that. Whoever would commit or remove what `seen` shows then finds another record.
// `folder` as in remove_in_store(). Throws unavailable if the record is no longer the one in
// `seen`.
std::string claim_in_store(KvStore& store, const std::string& folder, const FolderHandle& seen);

// Claims a place where nothing is, as a save that has just begun, and returns its record.
// Throws unavailable if a record is there.
std::string claim_empty_in_store(KvStore& store, const std::string& folder);
// Replaces a claim by the final record; nullopt: by none. Throws unavailable if another save or
// removal has claimed the place meanwhile.
void end_claim_in_store(KvStore& store, const std::string& folder, const std::string& claim,
                        std::optional<ByteView> record);

// Removes a leftover that claim_in_store() has claimed with this record: all keys that begin with
// `folder`, which is "" or ends in '/'. The record goes last, so that a kill leaves something
// unfinished. Throws unavailable if another save or removal has claimed the place meanwhile.
void remove_claimed_in_store(KvStore& store, const std::string& folder, const std::string& record);

// Removes the checkpoint that `seen` shows: its marker, then the commit time of its record, which
// claims the rest, then everything else, and the record last. Throws unavailable if another save or
// removal has taken the place meanwhile, which then decides about the rest.
void remove_in_store(KvStore& store, const std::string& folder, const FolderHandle& seen);

}  // namespace cairn::inline v0::orbax
