// chain_stream.cc -- one stream for each step; each reads from the one outside it.
#include <cairn/zarr/codec/chain_stream.h>

#include <cairn/error.h>
#include <cairn/zarr/codec/checksum_step.h>
#include <cairn/zarr/codec/filters.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10U;
// Most memory of one stream of several. Its lease is taken before its header can be read.
constexpr std::uint64_t kMostNested = std::uint64_t{64} << 20U;
// A stream may always take this much: the window of most zstd frames and some buffers.
constexpr std::uint64_t kLeastMemory = std::uint64_t{16} << 20U;

// Fills `out` from `source`, which may return less than it is asked for only at the end.
std::size_t fill(const ByteSource& source, MutableByteView out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::size_t n = source(out.subspan(done));
    if (n == 0) break;
    done += n;
  }
  return done;
}

// Hands out pieces that a derived class makes.
class PieceStream : public ByteStream {
 public:
  std::size_t read(MutableByteView out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      if (rest_.empty()) rest_ = next();
      if (rest_.empty()) break;
      const std::size_t n = std::min(rest_.size(), out.size() - done);
      std::copy_n(rest_.begin(), n, out.begin() + static_cast<std::ptrdiff_t>(done));
      rest_ = rest_.subspan(n);
      done += n;
    }
    return done;
  }
  [[nodiscard]] bool checksummed() const override { return false; }
  [[nodiscard]] std::uint64_t memory() const override { return 16 * kPiece; }

 protected:
  // Returns the next bytes; none at the end.
  virtual ByteView next() = 0;

 private:
  ByteView rest_;
};

[[noreturn]] void too_few(const RunningChecksum& checksum, std::uint64_t n) {
  throw Error(Code::kDataLoss, std::string(checksum.name()) + ": " + std::to_string(n) +
                                   " bytes are too few for the checksum");
}

// Returns the bytes of a value of known size without their checksum, and verifies it at the end. It
// reads straight into the caller's memory, and adds each piece to the checksum while the piece is
// in the cache.
class SizedChecksumStream : public ByteStream {
 public:
  SizedChecksumStream(const ByteStep& step, EncodedValue value)
      : checksum_(step), source_(std::move(value.source)), size_(value.size) {}

  std::size_t read(MutableByteView out) override {
    if (!begun_) begin();
    out = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), left_)));
    for (std::size_t at = 0; at < out.size(); at += kHashedPiece) {
      const MutableByteView piece = out.subspan(at, std::min(kHashedPiece, out.size() - at));
      take(piece);
      checksum_.add(piece);
    }
    left_ -= out.size();
    if (left_ == 0 && !std::exchange(ended_, true)) end();
    return out.size();
  }
  [[nodiscard]] bool checksummed() const override { return true; }
  [[nodiscard]] std::uint64_t memory() const override { return 0; }

 private:
  static constexpr std::size_t kHashedPiece = std::size_t{512} << 10U;

  void begin() {
    begun_ = true;
    if (size_ < kChecksumSize) too_few(checksum_, size_);
    left_ = size_ - kChecksumSize;
    if (checksum_.at_start()) take(stored_);
  }
  void end() {
    if (!checksum_.at_start()) take(stored_);
    checksum_.check(stored_);
  }
  void take(MutableByteView out) const {
    if (fill(source_, out) < out.size())
      throw Error(Code::kDataLoss, "the chunk ends before its " + std::to_string(size_) + " bytes");
  }

  RunningChecksum checksum_;
  ByteSource source_;
  std::uint64_t size_;
  std::uint64_t left_ = 0;  // bytes that the checksum covers and that are not yet read
  std::array<std::byte, kChecksumSize> stored_{};
  bool begun_ = false;
  bool ended_ = false;
};

// The same for a value whose size is known only at its end.
class ChecksumStream : public PieceStream {
 public:
  ChecksumStream(const ByteStep& step, ByteSource source)
      : checksum_(step), source_(std::move(source)) {}

  [[nodiscard]] bool checksummed() const override { return true; }

 private:
  ByteView next() override {
    if (ended_) return {};
    if (!begun_) begin();
    // The last bytes so far may be the checksum.
    const std::size_t n = kept_ + fill(source_, MutableByteView(buffer_).subspan(kept_));
    ended_ = n < buffer_.size();
    const ByteView all = ByteView(buffer_).first(n);
    if (ended_ && checksum_.at_start()) {
      checksum_.add(all);
      checksum_.check(first_);
      return all;
    }
    if (checksum_.at_start()) {
      checksum_.add(all);
      return all;
    }
    if (n < kChecksumSize) too_few(checksum_, n);
    const ByteView body = all.first(n - kChecksumSize);
    checksum_.add(body);
    if (ended_) {
      checksum_.check(all.last(kChecksumSize));
      return body;
    }
    piece_.assign(body.begin(), body.end());
    std::memmove(buffer_.data(), buffer_.data() + body.size(), kChecksumSize);
    kept_ = kChecksumSize;
    return piece_;
  }

  void begin() {
    begun_ = true;
    if (!checksum_.at_start()) return;
    const std::size_t n = fill(source_, first_);
    if (n < first_.size()) too_few(checksum_, n);
  }

  RunningChecksum checksum_;
  ByteSource source_;
  Bytes buffer_ = Bytes(kPiece);
  std::size_t kept_ = 0;
  Bytes piece_;
  std::array<std::byte, kChecksumSize> first_{};
  bool begun_ = false;
  bool ended_ = false;
};

// The stored bytes, of a chain in which nothing must be undone.
class StoredStream : public ByteStream {
 public:
  explicit StoredStream(ByteSource source) : source_(std::move(source)) {}

  std::size_t read(MutableByteView out) override { return fill(source_, out); }
  [[nodiscard]] bool checksummed() const override { return false; }
  [[nodiscard]] std::uint64_t memory() const override { return 0; }

 private:
  ByteSource source_;
};

// Delta, casts and scales.
class FilterStream : public PieceStream {
 public:
  FilterStream(FilterStep step, ByteSource source) : step_(step), source_(std::move(source)) {}

 private:
  ByteView next() override {
    const ByteView in = ByteView(in_).first(fill(source_, in_));
    out_.resize(unfiltered_size(step_, in));
    undo_filter_part(step_, in, out_, carry_);
    return out_;
  }

  FilterStep step_;
  ByteSource source_;
  FilterCarry carry_;
  Bytes in_ = Bytes(kPiece);  // whole elements of any type
  Bytes out_;
};

// The first byte has the number of bits in the last byte that do not count.
class PackBitsStream : public PieceStream {
 public:
  explicit PackBitsStream(ByteSource source) : source_(std::move(source)) {}

 private:
  ByteView next() override {
    if (ended_) return {};
    // in_[0] is the padding. The last byte of a piece is kept until the next one arrives.
    if (!begun_) kept_ = fill(source_, MutableByteView(in_).first(1));
    const std::size_t n = kept_ + fill(source_, MutableByteView(in_).subspan(kept_));
    begun_ = true;
    ended_ = n < in_.size();
    const FilterStep step = PackBitsStep{};
    if (ended_) {
      out_.resize(unfiltered_size(step, ByteView(in_).first(n)));
      undo_filter(step, ByteView(in_).first(n), out_);
      return out_;
    }
    const std::byte padding = std::exchange(in_[0], std::byte{0});
    out_.resize(unfiltered_size(step, ByteView(in_).first(n - 1)));
    undo_filter(step, ByteView(in_).first(n - 1), out_);
    in_[0] = padding;
    in_[1] = in_[n - 1];
    kept_ = 2;
    return out_;
  }

  ByteSource source_;
  Bytes in_ = Bytes(kPiece);
  std::size_t kept_ = 0;
  Bytes out_;
  bool begun_ = false;
  bool ended_ = false;
};

// Returns a source that reads from `stream` and throws if it supplies more than `most` bytes.
ByteSource source_of(std::shared_ptr<ByteStream> stream, std::uint64_t most) {
  return [stream = std::move(stream), most, total = std::uint64_t{0}](MutableByteView out) mutable {
    const std::size_t n = stream->read(out);
    total += n;
    if (total > most)
      throw Error(Code::kDataLoss, "chunk: a codec decodes to more than the expected " +
                                       std::to_string(most) + " bytes");
    return n;
  };
}

bool is_identity(const ByteStep& step) {
  const auto* shuffle = std::get_if<ShuffleStep>(&step);
  return shuffle != nullptr && shuffle->element_size <= 1;
}

// Returns the name of a step that can only be undone on the whole chunk; empty if there is none.
std::string whole_chunk_step(std::span<const ByteStep> steps, ByteOrder order) {
  // Behind these steps, the order of the bytes matters.
  bool ordered = order == ByteOrder::kKeep;
  for (const ByteStep& step : steps) {
    if (std::holds_alternative<ShuffleStep>(step) && !is_identity(step) && ordered)
      return "shuffle";
    if (const auto* sum = std::get_if<ChecksumStep>(&step); sum && sum->kind == Checksum::kLookup3)
      return "jenkins_lookup3";
    ordered = ordered || !as_filter(step).has_value();
  }
  return "";
}

// Returns null if the value can only be decoded whole.
std::shared_ptr<ByteStream> open_step(const ByteStep& step, EncodedValue value, Frames frames) {
  if (const auto* compress = std::get_if<CompressStep>(&step))
    return open_decompressor(compress->codec, std::move(value.source), value.size, frames);
  if (is_checksum(step)) {
    if (value.size != kUnknownSize)
      return std::make_shared<SizedChecksumStream>(step, std::move(value));
    return std::make_shared<ChecksumStream>(step, std::move(value.source));
  }
  const FilterStep filter = *as_filter(step);
  if (std::holds_alternative<PackBitsStep>(filter))
    return std::make_shared<PackBitsStream>(std::move(value.source));
  return std::make_shared<FilterStream>(filter, std::move(value.source));
}

}  // namespace

EncodedValue value_in_memory(ByteView stored) {
  return {.source =
              [stored](MutableByteView out) mutable {
                const std::size_t n = std::min(out.size(), stored.size());
                std::copy_n(stored.begin(), n, out.begin());
                stored = stored.subspan(n);
                return n;
              },
          .size = stored.size()};
}

std::uint64_t memory_to_open(std::span<const ByteStep> steps) {
  return kMostNested * (steps.size() > 1 ? steps.size() : 0);
}

std::unique_ptr<ChainStream> ChainStream::open(std::span<const ByteStep> steps, EncodedValue value,
                                               std::uint64_t nbytes, std::uint64_t most,
                                               std::string& why, ByteOrder order, Frames frames) {
  why = whole_chunk_step(steps, order);
  if (!why.empty()) {
    why = "the codec " + why + " needs the whole chunk";
    return nullptr;
  }
  // bounds[i]: the size that step i had as input when writing
  std::vector<std::uint64_t> bounds(steps.size() + 1, nbytes);
  for (std::size_t i = 0; i < steps.size(); ++i) bounds[i + 1] = encoded_bound(steps[i], bounds[i]);
  std::unique_ptr<ChainStream> stream(new ChainStream(nbytes));
  most = std::max(most, kLeastMemory);
  if (steps.size() > 1) most = std::min(most, kMostNested);
  for (std::size_t i = steps.size(); i-- > 0;) {
    const Frames of_step = std::exchange(frames, frames_inside(frames));
    if (std::holds_alternative<ShuffleStep>(steps[i])) continue;  // has no effect here
    auto layer = open_step(steps[i], std::move(value), of_step);
    if (layer == nullptr || layer->memory() > most) {
      const auto* compress = std::get_if<CompressStep>(&steps[i]);
      why = "a block or window of its " +
            (compress != nullptr ? std::string(codec_name(compress->codec)) + " data" : "codec") +
            " is too large";
      return nullptr;
    }
    stream->has_checksum_ = stream->has_checksum_ || layer->checksummed() ||
                            (is_zstd(steps[i]) && layer->declared_size() != nbytes);
    stream->layers_.push_back(layer);
    value = {.source = source_of(std::move(layer), bounds[i]), .size = kUnknownSize};
  }
  if (stream->layers_.empty())
    stream->layers_.push_back(std::make_shared<StoredStream>(std::move(value.source)));
  return stream;
}

bool ChainStream::has_checksum() const { return has_checksum_; }

bool ChainStream::checksummed() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const auto& layer) { return layer->checksummed(); });
}

std::uint64_t ChainStream::memory() const {
  std::uint64_t sum = 0;
  for (const auto& layer : layers_) sum += layer->memory();
  return sum;
}

void ChainStream::read(MutableByteView out) {
  if (out.empty()) return;
  if (out.size() > nbytes_ - position_)
    throw Error(Code::kOutOfRange, std::to_string(out.size()) + " bytes at " +
                                       std::to_string(position_) + " of a chunk of " +
                                       std::to_string(nbytes_));
  const std::size_t n = layers_.back()->read(out);
  position_ += n;
  if (n < out.size())
    throw Error(Code::kDataLoss, "chunk decodes to " + std::to_string(position_) +
                                     " bytes, expected " + std::to_string(nbytes_));
  std::byte more{};
  if (position_ == nbytes_ && layers_.back()->read({&more, 1}) > 0)
    throw Error(Code::kDataLoss,
                "chunk decodes to more than the expected " + std::to_string(nbytes_) + " bytes");
}

void ChainStream::skip(std::uint64_t n) {
  Bytes scratch(static_cast<std::size_t>(std::min<std::uint64_t>(4 * kPiece, n)));
  for (; n > 0; n -= scratch.size()) {
    scratch.resize(static_cast<std::size_t>(std::min<std::uint64_t>(scratch.size(), n)));
    read(scratch);
  }
}

}  // namespace cairn::inline v0::zarr
