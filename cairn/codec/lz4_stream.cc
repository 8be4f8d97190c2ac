// lz4_stream.cc -- decodes lz4 data in parts. The library decodes a block only whole.
//
//   u32 decoded size, then sequences:
//     token: literals (4 bits), match length - 4 (4 bits); 15 means that bytes to add follow, up to
//            the first that is not 255
//     literals
//     u16 distance of the match (the last sequence ends after its literals)
//   integers are little-endian
#include <cairn/base/byte_order.h>
#include <cairn/codec/codecs.h>

#include <array>

namespace cairn::inline v0::codec {
namespace {

constexpr std::size_t kHistory = std::size_t{64} << 10U;  // the largest distance is one less
constexpr std::size_t kLongLength = 15;
constexpr std::size_t kShortestMatch = 4;
// The format reserves the end of a block for literals.
constexpr std::uint64_t kLastLiterals = 5;
constexpr std::uint64_t kMatchLimit = 12;

class Lz4Stream : public ByteStream {
 public:
  explicit Lz4Stream(ByteSource source) : source_(std::move(source)) {
    std::array<std::byte, sizeof(std::uint32_t)> size{};
    for (std::byte& byte : size) byte = next();
    size_ = load_little_endian<std::uint32_t>(size);
  }

  std::size_t read(MutableByteView out) override {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      if (literals_ > 0) {
        done += copy_literals(out.subspan(done));
      } else if (match_ > 0) {
        done += copy_match(out.subspan(done));
      } else {
        advance();
      }
    }
    return done;
  }
  [[nodiscard]] bool checksummed() const override { return false; }
  [[nodiscard]] std::uint64_t memory() const override { return 2 * kHistory; }
  [[nodiscard]] std::uint64_t declared_size() const override { return size_; }

 private:
  // Returns false at the end of the value.
  bool refill() {
    if (!rest_.empty()) return true;
    rest_ = ByteView(buffer_).first(source_(buffer_));
    return !rest_.empty();
  }
  std::byte next() {
    if (!refill()) fail(Codec::kLz4, "is truncated");
    const std::byte byte = rest_[0];
    rest_ = rest_.subspan(1);
    return byte;
  }
  std::size_t next_number() { return std::to_integer<std::size_t>(next()); }

  std::size_t length(std::size_t in_token) {
    std::size_t sum = in_token;
    for (std::size_t more = 255; in_token == kLongLength && more == 255;) {
      more = next_number();
      sum += more;
      if (sum > size_) fail(Codec::kLz4, "is damaged");
    }
    return sum;
  }

  // Begins the next sequence, or the match after the literals of this one.
  void advance() {
    if (!after_literals_) {
      token_ = next_number();
      literals_ = length(token_ >> 4U);
      if (literals_ > size_ - written_) fail(Codec::kLz4, "is damaged");
      after_literals_ = true;
      return;
    }
    after_literals_ = false;
    if (!refill()) {  // the last sequence
      check_size(Codec::kLz4, written_, size_);
      ended_ = true;
      return;
    }
    distance_ = next_number();
    distance_ |= next_number() << 8U;
    const bool room = written_ + kMatchLimit <= size_;
    match_ = length(token_ & kLongLength) + kShortestMatch;
    if (!room || distance_ == 0 || distance_ > written_ ||
        written_ + match_ + kLastLiterals > size_)
      fail(Codec::kLz4, "is damaged");
  }

  std::size_t copy_literals(MutableByteView out) {
    if (!refill()) fail(Codec::kLz4, "is truncated");
    const std::size_t n = std::min({out.size(), literals_, rest_.size()});
    for (std::size_t i = 0; i < n; ++i) put(out[i], rest_[i]);
    rest_ = rest_.subspan(n);
    literals_ -= n;
    return n;
  }
  std::size_t copy_match(MutableByteView out) {
    const std::size_t n = std::min(out.size(), match_);
    for (std::size_t i = 0; i < n; ++i) put(out[i], history_[(written_ - distance_) % kHistory]);
    match_ -= n;
    return n;
  }
  void put(std::byte& to, std::byte value) {
    history_[written_++ % kHistory] = value;
    to = value;
  }

  ByteSource source_;
  Bytes buffer_ = Bytes(kHistory);
  ByteView rest_;
  Bytes history_ = Bytes(kHistory);  // a ring
  std::uint64_t size_ = 0;
  std::uint64_t written_ = 0;
  std::size_t token_ = 0;
  std::size_t literals_ = 0;  // left to copy
  std::size_t match_ = 0;     // left to copy
  std::size_t distance_ = 0;
  bool after_literals_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_lz4(ByteSource source) {
  return std::make_unique<Lz4Stream>(std::move(source));
}

}  // namespace cairn::inline v0::codec
