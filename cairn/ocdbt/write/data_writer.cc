// data_writer.cc -- data files: names them, gathers small records, and begins a new file at the
// target size.
#include <cairn/ocdbt/write/data_writer.h>

#include <cairn/base/hash.h>
#include <cairn/kvstore/upload_memory.h>
#include <fmt/format.h>

#include <random>
#include <utility>

namespace cairn::inline v0::ocdbt {
namespace {

// bytes that are gathered before they are passed to the store
constexpr std::size_t kGather = std::size_t{1} << 20U;
// for larger parts, copying costs more than another call
constexpr std::size_t kLarge = std::size_t{1} << 16U;

std::array<std::uint8_t, 16> bytes_of(std::uint64_t a, std::uint64_t b) {
  std::array<std::uint8_t, 16> id{};
  for (unsigned i = 0; i < 8; ++i) {
    id[i] = static_cast<std::uint8_t>(a >> (8 * i));
    id[i + 8] = static_cast<std::uint8_t>(b >> (8 * i));
  }
  return id;
}

}  // namespace

std::array<std::uint8_t, 16> random_id() {
  std::random_device device;
  const auto draw = [&] { return std::uint64_t{device()} << 32U | device(); };
  const std::uint64_t first = draw();
  return bytes_of(first, draw());
}

std::array<std::uint8_t, 16> seeded_id(std::uint64_t seed, std::uint64_t number,
                                       std::uint64_t index) {
  const std::uint64_t state = splitmix64(splitmix64(splitmix64(seed) ^ number) ^ index);
  return bytes_of(state, splitmix64(state));
}

DataWriter::DataWriter(StorePtr base, FileSet& files, DataWriterOptions options)
    : base_(std::move(base)), files_(files), options_(std::move(options)) {}

void DataWriter::begin() {
  const auto id = options_.seed ? seeded_id(*options_.seed, options_.number, begun_) : random_id();
  std::string name = options_.prefix;
  for (const auto byte : id) name += fmt::format("{:02x}", byte);
  appender_ = base_->append(name);
  if (options_.memory > 0) limit_memory(*appender_, options_.memory);
  ++begun_;
  file_ = files_.add({.base_path = {}, .relative_path = name});
  key_ = std::move(name);
  size_ = 0;
}

void DataWriter::flush(std::span<const ByteView> more) {
  std::vector<ByteView> parts;
  parts.reserve(more.size() + 1);
  if (!gathered_.empty()) parts.emplace_back(gathered_);
  for (const ByteView part : more)
    if (!part.empty()) parts.push_back(part);
  if (!parts.empty()) appender_->append(parts);
  gathered_.clear();
}

DataWriter::Place DataWriter::append(std::span<const ByteView> parts,
                                     const std::function<void()>& end) {
  if (!appender_) begin();
  std::uint64_t length = 0;
  for (const ByteView part : parts) length += part.size();
  const Place place{.file = file_, .offset = size_};
  if (length >= kLarge) {
    const std::size_t made = end ? parts.size() - 1 : parts.size();
    flush(parts.first(made));
    if (end) end();
    flush(parts.subspan(made));
  } else {
    if (end) end();
    if (gathered_.size() + length > kGather) flush({});
    for (const ByteView part : parts) gathered_.insert(gathered_.end(), part.begin(), part.end());
  }
  size_ += length;
  if (options_.target_size > 0 && size_ >= options_.target_size) finish();
  return place;
}

void DataWriter::finish() {
  if (!appender_) return;
  flush({});
  // Recorded before commit(): if it fails half way, the file may exist.
  finished_.push_back(key_);
  appender_->commit();
  appender_.reset();
}

}  // namespace cairn::inline v0::ocdbt
