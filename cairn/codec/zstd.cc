// zstd.cc -- zstd: decodes whole values and parts of values, and encodes.
#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_d_stableOutBuffer
#include <cairn/base/cancellation.h>
#include <cairn/codec/codecs.h>
#include <cairn/codec/zstd_frame.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>

namespace cairn::inline v0 {
namespace {

using codec::check_size;
using codec::fail;
using codec::fail_long;
using codec::kFirstGuess;

// limit of the first allocation: this many bytes for each byte of input (at least kFirstGuess)
constexpr std::size_t kGuessRatio = 64;
// encoded bytes that a stream buffers
constexpr std::size_t kStreamPiece = std::size_t{256} << 10U;

struct ZstdFree {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
};

// Creating a context costs more than decoding a small frame, so each thread keeps one.
ZSTD_DCtx* zstd_decoder() {
  thread_local const std::unique_ptr<ZSTD_DCtx, ZstdFree> context(ZSTD_createDCtx());
  if (!context) throw std::bad_alloc();
  return context.get();
}

bool is_zstd_frame(ByteView in) {
  constexpr unsigned char kMagic[] = {0x28, 0xb5, 0x2f, 0xfd};
  return in.size() >= sizeof(kMagic) && std::memcmp(in.data(), kMagic, sizeof(kMagic)) == 0;
}

// Returns whether `in` starts with a skippable frame. It holds what other programs need: seekable
// zstd and pzstd write them. RFC 8878 has them anywhere between frames.
bool is_skippable_frame(ByteView in) {
  constexpr std::byte kHighNibble{0xf0};
  constexpr unsigned char kMagic[] = {0x2a, 0x4d, 0x18};
  return in.size() >= 4 && (in[0] & kHighNibble) == std::byte{0x50} &&
         std::memcmp(in.data() + 1, kMagic, sizeof(kMagic)) == 0;
}

// Returns `in` behind the skippable frames that it starts with.
ByteView without_skippable_frames(ByteView in) {
  while (is_skippable_frame(in)) {
    const std::size_t size = ZSTD_findFrameCompressedSize(in.data(), in.size());
    if (ZSTD_isError(size)) fail(Codec::kZstd, "a skippable frame is truncated");
    in = in.subspan(size);
  }
  return in;
}

// Throws data_loss if skippable frames in front of the first frame are not allowed.
void check_may_begin_skippable(Frames frames) {
  if (frames != Frames::kAny) fail(Codec::kZstd, "starts with a skippable frame");
}

// Returns the value's first frame and what follows.
ByteView at_first_frame(ByteView in, Frames frames) {
  if (is_skippable_frame(in)) check_may_begin_skippable(frames);
  return without_skippable_frames(in);
}

// Returns what follows a frame: nothing, or the next frame.
ByteView at_next_frame(ByteView in, Frames frames) {
  if (frames != Frames::kOne) in = without_skippable_frames(in);
  if (!in.empty()) codec::check_may_follow(Codec::kZstd, frames);
  return in;
}

// Returns the frame that `in` starts with. Throws data_loss for formats older than zstd 1.0: they
// are no longer written, and their decoders are not safe for hostile input.
ByteView first_zstd_frame(ByteView in) {
  if (!is_zstd_frame(in))
    fail(Codec::kZstd, in.empty() ? "is empty" : "does not start with a frame's magic number");
  const std::size_t size = ZSTD_findFrameCompressedSize(in.data(), in.size());
  if (ZSTD_isError(size))
    fail(Codec::kZstd,
         "frame is truncated or damaged (" + std::string(ZSTD_getErrorName(size)) + ")");
  return in.first(size);
}

// Returns an upper bound of a frame's decoded size from its blocks, whatever size it declares:
//   magic 4 | descriptor 1 | window 0-1 | dictionary id 0-4 | content size 0-8 | blocks ... |
//   checksum 0-4
//   block: u24 = size << 3 | type << 1 | last
//     type 0 raw: size bytes follow; 1 run: one byte follows and counts size times;
//     2 compressed: size bytes follow
// The frame's extent is known to be valid: ZSTD_findFrameCompressedSize has walked the same blocks.
std::uint64_t zstd_block_bound(ByteView frame) {
  const auto byte = [&](std::size_t i) {
    return i < frame.size() ? std::to_integer<std::size_t>(frame[i]) : 0;
  };
  const std::size_t descriptor = byte(4);
  // 1: the frame has no window byte, and always a content size
  const std::size_t single_segment = descriptor >> 5U & 1U;
  constexpr std::size_t kDictionaryIdSize[] = {0, 1, 2, 4};
  const std::size_t content_sizes[] = {single_segment, 2, 4, 8};
  std::uint64_t bound = 0;
  for (std::size_t at = 6 - single_segment + kDictionaryIdSize[descriptor & 3U] +
                        content_sizes[descriptor >> 6U];
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

// Appends the frame's content to out[0, written). Memory grows only after the decoder has filled
// the existing memory. Decoding again into a larger buffer is faster than streaming, which needs a
// window in addition to the output.
template <class Vector>
std::size_t append_zstd_frame(ByteView frame, Vector& out, std::size_t written,
                              std::uint64_t max_size) {
  const std::uint64_t declared = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (declared == ZSTD_CONTENTSIZE_ERROR) fail(Codec::kZstd, "frame header is damaged");
  const std::uint64_t left = max_size - written;
  if (declared != ZSTD_CONTENTSIZE_UNKNOWN && declared > left) fail_long(Codec::kZstd, max_size);
  // an undeclared size is the largest integer
  const std::uint64_t ceiling = std::min({left, declared, zstd_block_bound(frame)});
  std::uint64_t room =
      std::min(ceiling, std::max<std::uint64_t>(kFirstGuess, kGuessRatio * frame.size()));
  while (true) {
    if (out.size() < written + room) out.resize(written + room);
    const std::size_t n =
        ZSTD_decompressDCtx(zstd_decoder(), out.data() + written, room, frame.data(), frame.size());
    if (!ZSTD_isError(n)) return written + n;
    if (ZSTD_getErrorCode(n) != ZSTD_error_dstSize_tooSmall)
      fail(Codec::kZstd, ZSTD_getErrorName(n));
    if (room == left) fail_long(Codec::kZstd, max_size);
    if (room == ceiling) fail(Codec::kZstd, "decodes to more than it declares");
    room = std::min(ceiling, 4 * room);
  }
}

// The state of decoding one frame from a source.
struct ZstdFrame {
  ByteSource source;
  std::uint64_t encoded_left = 0;
  std::uint64_t decoded_size = 0;
  std::uint64_t position = 0;
  bool ended = false;  // the end of the frame has been decoded
  std::unique_ptr<ZSTD_DCtx, ZstdFree> decoder{ZSTD_createDCtx()};
  Bytes piece;
  ZSTD_inBuffer in{nullptr, 0, 0};
  ZSTD_frameHeader header{};

  ZstdFrame(ByteSource from, std::uint64_t encoded_size, std::uint64_t decoded,
            std::size_t piece_size)
      : source(std::move(from)),
        encoded_left(encoded_size),
        decoded_size(decoded),
        piece(std::min<std::uint64_t>(piece_size, encoded_size)) {
    if (!decoder) throw std::bad_alloc();
  }

  // Returns whether the value begins with a frame that declares decoded_size bytes.
  bool begins() {
    return refill() && is_zstd_frame({static_cast<const std::byte*>(in.src), in.size}) &&
           ZSTD_getFrameHeader(&header, in.src, in.size) == 0 &&
           header.frameContentSize == decoded_size;
  }
  // Returns whether more input exists, after fetching it if necessary.
  bool refill() {
    if (in.pos < in.size) return true;
    in = {piece.data(), fetch(0), 0};
    return in.size > 0;
  }

  // Puts more input behind the first `kept` bytes of `piece`. Returns its size.
  std::size_t fetch(std::size_t kept) {
    const MutableByteView room = MutableByteView(piece).subspan(kept);
    const std::size_t wanted = std::min<std::uint64_t>(room.size(), encoded_left);
    const std::size_t n = wanted == 0 ? 0 : source(room.first(wanted));
    encoded_left = n == 0 ? 0 : encoded_left - n;
    return n;
  }

  // Returns the input that comes next: at least `wanted` bytes, unless the value ends before.
  ByteView ahead(std::size_t wanted) {
    const auto* left = static_cast<const std::byte*>(in.src) + in.pos;
    std::size_t size = in.size - in.pos;
    if (size >= wanted) return {left, size};
    if (size > 0) std::memmove(piece.data(), left, size);
    for (std::size_t n = 1; n > 0 && size < wanted; size += n) n = fetch(size);
    in = {piece.data(), size, 0};
    return {piece.data(), size};
  }

  // Moves behind the skippable frames that begin here.
  void pass_skippable_frames() {
    while (true) {
      const ByteView head = ahead(ZSTD_SKIPPABLEHEADERSIZE);
      if (!is_skippable_frame(head)) return;
      ZSTD_frameHeader skippable{};
      if (ZSTD_getFrameHeader(&skippable, head.data(), head.size()) != 0)
        fail(Codec::kZstd, "a skippable frame is truncated");
      for (std::uint64_t n = ZSTD_SKIPPABLEHEADERSIZE + skippable.frameContentSize; n > 0;) {
        if (!refill()) fail(Codec::kZstd, "a skippable frame is truncated");
        const auto passed = std::min<std::uint64_t>(n, in.size - in.pos);
        in.pos += passed;
        n -= passed;
      }
    }
  }

  // Reads the header of the frame that begins here, behind skippable ones. Throws data_loss if none
  // begins.
  void read_header() {
    pass_skippable_frames();
    const ByteView left = ahead(ZSTD_FRAMEHEADERSIZE_MAX);
    if (!is_zstd_frame(left))
      fail(Codec::kZstd, left.empty() ? "is empty" : "does not start with a frame's magic number");
    if (ZSTD_getFrameHeader(&header, left.data(), left.size()) != 0)
      fail(Codec::kZstd, "frame is truncated or damaged");
  }

  // Runs the decoder once. Even without input it may still have output.
  void step(ZSTD_outBuffer& out) {
    const bool more_input = refill();
    const std::size_t before = out.pos;
    const std::size_t more = ZSTD_decompressStream(decoder.get(), &out, &in);
    if (ZSTD_getErrorCode(more) == ZSTD_error_frameParameter_windowTooLarge)
      throw Error(Code::kFailedPrecondition,
                  "zstd data: its window is too large to decode in parts");
    if (ZSTD_isError(more)) fail(Codec::kZstd, ZSTD_getErrorName(more));
    ended = more == 0;
    if (!ended && !more_input && out.pos == before) fail(Codec::kZstd, "frame is truncated");
  }

  // Finishes the frame after its last decoded byte: only the checksum may follow.
  void finish() {
    std::byte spare{};
    while (!ended) {
      ZSTD_outBuffer out{&spare, 1, 0};
      step(out);
      if (out.pos != 0) fail_long(Codec::kZstd, decoded_size);
    }
    pass_skippable_frames();
    if (refill()) fail(Codec::kZstd, "data follows its only frame");
  }
};

}  // namespace

std::string codec::zstd_version() { return ZSTD_versionString(); }

bool codec::is_zstd_strict() {
  constexpr unsigned kFirstStrict = 10505;  // 1.5.5
  return ZSTD_versionNumber() >= kFirstStrict;
}

void codec::decode_zstd_into(ByteView in, MutableByteView out, Frames frames) {
  if (decode_raw_zstd_block(in, out)) return;
  const std::size_t expected = out.size();
  std::size_t written = 0;
  in = at_first_frame(in, frames);
  do {
    const ByteView frame = first_zstd_frame(in);
    const std::size_t n = ZSTD_decompressDCtx(zstd_decoder(), out.data() + written,
                                              expected - written, frame.data(), frame.size());
    if (ZSTD_getErrorCode(n) == ZSTD_error_dstSize_tooSmall) fail_long(Codec::kZstd, expected);
    if (ZSTD_isError(n)) fail(Codec::kZstd, ZSTD_getErrorName(n));
    written += n;
    in = at_next_frame(in.subspan(frame.size()), frames);
  } while (!in.empty());
  check_size(Codec::kZstd, written, expected);
}

Bytes codec::decode_zstd(ByteView in, std::uint64_t max_size, Frames frames) {
  Bytes out;
  std::size_t written = 0;
  in = at_first_frame(in, frames);
  do {
    const ByteView frame = first_zstd_frame(in);
    written = append_zstd_frame(frame, out, written, max_size);
    in = at_next_frame(in.subspan(frame.size()), frames);
  } while (!in.empty());
  out.resize(written);
  return out;
}

RawBytes decompress_one_zstd_frame(ByteView in, std::uint64_t max_size) {
  const std::size_t size = first_zstd_frame(in).size();
  if (size != in.size())
    fail(Codec::kZstd, std::to_string(in.size() - size) + " bytes follow its only frame");
  RawBytes out;
  out.resize(append_zstd_frame(in, out, 0, max_size));
  return out;
}

bool decompress_zstd_stream(const ByteSource& source, std::uint64_t encoded_size,
                            MutableByteView out) {
  // fits a second-level cache in addition to the output
  constexpr std::size_t kPiece = std::size_t{512} << 10U;
  ZstdFrame frame(source, encoded_size, out.size(), kPiece);
  if (!frame.begins()) return false;
  // Decodes straight into `out`, which is also the window. The decoder needs no window of its own,
  // however large.
  ZSTD_DCtx_setParameter(frame.decoder.get(), ZSTD_d_stableOutBuffer, 1);
  ZSTD_DCtx_setParameter(frame.decoder.get(), ZSTD_d_windowLogMax, ZSTD_WINDOWLOG_MAX);
  ZSTD_outBuffer decoded{out.data(), out.size(), 0};
  while (!frame.ended) frame.step(decoded);
  if (frame.refill()) return false;
  check_size(Codec::kZstd, decoded.pos, out.size());
  return true;
}

struct ZstdStream::State : ZstdFrame {
  using ZstdFrame::ZstdFrame;
};

ZstdStream::ZstdStream(std::unique_ptr<State> state) : state_(std::move(state)) {}
ZstdStream::~ZstdStream() = default;

std::unique_ptr<ZstdStream> ZstdStream::open(ByteSource source, std::uint64_t encoded_size,
                                             std::uint64_t decoded_size) {
  constexpr std::uint64_t kMaxWindow = std::uint64_t{1} << ZSTD_WINDOWLOG_LIMIT_DEFAULT;
  if (decoded_size == 0) return nullptr;
  auto state = std::make_unique<State>(std::move(source), encoded_size, decoded_size, kStreamPiece);
  if (!state->begins() || state->header.windowSize > kMaxWindow) return nullptr;
  return std::unique_ptr<ZstdStream>(new ZstdStream(std::move(state)));
}

bool ZstdStream::has_checksum() const { return state_->header.checksumFlag != 0; }
std::uint64_t ZstdStream::position() const { return state_->position; }

void ZstdStream::read(MutableByteView out) {
  State& s = *state_;
  if (out.empty()) return;
  if (out.size() > s.decoded_size - s.position)
    throw Error(Code::kOutOfRange, std::to_string(out.size()) + " bytes at " +
                                       std::to_string(s.position) + " of a zstd frame of " +
                                       std::to_string(s.decoded_size));
  ZSTD_outBuffer decoded{out.data(), out.size(), 0};
  while (decoded.pos < decoded.size && !s.ended) s.step(decoded);
  s.position += decoded.pos;
  check_size(Codec::kZstd, decoded.pos, out.size());
  if (s.position == s.decoded_size) s.finish();
}

void ZstdStream::skip(std::uint64_t n) {
  Bytes scratch(static_cast<std::size_t>(std::min<std::uint64_t>(kStreamPiece, n)));
  for (; n > 0; n -= scratch.size()) {
    scratch.resize(static_cast<std::size_t>(std::min<std::uint64_t>(scratch.size(), n)));
    read(scratch);
  }
}

namespace {

// The frames of a value, whatever sizes they declare.
class ZstdFrames : public ByteStream {
 public:
  ZstdFrames(ByteSource source, std::uint64_t encoded_size, Frames frames)
      : frame_(std::move(source), encoded_size, 0, kStreamPiece), frames_(frames) {
    if (frames_ != Frames::kAny && is_skippable_frame(frame_.ahead(ZSTD_SKIPPABLEHEADERSIZE)))
      check_may_begin_skippable(frames_);
    frame_.read_header();
    checksummed_ = frame_.header.checksumFlag != 0;
    declared_size_ = frame_.header.frameContentSize;  // the same number if it declares none
    while (std::uint64_t{1} << window_log_ < frame_.header.windowSize && window_log_ < kHugeWindow)
      ++window_log_;
    if (!is_huge()) ZSTD_DCtx_setParameter(frame_.decoder.get(), ZSTD_d_windowLogMax, window_log_);
  }
  // Returns whether the first window is larger than a stream may allocate.
  [[nodiscard]] bool is_huge() const { return window_log_ == kHugeWindow; }

  std::size_t read(MutableByteView out) override {
    ZSTD_outBuffer decoded{out.data(), out.size(), 0};
    while (decoded.pos < decoded.size && !ended_) {
      frame_.step(decoded);
      if (frame_.ended) next_frame();
    }
    return decoded.pos;
  }
  [[nodiscard]] bool checksummed() const override { return checksummed_; }
  [[nodiscard]] std::uint64_t memory() const override {
    return (std::uint64_t{1} << static_cast<unsigned>(window_log_)) + 3 * kStreamPiece;
  }
  [[nodiscard]] std::uint64_t declared_size() const override { return declared_size_; }

 private:
  static constexpr int kHugeWindow = ZSTD_WINDOWLOG_LIMIT_DEFAULT + 1;

  void next_frame() {
    if (frames_ != Frames::kOne) frame_.pass_skippable_frames();
    ended_ = !frame_.refill();
    if (ended_) return;
    codec::check_may_follow(Codec::kZstd, frames_);
    frame_.read_header();
    checksummed_ = checksummed_ && frame_.header.checksumFlag != 0;
  }

  ZstdFrame frame_;
  Frames frames_;
  int window_log_ = 23;  // later frames may have a window of at least 8 MiB
  std::uint64_t declared_size_ = kUnknownSize;
  bool checksummed_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> codec::open_zstd(ByteSource source, std::uint64_t encoded_size,
                                             Frames frames) {
  auto stream = std::make_unique<ZstdFrames>(std::move(source), encoded_size, frames);
  if (stream->is_huge()) return nullptr;
  return stream;
}

bool zstd_has_checksum(ByteView in) {
  constexpr std::byte kChecksumFlag{4};
  in = without_skippable_frames(in);
  do {
    if (!is_zstd_frame(in)) return false;
    const std::size_t size = ZSTD_findFrameCompressedSize(in.data(), in.size());
    if (ZSTD_isError(size) || (in[4] & kChecksumFlag) == std::byte{0}) return false;
    in = without_skippable_frames(in.subspan(size));
  } while (!in.empty());
  return true;
}

namespace {

// Asks between the parts whether to stop.
std::size_t encode_in_parts(ZSTD_CCtx* context, ByteView in, MutableByteView out) {
  constexpr std::size_t kPart = std::size_t{256} << 10U;  // high levels are slow
  ZSTD_CCtx_setPledgedSrcSize(context, in.size());
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  ZSTD_inBuffer from{in.data(), 0, 0};
  std::size_t left = 1;  // bytes that the encoder holds back
  while (left != 0 || from.size < in.size()) {
    throw_if_cancelled();
    if (from.pos == from.size) from.size += std::min(kPart, in.size() - from.size);
    const auto end = from.size < in.size() ? ZSTD_e_continue : ZSTD_e_end;
    left = ZSTD_compressStream2(context, &to, &from, end);
    if (ZSTD_isError(left)) codec::refuse(Codec::kZstd, ZSTD_getErrorName(left));
    if (left != 0 && to.pos == to.size) codec::refuse(Codec::kZstd, "there is no room for it");
  }
  return to.pos;
}

}  // namespace

std::size_t codec::encode_zstd(const CompressOptions& options, ByteView in, MutableByteView out) {
  // each thread takes some megabytes at a time
  constexpr std::size_t kWorthThreads = std::size_t{8} << 20U;
  // The threads of a context end the pieces that they have begun. At a higher level, a piece takes
  // too long for a caller who may ask to stop.
  constexpr int kFastLevel = 3;
  constexpr int kPiece = 4 << 20;
  const bool can_stop = bytes_until_asked(in.size()) < in.size();
  check_level(Codec::kZstd, options.level, ZSTD_minCLevel(), ZSTD_maxCLevel());
  thread_local const std::unique_ptr<ZSTD_CCtx, ZstdFree> kept(ZSTD_createCCtx());
  // A context owns its threads, so a threaded encoder uses a context of its own.
  const bool shared = options.threads > 1 && in.size() >= kWorthThreads &&
                      (!can_stop || options.level <= kFastLevel);
  const std::unique_ptr<ZSTD_CCtx, ZstdFree> own(shared ? ZSTD_createCCtx() : nullptr);
  ZSTD_CCtx* const context = shared ? own.get() : kept.get();
  if (context == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, options.level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, options.checksum ? 1 : 0);
  // A library that was built without threads ignores this and compresses with one thread.
  if (shared)
    ZSTD_CCtx_setParameter(context, ZSTD_c_nbWorkers,
                           static_cast<int>(std::min<std::size_t>(options.threads, 256)));
  if (shared && can_stop) ZSTD_CCtx_setParameter(context, ZSTD_c_jobSize, kPiece);
  if (can_stop) return encode_in_parts(context, in, out);
  const std::size_t n = ZSTD_compress2(context, out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(n)) refuse(Codec::kZstd, ZSTD_getErrorName(n));
  return n;
}

std::size_t codec::zstd_bound(std::size_t n) { return ZSTD_compressBound(n); }

Bytes compress_zstd(ByteView in, int level, bool checksum) {
  Bytes out(ZSTD_compressBound(in.size()));
  out.resize(codec::encode_zstd(
      {.level = std::clamp(level, ZSTD_minCLevel(), ZSTD_maxCLevel()), .checksum = checksum}, in,
      out));
  return out;
}

}  // namespace cairn::inline v0
