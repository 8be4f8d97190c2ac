#include <cairn/formats/tensorflow/index/sstable_block.h>

#include <cairn/base/checksum.h>
#include <cairn/base/errors.h>
#include <cairn/codec/decompress.h>

#include <algorithm>
#include <functional>
#include <limits>

namespace cairn::inline v0 {
namespace {

constexpr std::uint8_t kSnappy = 1;

std::size_t varint_size(std::uint64_t value) {
  std::size_t size = 1;
  for (; value >= 0x80; value >>= 7U) ++size;
  return size;
}

// The entries without the table of restarts after them, which it decodes.
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

}  // namespace

// The footer has no checksum, so only the shortest form of a number is accepted: then no bit of it
// can change unnoticed.
SstableHandle take_sstable_handle(ByteReader& in, std::uint64_t end) {
  const std::size_t start = in.offset();
  const SstableHandle handle{in.varint(), in.varint()};
  if (in.offset() - start != varint_size(handle.offset) + varint_size(handle.size))
    data_loss("a handle has more bytes than it needs");
  if (handle.size > end || handle.offset > end - handle.size ||
      end - handle.size - handle.offset < kSstableTrailer)
    data_loss("a block of " + std::to_string(handle.size) + " bytes at byte " +
              std::to_string(handle.offset) +
              " is not inside the table, whose blocks end at byte " + std::to_string(end));
  return handle;
}

SstableFooter read_sstable_footer(std::uint64_t size, const SstableReadFn& read) {
  if (size < kSstableFooter)
    data_loss(std::to_string(size) + " bytes are too few for a table: its footer alone has " +
              std::to_string(kSstableFooter));
  const std::uint64_t end = size - kSstableFooter;
  Bytes bytes(kSstableFooter);
  read(end, bytes);
  if (ByteReader(ByteView(bytes).last(8)).u64() != kSstableMagic)
    data_loss("is not a table: it does not end with a table's magic number");
  return with_context(
      [] { return "the footer"; },
      [&] {
        ByteReader handles(ByteView(bytes).first(kSstableFooter - 8));
        SstableFooter footer;
        footer.meta = take_sstable_handle(handles, end);
        footer.index = take_sstable_handle(handles, end);
        const ByteView rest = handles.take(handles.remaining());
        if (std::any_of(rest.begin(), rest.end(), [](std::byte b) { return b != std::byte{0}; }))
          data_loss("bytes after its handles are not zero");
        return footer;
      });
}

Bytes read_sstable_block(const SstableHandle& handle, const SstableReadFn& read) {
  if (handle.size > kMaxSstableBlock)
    data_loss("it has " + std::to_string(handle.size) + " bytes, at most " +
              std::to_string(kMaxSstableBlock) + " are expected");
  Bytes block(handle.size + kSstableTrailer);
  read(handle.offset, block);
  ByteReader trailer(ByteView(block).subspan(handle.size));
  const std::uint8_t type = trailer.u8();
  const std::uint32_t stored = trailer.u32();
  const std::uint32_t computed = crc32c_masked(crc32c(ByteView(block).first(handle.size + 1)));
  if (stored != computed)
    data_loss("checksum mismatch: stored " + std::to_string(stored) + ", computed " +
              std::to_string(computed));
  block.resize(handle.size);
  if (type == kSnappy) return decompress_snappy(block, kMaxSstableBlock);
  if (type != kRawBlock)
    data_loss("it is of type " + std::to_string(type) + "; expected 0 (raw) or 1 (snappy)");
  return block;
}

SstableEntries::SstableEntries(ByteView contents) : in_(entries_of(contents, restarts_)) {}

bool SstableEntries::next() {
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

}  // namespace cairn::inline v0
