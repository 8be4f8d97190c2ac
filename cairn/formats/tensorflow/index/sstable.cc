// sstable.cc -- finds blocks by their handles, checks them and decodes their entries.
#include <cairn/formats/tensorflow/index/sstable.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/base/errors.h>
#include <cairn/codec/decompress.h>
#include <cairn/io/file.h>

#include <algorithm>
#include <limits>
#include <string>

namespace cairn::inline v0 {
namespace {

constexpr std::uint64_t kFooter = 48;
constexpr std::uint64_t kTrailer = 5;  // of a block: its type and checksum
// TensorFlow ends a block at a quarter of a megabyte; only a larger entry makes a larger block.
constexpr std::uint64_t kMaxBlock = std::uint64_t{64} << 20U;
constexpr std::uint8_t kSnappy = 1;

// The location of a block; the trailer follows it.
struct Handle {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  for (; value >= 0x80; value >>= 7U) ++size;
  return size;
}

// Reads a handle. Throws unless the block lies before `end`. The footer has no checksum, so only
// the shortest form of a number is accepted: then no bit of it can change unnoticed.
Handle take_handle(ByteReader& in, std::uint64_t end) {
  const std::size_t start = in.offset();
  const Handle handle{in.varint(), in.varint()};
  if (in.offset() - start != varint_size(handle.offset) + varint_size(handle.size))
    data_loss("a handle has more bytes than it needs");
  if (handle.size > end || handle.offset > end - handle.size ||
      end - handle.size - handle.offset < kTrailer)
    data_loss("a block of " + std::to_string(handle.size) + " bytes at byte " +
              std::to_string(handle.offset) +
              " is not inside the table, whose blocks end at byte " + std::to_string(end));
  return handle;
}

Bytes read_block(const Handle& handle, const SstableReadFn& read) {
  if (handle.size > kMaxBlock)
    data_loss("it has " + std::to_string(handle.size) + " bytes, at most " +
              std::to_string(kMaxBlock) + " are expected");
  Bytes block(handle.size + kTrailer);
  read(handle.offset, block);
  ByteReader trailer(ByteView(block).subspan(handle.size));
  const std::uint8_t type = trailer.u8();
  const std::uint32_t stored = trailer.u32();
  const std::uint32_t computed = crc32c_masked(crc32c(ByteView(block).first(handle.size + 1)));
  if (stored != computed)
    data_loss("checksum mismatch: stored " + std::to_string(stored) + ", computed " +
              std::to_string(computed));
  block.resize(handle.size);
  if (type == kSnappy) return decompress_snappy(block, kMaxBlock);
  if (type != kRawBlock)
    data_loss("it is of type " + std::to_string(type) + "; expected 0 (raw) or 1 (snappy)");
  return block;
}

// The entries without the table of restarts after them. Restarts tell where a key is stored in
// full. A sequential reader does not need them, but checks that they are right.
ByteView entries_of(ByteView contents, std::vector<std::uint32_t>& restarts) {
  if (contents.size() < 8) data_loss("it is too short for its table of restarts");
  const std::uint32_t count = ByteReader(contents.last(4)).u32();
  if (count == 0 || count > (contents.size() - 4) / 4)
    data_loss("it has " + std::to_string(count) + " restarts in " +
              std::to_string(contents.size()) + " bytes");
  const std::size_t end = contents.size() - 4 - std::size_t{4} * count;
  ByteReader in(contents.subspan(end, std::size_t{4} * count));
  restarts.clear();
  for (std::uint32_t i = 0; i < count; ++i) restarts.push_back(in.u32());
  if (restarts[0] != 0 || std::adjacent_find(restarts.begin(), restarts.end(),
                                             std::greater_equal<>()) != restarts.end())
    data_loss("its restarts do not begin with the first entry and increase");
  return contents.first(end);
}

// The entries of one block, in order.
class BlockEntries {
 public:
  explicit BlockEntries(ByteView contents) : in_(entries_of(contents, restarts_)) {}

  // Moves to the next entry; returns false at the end.
  bool next() {
    if (in_.at_end()) {
      if (restart_ < restarts_.size() && !(restarts_.size() == 1 && restarts_[0] == in_.offset()))
        data_loss("a restart does not point to an entry");
      return false;
    }
    const std::size_t start = in_.offset();
    const auto shared = in_.varint(std::numeric_limits<std::uint32_t>::max());
    const auto own = in_.varint(std::numeric_limits<std::uint32_t>::max());
    const auto size = in_.varint(std::numeric_limits<std::uint32_t>::max());
    if (restart_ < restarts_.size() && restarts_[restart_] <= start) {
      if (restarts_[restart_] != start || shared != 0)
        data_loss("the entry at byte " + std::to_string(start) + " is not where a restart points");
      ++restart_;
    }
    if (shared > key_.size())
      ByteReader::fail("an entry shares " + std::to_string(shared) + " bytes with a key of " +
                           std::to_string(key_.size()),
                       start);
    key_.resize(shared);
    key_.append(in_.text(own));
    value_ = in_.take(size);
    return true;
  }
  [[nodiscard]] const std::string& key() const { return key_; }
  [[nodiscard]] ByteView value() const { return value_; }

 private:
  std::vector<std::uint32_t> restarts_;
  std::size_t restart_ = 0;  // the next expected restart
  ByteReader in_;
  std::string key_;
  ByteView value_;
};

// Checks the order of keys: as unsigned bytes, each greater than the one before.
class KeyOrder {
 public:
  void check(std::string_view key) {
    if (any_ && key <= last_) data_loss("its keys do not increase");
    last_ = key;
    any_ = true;
  }
  // The index promises no keys above this separator so far. Throws if there was one.
  void pass(std::string_view separator) {
    if (last_ > separator) data_loss("a block has a key greater than its index entry");
    last_ = separator;
  }

 private:
  bool any_ = false;
  std::string last_;
};

std::string block_text(const char* what, const Handle& handle) {
  return std::string(what) + " at byte " + std::to_string(handle.offset);
}

// Calls `entry` for the entries, in order, until it returns false.
void read_entries(std::uint64_t size, const SstableReadFn& read,
                  const std::function<bool(std::string_view key, ByteView value)>& entry) {
  if (size < kFooter)
    data_loss(std::to_string(size) + " bytes are too few for a table: its footer alone has " +
              std::to_string(kFooter));
  const std::uint64_t end = size - kFooter;
  Bytes footer(kFooter);
  read(end, footer);
  if (ByteReader(ByteView(footer).last(8)).u64() != kSstableMagic)
    data_loss("is not a table: it does not end with a table's magic number");
  ByteReader handles(ByteView(footer).first(kFooter - 8));
  Handle meta, index;
  with_context(
      [] { return "the footer"; },
      [&] {
        meta = take_handle(handles, end);
        index = take_handle(handles, end);
        const ByteView rest = handles.take(handles.remaining());
        if (std::any_of(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0}; }))
          data_loss("bytes after its handles are not zero");
      });
  // The metaindex may name filters; the reader does not need them.
  with_context([&] { return block_text("the metaindex block", meta); },
               [&] {
                 const Bytes contents = read_block(meta, read);
                 BlockEntries entries{ByteView(contents)};
                 while (entries.next()) {
                 }
               });
  const Bytes contents = with_context([&] { return block_text("the index block", index); },
                                      [&] { return read_block(index, read); });
  KeyOrder keys;
  BlockEntries blocks{ByteView(contents)};
  const auto next_block = [&] {
    return with_context([&] { return block_text("the index block", index); },
                        [&] { return blocks.next(); });
  };
  bool goes_on = true;
  while (goes_on && next_block()) {
    const Handle handle = with_context([&] { return block_text("the index block", index); },
                                       [&] {
                                         ByteReader value(blocks.value());
                                         const Handle found = take_handle(value, end);
                                         value.finish();
                                         return found;
                                       });
    with_context([&] { return block_text("the block", handle); },
                 [&] {
                   const Bytes data = read_block(handle, read);
                   BlockEntries entries{ByteView(data)};
                   if (!entries.next()) data_loss("has no entries");
                   do {
                     keys.check(entries.key());
                     goes_on = entry(entries.key(), entries.value());
                   } while (goes_on && entries.next());
                   if (goes_on) keys.pass(blocks.key());
                 });
  }
}

}  // namespace

void read_sstable(std::uint64_t size, const SstableReadFn& read,
                  const std::function<void(std::string_view key, ByteView value)>& entry) {
  read_entries(size, read, [&](std::string_view key, ByteView value) {
    entry(key, value);
    return true;
  });
}

std::optional<std::pair<std::string, Bytes>> first_sstable_entry(std::uint64_t size,
                                                                 const SstableReadFn& read) {
  std::optional<std::pair<std::string, Bytes>> first;
  read_entries(size, read, [&](std::string_view key, ByteView value) {
    first.emplace(key, Bytes(value.begin(), value.end()));
    return false;
  });
  return first;
}

bool is_sstable(const File& file) {
  const std::uint64_t size = file.size();
  if (size < kFooter) return false;
  Bytes magic(sizeof kSstableMagic);
  file.read_into(size - magic.size(), magic);
  return ByteReader(magic).u64() == kSstableMagic;
}

bool is_sstable(const FileTree& tree, const std::string& path) {
  const auto file = tree.try_open(path);
  return file && is_sstable(*file);
}

}  // namespace cairn::inline v0
