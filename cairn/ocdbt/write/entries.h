// entries.h -- what a tree is written from: entries with whole keys and whole file names, before
// they are cut into nodes.
#pragma once

#include <cairn/kvstore.h>
#include <cairn/ocdbt/format/btree.h>

#include <deque>
#include <map>
#include <memory_resource>
#include <mutex>
#include <string_view>

namespace cairn::ocdbt {

// Numbers data files, so that entries stay small. Paths are those in the store of the database:
// nothing is in front of the base path. Safe to use from many threads; what was added stays where
// it is.
class FileSet {
 public:
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

// Copies of small texts and values, all of which live as long as it does. For one thread at a time.
class Arena {
 public:
  std::string_view keep(std::string_view a, std::string_view b = {}) {
    if (a.size() + b.size() == 0) return {};
    char* const text = static_cast<char*>(memory_.allocate(a.size() + b.size(), 1));
    a.copy(text, a.size());
    b.copy(text + a.size(), b.size());
    return {text, a.size() + b.size()};
  }
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
  std::uint64_t length = 0;  // of a value out of line

  [[nodiscard]] bool is_inline() const { return file == kInline; }
};

// A node that is written.
struct ChildEntry {
  std::string_view key;  // not greater than the first in it
  // bytes of `key` that all keys in it begin with and that it leaves out
  std::size_t common_prefix = 0;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  Statistics statistics{};
};

// One change to the tree.
struct Edit {
  LeafEntry entry;
  bool remove = false;
  std::uint64_t sequence = 0;  // of two edits of one key the later one counts
};

// Changes in their final form: one edit a key, by key; ranges by key, none touching another. Ranges
// go before edits.
struct Edits {
  std::vector<KeyRange> removed;
  std::vector<Edit> edits;
};

}  // namespace cairn::ocdbt
