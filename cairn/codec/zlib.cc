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

void codec::decode_zlib(Codec codec, ByteView in, Output& out) {
  if (in.empty()) fail(codec, "is empty");
  z_stream stream{};
  if (inflateInit2(&stream, kLargestWindow + (codec == Codec::kGzip ? kGzipWrapper : 0)) != Z_OK)
    throw std::bad_alloc();
  const std::unique_ptr<z_stream, InflateEnd> guard(&stream);
  in = inflate_one(codec, stream, in, out);
  while (codec == Codec::kGzip && !in.empty()) {
    inflateReset(&stream);
    in = inflate_one(codec, stream, in, out);
  }
  if (!in.empty()) fail(codec, std::to_string(in.size()) + " bytes follow its end");
}

void codec::decode_bz2(ByteView in, Output& out) {
  do {
    in = decode_bz2_stream(in, out);
  } while (!in.empty());
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

// ---- streaming deflate ----

namespace {

[[noreturn]] void fail_deflate(std::string_view what) {
  throw Error(Code::kDataLoss, "deflated data: " + std::string(what));
}

}  // namespace

struct InflateStream::State {
  explicit State(ByteSource from) : source(std::move(from)) {
    if (inflateInit2(&stream, -kLargestWindow) != Z_OK) throw std::bad_alloc();
    guard.reset(&stream);
  }

  // Returns whether input is available, after fetching more if necessary.
  bool refill() {
    if (stream.avail_in == 0) {
      stream.next_in = reinterpret_cast<Bytef*>(input.data());
      stream.avail_in = static_cast<uInt>(source(input));
    }
    return stream.avail_in > 0;
  }

  ByteSource source;
  z_stream stream{};
  std::unique_ptr<z_stream, InflateEnd> guard;
  Bytes input = Bytes(std::size_t{64} << 10U);
  bool ended = false;
};

InflateStream::InflateStream(ByteSource source)
    : state_(std::make_unique<State>(std::move(source))) {}
InflateStream::~InflateStream() = default;

std::size_t InflateStream::read(MutableByteView out) {
  State& s = *state_;
  const std::size_t wanted = out.size();
  while (!out.empty() && !s.ended) {
    // inflate runs even without input: it may still hold output of earlier input.
    const bool has_input = s.refill();
    const uInt offered = zlib_count(out.size());
    s.stream.next_out = reinterpret_cast<Bytef*>(out.data());
    s.stream.avail_out = offered;
    const int result = inflate(&s.stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    if (result == Z_BUF_ERROR && !has_input) fail_deflate("is truncated");
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
      fail_deflate(zlib_reason(result, s.stream));
    out = out.subspan(offered - s.stream.avail_out);
    s.ended = result == Z_STREAM_END;
    if (s.ended && s.refill()) fail_deflate("bytes follow its end");
  }
  return wanted - out.size();
}

}  // namespace cairn::inline v0
