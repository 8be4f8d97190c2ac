// value_fingerprints.cc -- tables of fingerprints, by file range and by key.
#include <cairn/kvstore/value_fingerprints.h>

#include <utility>

namespace cairn::inline v0 {

std::optional<Fingerprint> ValueFingerprints::find(const Range& range) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& saved : saves_)
    if (const auto found = saved.find(range); found != saved.end()) return found->second;
  return std::nullopt;
}

void ValueFingerprints::add(std::map<Range, Fingerprint> saved) {
  const std::scoped_lock lock(mutex_);
  saves_.push_front(std::move(saved));
  if (saves_.size() > kMostSaves) saves_.pop_back();
}

void SavedFingerprints::note(std::string_view key, const Fingerprint& fingerprint) {
  const std::scoped_lock lock(mutex_);
  written_.insert_or_assign(std::string(key), fingerprint);
}

bool SavedFingerprints::has(std::string_view key) const {
  const std::scoped_lock lock(mutex_);
  return written_.contains(std::string(key));
}

void SavedFingerprints::note_stored(const ValueFingerprints::Range& range,
                                    const Fingerprint& fingerprint) {
  const std::scoped_lock lock(mutex_);
  stored_.insert_or_assign(range, fingerprint);
}

void SavedFingerprints::finish(const KvStore& store) {
  std::unordered_map<std::string, FileState> files;
  for (const auto& [key, fingerprint] : written_) {
    const auto at = store.locate(key);
    if (!at) continue;  // inside a node of a database: too small to be shared
    auto [file, is_new] = files.try_emplace(at->file);
    if (is_new) {
      stamp_file(at->file);
      file->second = File::open(at->file).state();
    }
    stored_.emplace(ValueFingerprints::Range{file->second, at->offset, at->length}, fingerprint);
  }
  known_.add(std::move(stored_));
}

}  // namespace cairn::inline v0
