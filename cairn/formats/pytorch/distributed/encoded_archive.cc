#include <cairn/formats/pytorch/distributed/encoded_archive.h>

#include <cairn/base/errors.h>
#include <cairn/base/executor.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch {
namespace {

// The decoded bytes of an entry. Decodes all of it once and keeps its ends: an archive has its
// pickle at the front and its directory at the end.
class DecodedEntry {
 public:
  // Takes the decoded bytes from `left`.
  DecodedEntry(const File& file, const Entry& entry, std::uint64_t& left)
      : file_(file), entry_(entry), served_left_(served(entry.length)) {
    EntryDecoder decoder(file, entry);
    Bytes before, piece(kEnd);
    std::size_t n = kEnd;
    while (n == kEnd) {
      before.swap(piece);
      piece.resize(kEnd);
      n = decoder.read(piece);
      if (size_ == 0) first_.assign(piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
      size_ += n;
      if (n > left) data_loss(fmt::format("it decodes to too many bytes: more than {}", size_ - n));
      left -= n;
    }
    last_ = std::move(before);
    if (size_ == n) last_.clear();
    last_.insert(last_.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(n));
    left_ = kMostPasses * size_;
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }

  void read(std::uint64_t at, MutableByteView out) {
    // Storages are not read here: these are directories and pickles.
    if (out.size() > served_left_)
      throw Error(Code::kUnimplemented,
                  "its pickle decodes to a large multiple of the bytes that are stored");
    served_left_ -= out.size();
    const std::uint64_t last_begin = size_ - last_.size();
    if (at > size_ || out.size() > size_ - at)
      data_loss(fmt::format("its archive ends at byte {}", size_));
    if (at + out.size() <= first_.size())
      std::copy_n(first_.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
    else if (at >= last_begin)
      std::copy_n(last_.begin() + static_cast<std::ptrdiff_t>(at - last_begin), out.size(),
                  out.begin());
    else
      read_between(at, out);
  }

 private:
  static constexpr std::size_t kEnd = std::size_t{64} << 10U;
  // How often the entry may be decoded from its front.
  static constexpr std::uint64_t kMostPasses = 16;

  static std::uint64_t served(std::uint64_t length) {
    constexpr std::uint64_t kServed = std::uint64_t{16} << 20U, kServedPerByte = 64;
    constexpr std::uint64_t kMostServed = std::uint64_t{4} << 30U;
    return kServed + kServedPerByte * std::min(length, kMostServed / kServedPerByte);
  }

  // Goes on where the last read stopped, if it can.
  void read_between(std::uint64_t at, MutableByteView out) {
    if (!decoder_ || decoder_->position() > at) decoder_.emplace(file_, entry_);
    const std::uint64_t decoded = at - decoder_->position() + out.size();
    if (decoded > left_)
      throw Error(Code::kUnimplemented,
                  "the members of its archive are in an order that takes decoding it many times");
    left_ -= decoded;
    decoder_->skip_to(at);
    decoder_->read_all(out);
  }

  const File& file_;
  const Entry& entry_;
  Bytes first_, last_;
  std::uint64_t size_ = 0;
  std::optional<EntryDecoder> decoder_;
  std::uint64_t left_ = 0;     // bytes that may still be decoded
  std::uint64_t served_left_;  // bytes that may still be asked for
};

// A storage in the archive.
class EntryStorage final : public SequentialBytes {
 public:
  EntryStorage(Entry entry, RawArray member, std::shared_ptr<DecoderPool> pool)
      : entry_(std::move(entry)),
        begin_(member.runs.front().offset),
        size_(member.runs.front().length),
        pool_(std::move(pool)) {
    if (member.checksum) crc_ = member.checksum->whole;
  }
  EntryStorage(const EntryStorage&) = delete;
  EntryStorage& operator=(const EntryStorage&) = delete;
  ~EntryStorage() override { pool_->forget(this); }

  [[nodiscard]] std::uint64_t size() const override { return size_; }
  [[nodiscard]] bool has_checksum() const override { return crc_.has_value(); }

  void read(const std::vector<File>& files, std::uint64_t offset,
            MutableByteView out) const override {
    if (out.empty()) return;
    auto decoder = pool_->take(this, begin_ + offset);
    if (!decoder) decoder = at_begin(files);
    decoder->skip_to(begin_ + offset);
    decoder->read_all(out);
    if (decoder->position() == begin_ + size_)
      check(*decoder);
    else
      pool_->give(this, std::move(decoder));
  }

  void check_whole(const std::vector<File>& files) const override {
    if (is_checked_ || !crc_) return;
    const auto decoder = at_begin(files);
    decoder->skip_to(begin_ + size_);
    check(*decoder);
  }

 private:
  // A new decoder at the first byte of the storage.
  [[nodiscard]] std::unique_ptr<EntryDecoder> at_begin(const std::vector<File>& files) const {
    auto decoder = std::make_unique<EntryDecoder>(files[entry_.file], entry_);
    decoder->skip_to(begin_);
    decoder->begin_crc();
    return decoder;
  }

  // Throws data_loss unless the checksum of all bytes matches.
  void check(const EntryDecoder& decoder) const {
    if (crc_ && decoder.crc() != *crc_)
      data_loss(fmt::format("its bytes are damaged: their CRC-32 is {:08x}, stored is {:08x}",
                            decoder.crc(), *crc_));
    is_checked_ = true;
  }

  Entry entry_;
  std::uint64_t begin_, size_;        // in the archive
  std::optional<std::uint32_t> crc_;  // nullopt: PyTorch was told to store none
  std::shared_ptr<DecoderPool> pool_;
  mutable std::atomic<bool> is_checked_{false};
};

}  // namespace

TorchFile read_encoded_archive(const File& file, const Entry& entry, std::uint64_t& left,
                               const std::shared_ptr<DecoderPool>& pool) {
  DecodedEntry decoded(file, entry, left);
  Executor here(1);  // one decoder, and an archive has few members
  TorchFile torch = read_torch_archive(
      decoded.size(), [&](std::uint64_t at, MutableByteView out) { decoded.read(at, out); }, here);
  for (auto& [key, array] : torch.storages) {
    if (array.stream)
      throw Error(
          Code::kUnimplemented,
          fmt::format("its storage \"{}\" is deflated, in an archive that is compressed", key));
    RawArray streamed;
    streamed.stream = std::make_shared<EntryStorage>(entry, std::move(array), pool);
    array = std::move(streamed);
  }
  return torch;
}

}  // namespace cairn::inline v0::pytorch
