// value_fingerprints.h -- remembers what this process has stored and where, so that it can tell
// that stored elements are unchanged without reading them.
#pragma once

#include <cairn/base/fingerprint.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/storage/kvstore.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace cairn::inline v0 {

// The fingerprints of the elements that lie encoded in byte ranges of files. An entry counts only
// while the file is as it was: any write to it changes its state. Safe to use from many threads.
class ValueFingerprints {
 public:
  // Where a value is stored.
  using Range = std::tuple<FileState, std::uint64_t, std::uint64_t>;  // file, offset, length

  [[nodiscard]] std::optional<Fingerprint> find(const Range& range) const;
  // Remembers the values of one more save. Forgets those of the oldest.
  void add(std::map<Range, Fingerprint> saved);
  // The files of all values.
  [[nodiscard]] SyncedFiles& files() { return files_; }

 private:
  static constexpr std::size_t kMostSaves = 16;  // each item of a checkpoint counts

  mutable std::mutex mutex_;
  std::deque<std::map<Range, Fingerprint>> saves_;  // the newest first
  SyncedFiles files_;
};

// The fingerprints of the values of one save. Safe to use from many threads.
class SavedFingerprints {
 public:
  explicit SavedFingerprints(ValueFingerprints& known) : known_(known) {}

  [[nodiscard]] const ValueFingerprints& known() const { return known_; }
  // Notes a value that this save writes.
  void note(std::string_view key, const Fingerprint& fingerprint);
  [[nodiscard]] bool has(std::string_view key) const;  // whether note() was called
  // Notes a value that was found unchanged in a file of this state. Does nothing if the next write
  // to the file may leave its state as it is.
  void note_stored(const ValueFingerprints::Range& range, const Fingerprint& fingerprint);
  // Adds everything to the known ones. `store` tells where the written values are; their files are
  // stamped, so that no later write to them goes unnoticed. Where the file system rounds the time,
  // nothing is remembered. Call it last.
  void finish(const KvStore& store);

 private:
  ValueFingerprints& known_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Fingerprint> written_;
  std::map<ValueFingerprints::Range, Fingerprint> stored_;
};

}  // namespace cairn::inline v0
