// sstable.cc -- finds blocks by their handles, checks them and decodes their entries.
#include <cairn/formats/tensorflow/index/sstable.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/formats/tensorflow/index/sstable_block.h>
#include <cairn/io/file.h>

#include <string>

namespace cairn::inline v0 {
namespace {

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

std::string block_text(const char* what, const SstableHandle& handle) {
  return std::string(what) + " at byte " + std::to_string(handle.offset);
}

// Calls `entry` for the entries, in order, until it returns false.
void read_entries(std::uint64_t size, const SstableReadFn& read,
                  const std::function<bool(std::string_view key, ByteView value)>& entry) {
  const SstableFooter footer = read_sstable_footer(size, read);
  const std::uint64_t end = size - kSstableFooter;
  const SstableHandle& meta = footer.meta;
  const SstableHandle& index = footer.index;
  // The metaindex may name filters; the reader does not need them.
  with_context([&] { return block_text("the metaindex block", meta); },
               [&] {
                 const Bytes contents = read_sstable_block(meta, read);
                 SstableEntries entries{ByteView(contents)};
                 while (entries.next()) {
                 }
               });
  const Bytes contents = with_context([&] { return block_text("the index block", index); },
                                      [&] { return read_sstable_block(index, read); });
  KeyOrder keys;
  SstableEntries blocks{ByteView(contents)};
  const auto next_block = [&] {
    return with_context([&] { return block_text("the index block", index); },
                        [&] { return blocks.next(); });
  };
  bool goes_on = true;
  while (goes_on && next_block()) {
    const SstableHandle handle = with_context([&] { return block_text("the index block", index); },
                                              [&] {
                                                ByteReader value(blocks.value());
                                                const SstableHandle found =
                                                    take_sstable_handle(value, end);
                                                value.finish();
                                                return found;
                                              });
    with_context([&] { return block_text("the block", handle); },
                 [&] {
                   const Bytes data = read_sstable_block(handle, read);
                   SstableEntries entries{ByteView(data)};
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
  if (size < kSstableFooter) return false;
  Bytes magic(sizeof kSstableMagic);
  file.read_into(size - magic.size(), magic);
  return ByteReader(magic).u64() == kSstableMagic;
}

bool is_sstable(const FileTree& tree, const std::string& path) {
  const auto file = tree.try_open(path);
  return file && is_sstable(*file);
}

}  // namespace cairn::inline v0
