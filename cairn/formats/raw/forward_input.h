// forward_input.h -- the stored bytes of a part of a file, from the front, for a decoder.
#pragma once

#include <cairn/bytes.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

namespace cairn::inline v0 {

// How a reader asks for stored bytes. kInPieces: the pieces grow while it goes on, for a store,
// where a request takes as long as the transfer of a piece.
enum class InputAccess : std::uint8_t { kAsNeeded, kInPieces };

class ForwardInput {
 public:
  using Read = std::function<void(std::uint64_t offset, MutableByteView out)>;

  // The bytes [begin, end) of what `read` reads.
  ForwardInput(Read read, std::uint64_t begin, std::uint64_t end, InputAccess access)
      : read_(std::move(read)), at_(begin), end_(end), access_(access) {}

  // Fills the beginning of `out` with the next bytes. Returns their number; 0 at the end.
  std::size_t next(MutableByteView out) {
    if (ahead_.empty() && must_read_ahead()) fetch();
    out = out.first(std::min<std::uint64_t>(out.size(), end_ - at_));
    if (!ahead_.empty()) {
      out = out.first(std::min(out.size(), ahead_.size()));
      std::copy_n(ahead_.begin(), out.size(), out.begin());
      ahead_ = ahead_.subspan(out.size());
    } else if (!out.empty()) {
      read_(at_, out);
    }
    at_ += out.size();
    in_a_row_ += out.size();
    return out.size();
  }
  // Call it when the next read may be far away in time: drops bytes that were read ahead.
  void pause() {
    ahead_ = {};
    piece_ = {};
    in_a_row_ = 0;
  }

 private:
  // Headers and small parts do not need it: the file keeps blocks of this size itself.
  static constexpr std::uint64_t kFirst = std::uint64_t{256} << 10U;
  static constexpr std::uint64_t kLargest = std::uint64_t{4} << 20U;

  [[nodiscard]] bool must_read_ahead() const {
    return access_ == InputAccess::kInPieces && in_a_row_ >= kFirst && at_ < end_;
  }
  // Each piece is as large as all before it.
  void fetch() {
    piece_.resize(std::min({in_a_row_, kLargest, end_ - at_}));
    read_(at_, piece_);
    ahead_ = piece_;
  }

  Read read_;
  std::uint64_t at_, end_;
  InputAccess access_;
  std::uint64_t in_a_row_ = 0;  // bytes since the beginning or the last pause
  Bytes piece_;
  ByteView ahead_;  // the rest of the piece
};

}  // namespace cairn::inline v0
