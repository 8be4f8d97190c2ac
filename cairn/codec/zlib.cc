// zlib.cc -- gzip, zlib and bzip2. Input is passed piece by piece, because their libraries use
// 32-bit sizes.
#include <bzlib.h>
#include <cairn/codec/codecs.h>
#include <zlib.h>

#include <memory>
#include <new>

namespace cairn::inline v0 {
namespace {

using codec::fail;
using codec::Output;

// ---- gzip, zlib ----

std::string_view zlib_reason(int result, const z_stream& stream) {
  if (result == Z_BUF_ERROR) return "is truncated";
  if (result == Z_NEED_DICT) return "needs a preset dictionary";
  return stream.msg ? stream.msg : "is damaged";
}

constexpr int kLargestWindow = 15;
constexpr int kGzipWrapper = 16;

// Returns the number of bytes to pass at once to a library with 32-bit sizes.
uInt zlib_count(std::size_t n) {
  return static_cast<uInt>(std::min<std::size_t>(n, std::size_t{1} << 30U));
}

// Decodes to the end of one member or stream. Returns the input after it.
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
    if (result != Z_OK && result != Z_STREAM_END)
      fail(codec, std::string(zlib_reason(result, stream)));
    out.wrote(codec, offered - stream.avail_out);
    in = in.subspan(given - stream.avail_in);
  }
  return in;
}

struct InflateEnd {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

// ---- bz2 ----

struct Bz2End {
  void operator()(bz_stream* stream) const { BZ2_bzDecompressEnd(stream); }
};

// Decodes to the end of one stream. Returns the input after it.
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

struct DeflateEnd {
  void operator()(z_stream* stream) const { deflateEnd(stream); }
};

struct Bz2CompressEnd {
  void operator()(bz_stream* stream) const { BZ2_bzCompressEnd(stream); }
};

}  // namespace

std::string codec::deflate_version() { return zlibVersion(); }

// Its text ends with a date: "1.0.8, 13-Jul-2019".
std::string codec::bzip2_version() {
  const std::string text = BZ2_bzlibVersion();
  return text.substr(0, text.find(','));
}

void codec::decode_zlib(Codec codec, ByteView in, Output& out, Frames frames) {
  if (in.empty()) fail(codec, "is empty");
  z_stream stream{};
  if (inflateInit2(&stream, kLargestWindow + (codec == Codec::kGzip ? kGzipWrapper : 0)) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, InflateEnd> guard(&stream);
  in = inflate_one(codec, stream, in, out);
  while (codec == Codec::kGzip && !in.empty()) {
    check_may_follow(codec, frames);
    inflateReset(&stream);
    in = inflate_one(codec, stream, in, out);
  }
  if (!in.empty()) fail(codec, std::to_string(in.size()) + " bytes follow its end");
}

void codec::decode_bz2(ByteView in, Output& out, Frames frames) {
  in = decode_bz2_stream(in, out);
  while (!in.empty()) {
    check_may_follow(Codec::kBz2, frames);
    in = decode_bz2_stream(in, out);
  }
}

std::size_t codec::encode_zlib(Codec codec, const CompressOptions& options, ByteView in,
                               MutableByteView out) {
  codec::check_level(codec, options.level, 0, 9);
  constexpr int kDefaultMemory = 8;
  z_stream stream{};
  const int window = kLargestWindow + (codec == Codec::kGzip ? kGzipWrapper : 0);
  if (deflateInit2(&stream, options.level, Z_DEFLATED, window, kDefaultMemory,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, DeflateEnd> guard(&stream);
  MutableByteView room = out;
  for (int result = Z_OK; result != Z_STREAM_END;) {
    const unsigned given = zlib_count(in.size());
    const unsigned offered = zlib_count(room.size());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = given;
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = offered;
    result = deflate(&stream, given == in.size() ? Z_FINISH : Z_NO_FLUSH);
    if (result == Z_STREAM_ERROR || (result == Z_BUF_ERROR && stream.avail_out == offered))
      codec::refuse(codec, "zlib failed");
    in = in.subspan(given - stream.avail_in);
    room = room.subspan(offered - stream.avail_out);
  }
  return out.size() - room.size();
}

std::size_t codec::encode_bz2(const CompressOptions& options, ByteView in, MutableByteView out) {
  codec::check_level(Codec::kBz2, options.level, 1, 9);
  bz_stream stream{};
  if (BZ2_bzCompressInit(&stream, options.level, 0, 0) != BZ_OK) throw std::bad_alloc();
  const std::unique_ptr<bz_stream, Bz2CompressEnd> guard(&stream);
  MutableByteView room = out;
  for (int result = BZ_RUN_OK; result != BZ_STREAM_END;) {
    const unsigned given = zlib_count(in.size());
    const unsigned offered = zlib_count(room.size());
    stream.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = given;
    stream.next_out = reinterpret_cast<char*>(room.data());
    stream.avail_out = offered;
    // Once all remaining input has been passed, the library requires BZ_FINISH, and the same count
    // in all later calls.
    result = BZ2_bzCompress(&stream, given == in.size() ? BZ_FINISH : BZ_RUN);
    in = in.subspan(given - stream.avail_in);
    room = room.subspan(offered - stream.avail_out);
    if (result < 0 || (room.empty() && result != BZ_STREAM_END))
      codec::refuse(Codec::kBz2, "bzip2 failed");
  }
  return out.size() - room.size();
}

// ---- streams ----

namespace {

// The buffered input of a stream.
class Input {
 public:
  explicit Input(ByteSource source) : source_(std::move(source)) {}
  // Returns the bytes that have not been used, after fetching more if there are none. Empty at the
  // end of the value.
  ByteView rest() {
    if (rest_.empty()) rest_ = ByteView(buffer_).first(source_(buffer_));
    return rest_;
  }
  void keep_last(std::size_t n) { rest_ = rest_.last(n); }

 private:
  ByteSource source_;
  Bytes buffer_ = Bytes(std::size_t{64} << 10U);
  ByteView rest_;
};

// A deflate stream in one of its wrappers. `name` begins the errors. Only gzip data may have
// several members.
class Inflater : public ByteStream {
 public:
  Inflater(std::string name, int window, ByteSource source, Frames frames)
      : name_(std::move(name)), window_(window), frames_(frames), input_(std::move(source)) {
    if (inflateInit2(&stream_, window) != Z_OK) throw std::bad_alloc();
    guard_.reset(&stream_);
  }

  std::size_t read(MutableByteView out) override {
    const std::size_t wanted = out.size();
    while (!out.empty() && !ended_) out = out.subspan(step(out));
    return wanted - out.size();
  }
  [[nodiscard]] bool checksummed() const override { return window_ > 0; }
  [[nodiscard]] std::uint64_t memory() const override { return std::uint64_t{128} << 10U; }

 private:
  [[noreturn]] void fail_stream(std::string_view what) const {
    throw Error(Code::kDataLoss, name_ + " data: " + std::string(what));
  }

  // Decodes once and returns the number of bytes. zlib runs even without input: it may still hold
  // output of earlier input.
  std::size_t step(MutableByteView out) {
    const ByteView in = input_.rest();
    const uInt offered = zlib_count(out.size());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = zlib_count(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = offered;
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_BUF_ERROR && in.empty()) fail_stream("is truncated");
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      fail_stream(zlib_reason(result, stream_));
    input_.keep_last(stream_.avail_in);
    if (result == Z_STREAM_END) end_member();
    return offered - stream_.avail_out;
  }

  void end_member() {
    ended_ = input_.rest().empty();
    if (ended_) return;
    if (window_ != kLargestWindow + kGzipWrapper) fail_stream("bytes follow its end");
    codec::check_may_follow(Codec::kGzip, frames_);
    inflateReset(&stream_);
  }

  std::string name_;
  int window_;  // as zlib encodes it; negative: no wrapper
  Frames frames_;
  Input input_;
  z_stream stream_{};
  std::unique_ptr<z_stream, InflateEnd> guard_;
  bool ended_ = false;
};

class Bz2Stream : public ByteStream {
 public:
  Bz2Stream(ByteSource source, Frames frames) : frames_(frames), input_(std::move(source)) {
    begin();
  }

  std::size_t read(MutableByteView out) override {
    const std::size_t wanted = out.size();
    while (!out.empty() && !ended_) out = out.subspan(step(out));
    return wanted - out.size();
  }
  [[nodiscard]] bool checksummed() const override { return true; }
  [[nodiscard]] std::uint64_t memory() const override { return std::uint64_t{4} << 20U; }

 private:
  void begin() {
    guard_.reset();
    stream_ = {};
    if (BZ2_bzDecompressInit(&stream_, 0, 0) != BZ_OK) throw std::bad_alloc();
    guard_.reset(&stream_);
  }

  std::size_t step(MutableByteView out) {
    const ByteView in = input_.rest();
    const unsigned offered = zlib_count(out.size());
    stream_.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = zlib_count(in.size());
    stream_.next_out = reinterpret_cast<char*>(out.data());
    stream_.avail_out = offered;
    const int result = BZ2_bzDecompress(&stream_);
    if (result == BZ_MEM_ERROR) throw std::bad_alloc();
    if (result != BZ_OK && result != BZ_STREAM_END) fail(Codec::kBz2, "is damaged");
    if (result == BZ_OK && in.empty() && stream_.avail_out == offered)
      fail(Codec::kBz2, "is truncated");
    const std::size_t written = offered - stream_.avail_out;
    input_.keep_last(stream_.avail_in);
    if (result == BZ_STREAM_END) {
      ended_ = input_.rest().empty();
      if (!ended_) {
        codec::check_may_follow(Codec::kBz2, frames_);
        begin();
      }
    }
    return written;
  }

  Frames frames_;
  Input input_;
  bz_stream stream_{};
  std::unique_ptr<bz_stream, Bz2End> guard_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> codec::open_zlib(Codec codec, ByteSource source, Frames frames) {
  const int window = kLargestWindow + (codec == Codec::kGzip ? kGzipWrapper : 0);
  return std::make_unique<Inflater>(std::string(codec_name(codec)), window, std::move(source),
                                    frames);
}

std::unique_ptr<ByteStream> codec::open_bz2(ByteSource source, Frames frames) {
  return std::make_unique<Bz2Stream>(std::move(source), frames);
}

InflateStream::InflateStream(ByteSource source)
    : stream_(std::make_unique<Inflater>("deflated", -kLargestWindow, std::move(source),
                                         Frames::kOne)) {}
InflateStream::~InflateStream() = default;

std::size_t InflateStream::read(MutableByteView out) { return stream_->read(out); }

}  // namespace cairn::inline v0
