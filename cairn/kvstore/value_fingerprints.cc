// value_fingerprints.cc -- tables of fingerprints, by file range and by key.
#include <cairn/kvstore/value_fingerprints.h>

#include <chrono>
#include <set>
#include <utility>

namespace cairn::inline v0 {
namespace {

// Whether the file was last written so long ago that a write from now on changes its time, even if
// the file system counts in steps of two seconds.
bool is_settled(const FileState& file) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return file.modified_ns < std::chrono::nanoseconds(now - std::chrono::seconds(3)).count();
}

}  // namespace

std::optional<Fingerprint> ValueFingerprints::find(const Range& range) const {
  const std::scoped_lock lock(mutex_);
  for (const auto& saved : saves_)
    if (const auto found = saved.find(range); found != saved.end()) return found->second;
  return std::nullopt;
}

void ValueFingerprints::add(std::map<Range, Fingerprint> saved) {
  std::set<FileState> files;
  for (const auto& [range, fingerprint] : saved) files.insert(std::get<FileState>(range));
  files_.track(files);
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
  if (!is_settled(std::get<FileState>(range)) && !known_.find(range)) return;
  const std::scoped_lock lock(mutex_);
  stored_.insert_or_assign(range, fingerprint);
}

void SavedFingerprints::finish(const KvStore& store) {
  std::unordered_map<std::string, std::optional<FileState>> files;  // nullopt: not to be known
  for (const auto& [key, fingerprint] : written_) {
    const auto at = store.locate(key);
    if (!at) continue;  // inside a node of a database: too small to be shared
    auto [state, is_new] = files.try_emplace(at->file);
    if (is_new) {
      const File file = File::open(at->file);
      if (file.stamp()) state->second = file.state();
    }
    if (state->second)
      stored_.emplace(ValueFingerprints::Range{*state->second, at->offset, at->length},
                      fingerprint);
  }
  known_.add(std::move(stored_));
}

}  // namespace cairn::inline v0
