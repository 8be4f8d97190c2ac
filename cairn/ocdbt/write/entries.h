// entries.h -- the input of the tree writer: entries with whole keys and whole file names, before
// they are split into nodes.
#pragma once

#include <cairn/ocdbt/format/btree.h>
#include <cairn/storage/kvstore.h>

#include <deque>
#include <map>
#include <memory_resource>
#include <mutex>
#include <string_view>

namespace cairn::inline v0::ocdbt {

// Numbers data files, so that entries stay small. Paths are relative to the database's store, with
// an empty outer base path. Safe to use from many threads. Added files do not move in memory.
class FileSet {
 public:
  // Returns the number of the file; adds it if it is new.
  std::uint32_t add(const DataFile& file) {
    const std::scoped_lock lock(mutex_);
    const auto [at, is_new] = numbers_.try_emplace({file.base_path, file.relative_path},
                                                   static_cast<std::uint32_t>(files_.size()));
    if (is_new) files_.push_back(file);
    return at->second;
  }
  [[nodiscard]] const DataFile& operator[](std::uint32_t number) const {
    const std::scoped_lock lock(mutex_);
    return files_[number];
  }

 private:
  mutable std::mutex mutex_;
  std::deque<DataFile> files_;
  std::map<std::pair<std::string, std::string>, std::uint32_t> numbers_;
};

// Owns copies of small strings and values until it is destroyed. Use it from one thread at a time.
class Arena {
 public:
  // Copies the concatenation of `a` and `b` into the arena.
  std::string_view keep(std::string_view a, std::string_view b = {}) {
    if (a.size() + b.size() == 0) return {};
    char* const text = static_cast<char*>(memory_.allocate(a.size() + b.size(), 1));
    a.copy(text, a.size());
    b.copy(text + a.size(), b.size());
    return {text, a.size() + b.size()};
  }
  // Returns uninitialised memory in the arena.
  MutableByteView allocate(std::size_t size) {
    return size == 0 ? MutableByteView()
                     : MutableByteView(static_cast<std::byte*>(memory_.allocate(size, 1)), size);
  }

 private:
  std::pmr::monotonic_buffer_resource memory_;
};

// A key and its value: inline, or bytes [offset, offset + length) of a file.
struct LeafEntry {
  static constexpr std::uint32_t kInline = LeafValue::kInline;
  std::string_view key;
  ByteView inline_value{};
  std::uint32_t file = kInline;  // number in a FileSet
  std::uint64_t offset = 0;
  std::uint64_t length = 0;  // of an out-of-line value

  [[nodiscard]] bool is_inline() const { return file == kInline; }
};

// The entry for a node that has been written.
struct ChildEntry {
  std::string_view key;  // not greater than the first key in the node
  // length of the prefix of `key` that all keys in the node share and that the node omits
  std::size_t common_prefix = 0;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  Statistics statistics{};
};

// One change to the tree: a new value or a removal.
struct Edit {
  LeafEntry entry;
  bool remove = false;
  std::uint64_t sequence = 0;  // of two edits of one key, the one with the larger number counts
};

// The net effect of changes: one edit for each key, in key order; ranges in key order that do not
// touch each other. Ranges are applied before edits.
struct Edits {
  std::vector<KeyRange> removed;
  std::vector<Edit> edits;
};

}  // namespace cairn::inline v0::ocdbt
