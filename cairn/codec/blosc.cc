// blosc.cc -- blosc and lz4: blocks whose header gives the decoded size.
//
// blosc:
//      0         1         2       3          4        8           12       16
//      | version | variant | flags | typesize | nbytes | blocksize | cbytes | blocks ...
//   nbytes, blocksize and cbytes are u32 little-endian
// lz4, as numcodecs frames it: u32 decoded size, one raw block
#include <blosc.h>
#include <cairn/base/byte_order.h>
#include <cairn/codec/codecs.h>
#include <lz4.h>

namespace cairn::inline v0::codec {

std::string blosc_version() { return blosc_get_version_string(); }
std::string lz4_version() { return LZ4_versionString(); }

std::size_t lz4_size(ByteView in) {
  if (in.size() < sizeof(std::uint32_t)) fail(Codec::kLz4, "is too short for its size field");
  const auto size = load_little_endian<std::uint32_t>(in);
  // each byte spent on a run's length lengthens the run by at most this
  constexpr std::uint64_t kMostPerByte = 255;
  if (size > LZ4_MAX_INPUT_SIZE || size > kMostPerByte * in.size())
    fail(Codec::kLz4, "cannot decode to the " + std::to_string(size) + " bytes it claims");
  return size;
}

void decode_lz4(ByteView in, MutableByteView out) {
  check_size(Codec::kLz4, lz4_size(in), out.size());
  const ByteView block = in.subspan(sizeof(std::uint32_t));
  if (block.size() > LZ4_COMPRESSBOUND(LZ4_MAX_INPUT_SIZE))
    fail(Codec::kLz4, "is longer than a block can be");
  const int n = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()),
                                    reinterpret_cast<char*>(out.data()),
                                    static_cast<int>(block.size()), static_cast<int>(out.size()));
  if (n < 0 || static_cast<std::size_t>(n) != out.size()) fail(Codec::kLz4, "is damaged");
}

namespace {

// As below, for a value of `encoded_size` bytes that begins with `in`.
std::size_t blosc_size(ByteView in, std::uint64_t encoded_size) {
  std::size_t size = 0;
  if (in.size() < BLOSC_MIN_HEADER_LENGTH) fail(Codec::kBlosc, "is shorter than its header");
  if (blosc_cbuffer_validate(in.data(), encoded_size, &size) != 0)
    fail(Codec::kBlosc, "header does not fit its " + std::to_string(encoded_size) + " bytes");
  const auto block_size = load_little_endian<std::uint32_t>(in.subspan(8));
  if (in[3] == std::byte{0}) fail(Codec::kBlosc, "header has element size 0");
  if (size > 0 && (block_size == 0 || block_size > size))
    fail(Codec::kBlosc, "header has block size " + std::to_string(block_size));
  return size;
}

}  // namespace

// Returns the decoded size in the header, after all checks that the library needs to trust it.
std::size_t blosc_size(ByteView in) { return blosc_size(in, in.size()); }

void decode_blosc(ByteView in, MutableByteView out) {
  check_size(Codec::kBlosc, blosc_size(in), out.size());
  if (out.empty()) return;
  const int n = blosc_decompress_ctx(in.data(), out.data(), out.size(), 1);
  if (n < 0 || static_cast<std::size_t>(n) != out.size())
    fail(Codec::kBlosc, "is damaged, or this build lacks its inner codec");
}

namespace {

std::uint32_t header_field(ByteView header, std::size_t at) {
  return load_little_endian<std::uint32_t>(header.subspan(at));
}

// Decodes one block at a time. The blocks may be stored in any order, so all encoded bytes are in
// memory.
class BloscStream : public ByteStream {
 public:
  BloscStream(ByteSource source, Bytes header)
      : source_(std::move(source)),
        encoded_(std::move(header)),
        encoded_size_(header_field(encoded_, 12)),
        size_(header_field(encoded_, 4)),
        element_size_(std::to_integer<std::uint32_t>(encoded_[3])),
        block_items_(std::max(1U, header_field(encoded_, 8) / element_size_)) {}

  std::size_t read(MutableByteView out) override {
    if (!loaded_) load();
    std::size_t done = 0;
    while (done < out.size()) {
      if (rest_.empty() && !next_block()) break;
      const std::size_t n = std::min(rest_.size(), out.size() - done);
      std::copy_n(rest_.begin(), n, out.begin() + static_cast<std::ptrdiff_t>(done));
      rest_ = rest_.subspan(n);
      done += n;
    }
    return done;
  }
  [[nodiscard]] bool checksummed() const override { return false; }
  [[nodiscard]] std::uint64_t memory() const override {
    // the library takes a few blocks of its own
    return encoded_size_ + 4 * std::uint64_t{element_size_} * block_items_;
  }
  [[nodiscard]] std::uint64_t declared_size() const override { return size_; }

 private:
  // Memory grows with the bytes that really exist.
  void load() {
    while (encoded_.size() < encoded_size_) {
      const std::size_t had = encoded_.size();
      encoded_.resize(std::min<std::size_t>(encoded_size_, std::max(kFirstGuess, 2 * had)));
      const std::size_t n = source_(MutableByteView(encoded_).subspan(had));
      if (n < encoded_.size() - had) fail(Codec::kBlosc, "is truncated");
    }
    std::byte more{};
    if (source_({&more, 1}) > 0) fail(Codec::kBlosc, "bytes follow its end");
    loaded_ = true;
  }

  bool next_block() {
    const std::uint32_t left = size_ / element_size_ - next_;
    if (left == 0) return false;
    const std::uint32_t n = std::min(left, block_items_);
    block_.resize(std::size_t{n} * element_size_);
    const int got =
        blosc_getitem(encoded_.data(), static_cast<int>(next_), static_cast<int>(n), block_.data());
    if (got < 0 || static_cast<std::size_t>(got) != block_.size())
      fail(Codec::kBlosc, "is damaged, or this build lacks its inner codec");
    next_ += n;
    rest_ = block_;
    return true;
  }

  ByteSource source_;
  Bytes encoded_;
  std::uint32_t encoded_size_;
  std::uint32_t size_;
  std::uint32_t element_size_;
  std::uint32_t block_items_;
  bool loaded_ = false;
  std::uint32_t next_ = 0;  // element
  Bytes block_;
  ByteView rest_;  // of the block
};

}  // namespace

std::unique_ptr<ByteStream> open_blosc(ByteSource source, std::uint64_t encoded_size) {
  Bytes header(BLOSC_MIN_HEADER_LENGTH);
  if (source(header) < header.size()) fail(Codec::kBlosc, "is shorter than its header");
  if (encoded_size == kUnknownSize) encoded_size = header_field(header, 12);
  const std::size_t size = blosc_size(header, encoded_size);
  if (size % std::to_integer<std::size_t>(header[3]) != 0) return nullptr;
  return std::make_unique<BloscStream>(std::move(source), std::move(header));
}

std::size_t encode_lz4(const CompressOptions& options, ByteView in, MutableByteView out) {
  if (in.size() > LZ4_MAX_INPUT_SIZE)
    refuse(Codec::kLz4, std::to_string(in.size()) + " bytes are more than a block can hold");
  const auto size = static_cast<std::uint32_t>(in.size());
  store_little_endian(size, out);
  const MutableByteView block = out.subspan(sizeof(size));
  const int n =
      LZ4_compress_fast(reinterpret_cast<const char*>(in.data()),
                        reinterpret_cast<char*>(block.data()), static_cast<int>(in.size()),
                        static_cast<int>(std::min<std::size_t>(block.size(), LZ4_MAX_INPUT_SIZE)),
                        std::max(options.level, 1));
  if (n <= 0) refuse(Codec::kLz4, "lz4 failed");
  return sizeof(size) + static_cast<std::size_t>(n);
}

namespace {

int blosc_shuffle(const BloscOptions& options) {
  switch (options.shuffle) {
    case BloscShuffle::kAuto:
      return options.type_size <= 1 ? BLOSC_BITSHUFFLE : BLOSC_SHUFFLE;
    case BloscShuffle::kNone:
      return BLOSC_NOSHUFFLE;
    case BloscShuffle::kBytes:
      return BLOSC_SHUFFLE;
    case BloscShuffle::kBits:
      return BLOSC_BITSHUFFLE;
  }
  return BLOSC_NOSHUFFLE;
}

}  // namespace

std::size_t encode_blosc(const CompressOptions& options, ByteView in, MutableByteView out) {
  check_level(Codec::kBlosc, options.level, 0, 9);
  if (in.size() > BLOSC_MAX_BUFFERSIZE)
    refuse(Codec::kBlosc, std::to_string(in.size()) + " bytes are more than a buffer can hold");
  const BloscOptions& blosc = options.blosc;
  const std::string inner(blosc_inner_name(blosc.inner));
  const int n = blosc_compress_ctx(options.level, blosc_shuffle(blosc),
                                   std::max<std::size_t>(blosc.type_size, 1), in.size(), in.data(),
                                   out.data(), out.size(), inner.c_str(), blosc.block_size, 1);
  if (n > 0) return static_cast<std::size_t>(n);
  throw Error(Code::kUnimplemented,
              "blosc cannot compress with '" + inner + "': this build lacks it");
}

}  // namespace cairn::inline v0::codec
