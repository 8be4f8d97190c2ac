// sstable_writer.cc -- puts entries into blocks and blocks into the file.
#include <cairn/formats/tensorflow/index/sstable_writer.h>

#include <cairn/base/checksum.h>
#include <cairn/formats/tensorflow/index/sstable.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kFooterHandles = 40;  // bytes, including the zeros after the handles

std::size_t shared_size(std::string_view a, std::string_view b) {
  const auto longest = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(longest), b.begin()).first -
      a.begin());
}

// A short string between two keys: not less than the first, less than the second.
std::string separator_of(std::string_view first, std::string_view second) {
  const std::size_t at = shared_size(first, second);
  if (at == first.size()) return std::string(first);
  const auto byte = static_cast<unsigned char>(first[at]);
  if (byte == 0xff || byte + 1 >= static_cast<unsigned char>(second[at])) return std::string(first);
  return std::string(first.substr(0, at)) + static_cast<char>(byte + 1);
}

// A short string that is not less than the key.
std::string successor_of(std::string_view key) {
  const auto at = std::find_if(key.begin(), key.end(), [](char c) { return c != '\xff'; });
  if (at == key.end()) return std::string(key);
  return std::string(key.begin(), at) + static_cast<char>(static_cast<unsigned char>(*at) + 1);
}

}  // namespace

void SstableBlock::add(std::string_view key, ByteView value) {
  std::size_t shared = 0;
  if (since_restart_ < restart_interval_) {
    shared = shared_size(last_key_, key);
  } else {
    restarts_.push_back(static_cast<std::uint32_t>(entries_.size()));
    since_restart_ = 0;
  }
  entries_.varint(shared)
      .varint(key.size() - shared)
      .varint(value.size())
      .text(key.substr(shared))
      .bytes(value);
  last_key_ = key;
  ++since_restart_;
}

Bytes SstableBlock::finish() {
  for (const std::uint32_t restart : restarts_) entries_.u32(restart);
  entries_.u32(static_cast<std::uint32_t>(restarts_.size()));
  Bytes contents = std::exchange(entries_, ByteWriter()).take();
  *this = SstableBlock(restart_interval_);
  return contents;
}

void SstableWriter::add(std::string_view key, ByteView value) {
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max() / 2;
  if (key.size() > kMost || value.size() > kMost)
    throw Error(Code::kInvalidArgument, "an entry is too large for a table");
  if (any_ && key <= last_key_)
    throw Error(Code::kInvalidArgument, "the keys of a table must increase");
  if (options_.large_entries_apart && !data_.empty() &&
      key.size() + value.size() >= 2 * options_.block_bytes)
    end_block();
  if (ended_) index_block(separator_of(last_key_, key));
  data_.add(key, value);
  any_ = true;
  last_key_ = key;
  if (data_.size() >= options_.block_bytes) end_block();
}

void SstableWriter::end_block() { ended_ = write_block(data_.finish()); }

void SstableWriter::index_block(std::string_view separator) {
  ByteWriter handle;
  handle.varint(ended_->offset).varint(ended_->size);
  index_.add(separator, handle.view());
  ended_.reset();
}

SstableWriter::Handle SstableWriter::write_block(const Bytes& contents) {
  const Handle handle{file_.size(), contents.size()};
  const std::byte type{kRawBlock};
  ByteWriter trailer;
  trailer.u8(kRawBlock).u32(crc32c_masked(crc32c_extend(crc32c(contents), {&type, 1})));
  const ByteView parts[] = {contents, trailer.view()};
  file_.append(parts);
  return handle;
}

void SstableWriter::finish() {
  if (!data_.empty()) end_block();
  const Handle meta = write_block(SstableBlock(1).finish());
  if (ended_) index_block(successor_of(last_key_));
  const Handle index = write_block(index_.finish());
  ByteWriter footer;
  footer.varint(meta.offset).varint(meta.size).varint(index.offset).varint(index.size);
  while (footer.size() < kFooterHandles) footer.u8(0);
  footer.u64(kSstableMagic);
  file_.append(footer.view());
}

}  // namespace cairn::inline v0
