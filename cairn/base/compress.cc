// compress.cc -- the byte codecs; the only file that sees their libraries.
#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_d_stableOutBuffer
#include <blosc.h>
#include <bzlib.h>
#include <cairn/base/compress.h>
#include <cairn/error.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace cairn {
namespace {

constexpr std::size_t kFirstGuess = std::size_t{1} << 20U;  // what any input may make us allocate
constexpr std::size_t kGuessRatio = 64;                     // and how much more per byte of input

[[noreturn]] void fail(Codec codec, const std::string& what) {
  throw Error(Code::kDataLoss, std::string(codec_name(codec)) + " data: " + what);
}

[[noreturn]] void fail_long(Codec codec, std::uint64_t bound) {
  fail(codec, "decodes to more than the expected " + std::to_string(bound) + " bytes");
}

void check_size(Codec codec, std::uint64_t decoded, std::uint64_t expected) {
  if (decoded > expected) fail_long(codec, expected);
  if (decoded < expected) fail(codec, "decodes to " + std::to_string(decoded) + " bytes, " + std::to_string(expected) + " are expected");
}

// Where a decoder puts its bytes: memory of fixed size, or bytes that grow up to a bound.
class Output {
 public:
  explicit Output(MutableByteView fixed) : free_(fixed), bound_(fixed.size()) {}
  Output(Bytes& growing, std::uint64_t bound) : growing_(&growing), bound_(bound) {}

  // Room for at least one byte. At the bound it is a spare byte: a decoder that fills it has too much.
  MutableByteView room() {
    if (free_.empty() && growing_ && written_ < bound_) {
      growing_->resize(std::min<std::uint64_t>(bound_, std::max<std::uint64_t>(kFirstGuess, 2 * written_)));
      free_ = MutableByteView(*growing_).subspan(written_);
    }
    return free_.empty() ? MutableByteView(&spare_, 1) : free_;
  }
  void wrote(Codec codec, std::size_t n) {
    if (n > free_.size()) fail_long(codec, bound_);
    free_ = free_.subspan(n);
    written_ += n;
  }
  [[nodiscard]] std::uint64_t written() const { return written_; }
  void finish() {
    if (growing_) growing_->resize(written_);
  }

 private:
  MutableByteView free_;
  Bytes* growing_ = nullptr;
  std::uint64_t bound_;
  std::uint64_t written_ = 0;
  std::byte spare_{};
};

// ---- zstd ----

struct ZstdFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

// A context costs more to make than a small frame to decode, so each thread keeps one.
ZSTD_DCtx* zstd_decoder() {
  thread_local const std::unique_ptr<ZSTD_DCtx, ZstdFree> context(ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

bool is_zstd_frame(ByteView in) {
  constexpr unsigned char kMagic[] = {0x28, 0xb5, 0x2f, 0xfd};
  return in.size() >= sizeof(kMagic) && std::memcmp(in.data(), kMagic, sizeof(kMagic)) == 0;
}

// The frame that `in` starts with. Formats older than zstd 1.0 are refused: nobody writes them and their decoders are
// not made for hostile input.
ByteView first_zstd_frame(ByteView in) {
  if (!is_zstd_frame(in)) fail(Codec::kZstd, in.empty() ? "is empty" : "does not start with a frame's magic number");
  const std::size_t size = ZSTD_findFrameCompressedSize(in.data(), in.size());
  if (ZSTD_isError(size)) fail(Codec::kZstd, "frame is truncated or damaged (" + std::string(ZSTD_getErrorName(size)) + ")");
  return in.first(size);
}

void decode_zstd_into(ByteView in, MutableByteView out) {
  const std::size_t expected = out.size();
  std::size_t written = 0;
  do {
    const ByteView frame = first_zstd_frame(in);
    const std::size_t n = ZSTD_decompressDCtx(zstd_decoder(), out.data() + written, expected - written, frame.data(), frame.size());
    if (ZSTD_getErrorCode(n) == ZSTD_error_dstSize_tooSmall) fail_long(Codec::kZstd, expected);
    if (ZSTD_isError(n)) fail(Codec::kZstd, ZSTD_getErrorName(n));
    written += n;
    in = in.subspan(frame.size());
  } while (!in.empty());
  check_size(Codec::kZstd, written, expected);
}

// The most that a frame can decode to, whatever it declares, from its blocks:
//   magic 4 | descriptor 1 | window 0-1 | dictionary id 0-4 | content size 0-8 | blocks ... | checksum 0-4
//   block: u24 = size << 3 | type << 1 | last; type 0 raw: size bytes follow, 1 run: one byte follows, it counts size
//   times, 2 compressed: size bytes follow
// The frame's extent is known to be sound: ZSTD_findFrameCompressedSize has walked the same way.
std::uint64_t zstd_block_bound(ByteView frame) {
  const auto byte = [&](std::size_t i) { return i < frame.size() ? std::to_integer<std::size_t>(frame[i]) : 0; };
  const std::size_t descriptor = byte(4);
  const std::size_t single_segment = descriptor >> 5U & 1U;  // then there is no window byte, and always a content size
  constexpr std::size_t kDictionaryIdSize[] = {0, 1, 2, 4};
  const std::size_t content_sizes[] = {single_segment, 2, 4, 8};
  std::uint64_t bound = 0;
  for (std::size_t at = 6 - single_segment + kDictionaryIdSize[descriptor & 3U] + content_sizes[descriptor >> 6U];
       at + 3 <= frame.size();) {
    const std::size_t header = byte(at) | byte(at + 1) << 8U | byte(at + 2) << 16U;
    const std::size_t type = header >> 1U & 3U;
    const std::size_t size = header >> 3U;
    bound += type == 2 ? std::size_t{ZSTD_BLOCKSIZE_MAX} : size;
    if ((header & 1U) != 0) break;
    at += 3 + (type == 1 ? 1 : size);
  }
  return bound;
}

// Appends what the frame decodes to behind out[0, written). Memory grows only after the decoder has filled what there
// was; decoding again into more beats streaming, which needs a window beside the output.
std::size_t append_zstd_frame(ByteView frame, Bytes& out, std::size_t written, std::uint64_t max_size) {
  const std::uint64_t declared = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (declared == ZSTD_CONTENTSIZE_ERROR) fail(Codec::kZstd, "frame header is damaged");
  const std::uint64_t left = max_size - written;
  if (declared != ZSTD_CONTENTSIZE_UNKNOWN && declared > left) fail_long(Codec::kZstd, max_size);
  const std::uint64_t ceiling = std::min({left, declared, zstd_block_bound(frame)});  // undeclared is the largest number
  std::uint64_t room = std::min(ceiling, std::max<std::uint64_t>(kFirstGuess, kGuessRatio * frame.size()));
  while (true) {
    if (out.size() < written + room) out.resize(written + room);
    const std::size_t n = ZSTD_decompressDCtx(zstd_decoder(), out.data() + written, room, frame.data(), frame.size());
    if (!ZSTD_isError(n)) return written + n;
    if (ZSTD_getErrorCode(n) != ZSTD_error_dstSize_tooSmall) fail(Codec::kZstd, ZSTD_getErrorName(n));
    if (room == left) fail_long(Codec::kZstd, max_size);
    if (room == ceiling) fail(Codec::kZstd, "decodes to more than it declares");
    room = std::min(ceiling, 4 * room);
  }
}

Bytes decode_zstd(ByteView in, std::uint64_t max_size) {
  Bytes out;
  std::size_t written = 0;
  do {
    const ByteView frame = first_zstd_frame(in);
    written = append_zstd_frame(frame, out, written, max_size);
    in = in.subspan(frame.size());
  } while (!in.empty());
  out.resize(written);
  return out;
}

// ---- gzip, zlib ----

std::string_view zlib_reason(int result, const z_stream& stream) {
  if (result == Z_BUF_ERROR) return "is truncated";
  if (result == Z_NEED_DICT) return "needs a preset dictionary";
  return stream.msg ? stream.msg : "is damaged";
}

// zlib counts in 32 bits.
uInt zlib_count(std::size_t n) { return static_cast<uInt>(std::min<std::size_t>(n, std::size_t{1} << 30U)); }

// Runs to the end of one member or stream; gives back the input behind it.
ByteView inflate_one(Codec codec, z_stream& stream, ByteView in, Output& out) {
  for (int result = Z_OK; result != Z_STREAM_END;) {
    const MutableByteView room = out.room();
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = zlib_count(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = zlib_count(room.size());
    const uInt given = stream.avail_in;
    const uInt offered = stream.avail_out;
    result = inflate(&stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result != Z_OK && result != Z_STREAM_END) fail(codec, std::string(zlib_reason(result, stream)));
    out.wrote(codec, offered - stream.avail_out);
    in = in.subspan(given - stream.avail_in);
  }
  return in;
}

struct InflateEnd {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

void decode_zlib(Codec codec, ByteView in, Output& out) {
  if (in.empty()) fail(codec, "is empty");
  constexpr int kLargestWindow = 15;
  constexpr int kGzipWrapper = 16;
  z_stream stream{};
  if (inflateInit2(&stream, kLargestWindow + (codec == Codec::kGzip ? kGzipWrapper : 0)) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, InflateEnd> guard(&stream);
  in = inflate_one(codec, stream, in, out);
  while (codec == Codec::kGzip && !in.empty()) {
    inflateReset(&stream);
    in = inflate_one(codec, stream, in, out);
  }
  if (!in.empty()) fail(codec, std::to_string(in.size()) + " bytes follow its end");
}

// ---- bz2 ----

struct Bz2End {
  void operator()(bz_stream* stream) const { BZ2_bzDecompressEnd(stream); }
};

// Runs to the end of one stream; gives back the input behind it.
ByteView decode_bz2_stream(ByteView in, Output& out) {
  bz_stream stream{};
  if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK) throw std::bad_alloc();
  const std::unique_ptr<bz_stream, Bz2End> guard(&stream);
  for (int result = BZ_OK; result != BZ_STREAM_END;) {
    const MutableByteView room = out.room();
    stream.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = zlib_count(in.size());
    stream.next_out = reinterpret_cast<char*>(room.data());
    stream.avail_out = zlib_count(room.size());
    const unsigned given = stream.avail_in;
    const unsigned offered = stream.avail_out;
    result = BZ2_bzDecompress(&stream);
    if (result == BZ_MEM_ERROR) throw std::bad_alloc();
    if (result != BZ_OK && result != BZ_STREAM_END) fail(Codec::kBz2, "is damaged");
    const bool stuck = result == BZ_OK && stream.avail_in == given && stream.avail_out == offered;
    if (stuck) fail(Codec::kBz2, "is truncated");
    out.wrote(Codec::kBz2, offered - stream.avail_out);
    in = in.subspan(given - stream.avail_in);
  }
  return in;
}

void decode_bz2(ByteView in, Output& out) {
  do {
    in = decode_bz2_stream(in, out);
  } while (!in.empty());
}

// ---- lz4 as numcodecs frames it: u32 decoded size, one raw block ----

std::size_t lz4_size(ByteView in) {
  std::uint32_t size = 0;
  if (in.size() < sizeof(size)) fail(Codec::kLz4, "is too short for its size field");
  std::memcpy(&size, in.data(), sizeof(size));
  constexpr std::uint64_t kMostPerByte = 255;  // a run's length grows by at most that with each byte spent on it
  if (size > LZ4_MAX_INPUT_SIZE || size > kMostPerByte * in.size())
    fail(Codec::kLz4, "cannot decode to the " + std::to_string(size) + " bytes it claims");
  return size;
}

void decode_lz4(ByteView in, MutableByteView out) {
  check_size(Codec::kLz4, lz4_size(in), out.size());
  const ByteView block = in.subspan(sizeof(std::uint32_t));
  if (block.size() > LZ4_COMPRESSBOUND(LZ4_MAX_INPUT_SIZE)) fail(Codec::kLz4, "is longer than a block can be");
  const int n = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(out.data()),
                                    static_cast<int>(block.size()), static_cast<int>(out.size()));
  if (n < 0 || static_cast<std::size_t>(n) != out.size()) fail(Codec::kLz4, "is damaged");
}

// ---- blosc ----
//      0         1         2       3          4        8           12       16
//      | version | variant | flags | typesize | nbytes | blocksize | cbytes | blocks ...     u32 little-endian

// The decoded size a header gives, after every check that keeps the library from believing it too much.
std::size_t blosc_size(ByteView in) {
  std::size_t size = 0;
  if (in.size() < BLOSC_MIN_HEADER_LENGTH) fail(Codec::kBlosc, "is shorter than its header");
  if (blosc_cbuffer_validate(in.data(), in.size(), &size) != 0)
    fail(Codec::kBlosc, "header does not fit its " + std::to_string(in.size()) + " bytes");
  std::uint32_t block_size = 0;
  std::memcpy(&block_size, &in[8], sizeof(block_size));
  if (in[3] == std::byte{0}) fail(Codec::kBlosc, "header has element size 0");
  if (size > 0 && (block_size == 0 || block_size > size)) fail(Codec::kBlosc, "header has block size " + std::to_string(block_size));
  return size;
}

void decode_blosc(ByteView in, MutableByteView out) {
  check_size(Codec::kBlosc, blosc_size(in), out.size());
  if (out.empty()) return;
  const int n = blosc_decompress_ctx(in.data(), out.data(), out.size(), 1);
  if (n < 0 || static_cast<std::size_t>(n) != out.size()) fail(Codec::kBlosc, "is damaged, or its inner codec is not in this build");
}

// For formats whose header gives the decoded size.
Bytes decode_sized(Codec codec, ByteView in, std::uint64_t max_size) {
  const std::size_t size = codec == Codec::kLz4 ? lz4_size(in) : blosc_size(in);
  if (size > max_size) fail_long(codec, max_size);
  // No inner codec of blosc makes more out of a byte: zstd's run blocks, 128 KiB from 4 bytes.
  constexpr std::uint64_t kMostPerByte = 32768;
  if (size > kMostPerByte * in.size()) fail(codec, "cannot decode to the " + std::to_string(size) + " bytes it claims");
  Bytes out(size);
  decompress_into(codec, in, out);
  return out;
}

}  // namespace

std::string_view codec_name(Codec codec) {
  constexpr std::string_view kNames[] = {"zstd", "gzip", "zlib", "blosc", "bz2", "lz4"};
  return kNames[static_cast<std::size_t>(codec)];
}

void decompress_into(Codec codec, ByteView in, MutableByteView out) {
  Output fixed(out);
  switch (codec) {
    case Codec::kZstd:
      return decode_zstd_into(in, out);
    case Codec::kBlosc:
      return decode_blosc(in, out);
    case Codec::kLz4:
      return decode_lz4(in, out);
    case Codec::kGzip:
    case Codec::kZlib:
      decode_zlib(codec, in, fixed);
      break;
    case Codec::kBz2:
      decode_bz2(in, fixed);
      break;
  }
  check_size(codec, fixed.written(), out.size());
}

Bytes decompress(Codec codec, ByteView in, std::uint64_t max_size) {
  if (codec == Codec::kZstd) return decode_zstd(in, max_size);
  if (codec == Codec::kBlosc || codec == Codec::kLz4) return decode_sized(codec, in, max_size);
  Bytes bytes;
  Output out(bytes, max_size);
  if (codec == Codec::kBz2)
    decode_bz2(in, out);
  else
    decode_zlib(codec, in, out);
  out.finish();
  return bytes;
}

Bytes decompress_one_zstd_frame(ByteView in, std::uint64_t max_size) {
  const std::size_t size = first_zstd_frame(in).size();
  if (size != in.size()) fail(Codec::kZstd, std::to_string(in.size() - size) + " bytes follow its only frame");
  return decode_zstd(in, max_size);
}

bool decompress_zstd_stream(const ByteSource& source, std::uint64_t encoded_size, MutableByteView out) {
  constexpr std::size_t kPiece = std::size_t{512} << 10U;  // what a second-level cache has room for beside the output
  const std::unique_ptr<ZSTD_DCtx, ZstdFree> decoder(ZSTD_createDCtx());
  // Straight into `out`, without a window of the decoder's own in between.
  if (!decoder) throw std::bad_alloc();
  ZSTD_DCtx_setParameter(decoder.get(), ZSTD_d_stableOutBuffer, 1);
  ZSTD_DCtx_setParameter(decoder.get(), ZSTD_d_windowLogMax, ZSTD_WINDOWLOG_MAX);  // the window is in `out`: no memory of its own
  Bytes piece(static_cast<std::size_t>(std::min<std::uint64_t>(kPiece, encoded_size)));
  ZSTD_outBuffer decoded{out.data(), out.size(), 0};
  std::size_t more = 1;  // 0: the frame has ended
  for (std::uint64_t at = 0; at < encoded_size;) {
    const ByteView fresh = ByteView(piece).first(source(MutableByteView(piece).first(std::min<std::uint64_t>(kPiece, encoded_size - at))));
    if (fresh.empty()) fail(Codec::kZstd, "frame is truncated");
    if (at == 0 && (!is_zstd_frame(fresh) || ZSTD_getFrameContentSize(fresh.data(), fresh.size()) != out.size())) return false;
    at += fresh.size();
    ZSTD_inBuffer in{fresh.data(), fresh.size(), 0};
    while (in.pos < in.size) {
      if (more == 0) return false;  // something follows the frame
      more = ZSTD_decompressStream(decoder.get(), &decoded, &in);
      if (ZSTD_isError(more)) fail(Codec::kZstd, ZSTD_getErrorName(more));
    }
  }
  if (more != 0) fail(Codec::kZstd, "frame is truncated");
  check_size(Codec::kZstd, decoded.pos, out.size());
  return true;
}

struct ZstdStream::State {
  static constexpr std::size_t kPiece = std::size_t{256} << 10U;

  ByteSource source;
  std::uint64_t encoded_left = 0;
  std::uint64_t decoded_size = 0;
  std::uint64_t position = 0;
  bool checksum = false;
  bool ended = false;  // the frame
  std::unique_ptr<ZSTD_DCtx, ZstdFree> decoder{ZSTD_createDCtx()};
  Bytes piece;
  ZSTD_inBuffer in{nullptr, 0, 0};

  // Whether there is any more input; fetches it if need be.
  bool refill() {
    if (in.pos < in.size) return true;
    if (encoded_left == 0) return false;
    const std::size_t n = source(MutableByteView(piece).first(std::min<std::uint64_t>(piece.size(), encoded_left)));
    if (n == 0) fail(Codec::kZstd, "frame is truncated");
    encoded_left -= n;
    in = {piece.data(), n, 0};
    return true;
  }

  // One step of the decoder. Without input it may still have output to give.
  void step(ZSTD_outBuffer& out) {
    const bool more_input = refill();
    const std::size_t before = out.pos;
    const std::size_t more = ZSTD_decompressStream(decoder.get(), &out, &in);
    if (ZSTD_isError(more)) fail(Codec::kZstd, ZSTD_getErrorName(more));
    ended = more == 0;
    if (!ended && !more_input && out.pos == before) fail(Codec::kZstd, "frame is truncated");
  }

  // The last byte has been decoded: the checksum, and nothing else, may follow.
  void finish() {
    std::byte spare{};
    while (!ended) {
      ZSTD_outBuffer out{&spare, 1, 0};
      step(out);
      if (out.pos != 0) fail_long(Codec::kZstd, decoded_size);
    }
    if (in.pos < in.size || encoded_left > 0) fail(Codec::kZstd, "something follows its only frame");
  }
};

ZstdStream::ZstdStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
ZstdStream::~ZstdStream() = default;

std::unique_ptr<ZstdStream> ZstdStream::open(ByteSource source, std::uint64_t encoded_size, std::uint64_t decoded_size) {
  constexpr std::uint64_t kMaxWindow = std::uint64_t{1} << ZSTD_WINDOWLOG_LIMIT_DEFAULT;
  auto state = std::make_unique<State>();
  if (!state->decoder) throw std::bad_alloc();
  state->source = std::move(source);
  state->encoded_left = encoded_size;
  state->decoded_size = decoded_size;
  state->piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(State::kPiece, encoded_size)));
  if (decoded_size == 0 || !state->refill()) return nullptr;
  ZSTD_frameHeader header;
  if (ZSTD_getFrameHeader(&header, state->in.src, state->in.size) != 0 || header.frameType != ZSTD_frame) return nullptr;
  if (header.frameContentSize != decoded_size || header.windowSize > kMaxWindow) return nullptr;
  state->checksum = header.checksumFlag != 0;
  return std::unique_ptr<ZstdStream>(new ZstdStream(std::move(state)));
}

bool ZstdStream::has_checksum() const { return state_->checksum; }
std::uint64_t ZstdStream::position() const { return state_->position; }

void ZstdStream::read(MutableByteView out) {
  State& s = *state_;
  if (out.empty()) return;
  if (out.size() > s.decoded_size - s.position)
    throw Error(Code::kOutOfRange, std::to_string(out.size()) + " bytes at " + std::to_string(s.position) + " of a zstd frame of " +
                                       std::to_string(s.decoded_size));
  ZSTD_outBuffer decoded{out.data(), out.size(), 0};
  while (decoded.pos < decoded.size && !s.ended) s.step(decoded);
  s.position += decoded.pos;
  check_size(Codec::kZstd, decoded.pos, out.size());
  if (s.position == s.decoded_size) s.finish();
}

void ZstdStream::skip(std::uint64_t n) {
  Bytes scratch(static_cast<std::size_t>(std::min<std::uint64_t>(State::kPiece, n)));
  for (; n > 0; n -= scratch.size()) {
    scratch.resize(static_cast<std::size_t>(std::min<std::uint64_t>(scratch.size(), n)));
    read(scratch);
  }
}

bool zstd_has_checksum(ByteView in) {
  constexpr std::byte kChecksumFlag{4};
  do {
    if (!is_zstd_frame(in)) return false;
    const std::size_t size = ZSTD_findFrameCompressedSize(in.data(), in.size());
    if (ZSTD_isError(size) || (in[4] & kChecksumFlag) == std::byte{0}) return false;
    in = in.subspan(size);
  } while (!in.empty());
  return true;
}

Bytes compress_zstd(ByteView in, int level, bool checksum) {
  thread_local const std::unique_ptr<ZSTD_CCtx, ZstdFree> context(ZSTD_createCCtx());
  if (!context) throw std::bad_alloc();
  ZSTD_CCtx_reset(context.get(), ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, checksum ? 1 : 0);
  Bytes out(ZSTD_compressBound(in.size()));
  const std::size_t n = ZSTD_compress2(context.get(), out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(n)) throw Error(Code::kInvalidArgument, std::string("zstd cannot compress: ") + ZSTD_getErrorName(n));
  out.resize(n);
  return out;
}

}  // namespace cairn
