// pieces.h -- a value in several pieces, in order. A piece is borrowed or owned memory.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace cairn::inline v0::zarr {

// A value as a list of pieces.
class Pieces {
 public:
  // Appends borrowed bytes as a piece. They must stay valid and in place while the pieces are used.
  void borrow(ByteView bytes) {
    if (bytes.empty()) return;
    views_.push_back(bytes);
    size_ += bytes.size();
  }
  // Keeps `bytes` alive without appending them as a piece. Returns a view of them.
  ByteView keep(Bytes bytes) { return owned_.emplace_back(std::move(bytes)); }
  // Keeps `bytes` and appends them as a piece.
  void own(Bytes bytes) { borrow(keep(std::move(bytes))); }

  // Appends all pieces of another value and takes over the bytes it owns.
  void append(Pieces&& more) {
    views_.insert(views_.end(), more.views_.begin(), more.views_.end());
    std::move(more.owned_.begin(), more.owned_.end(), std::back_inserter(owned_));
    size_ += more.size_;
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::span<const ByteView> views() const { return views_; }
  // Returns all pieces from number `first` on as one contiguous view; copies nothing if there is
  // only one.
  [[nodiscard]] ByteView joined(std::size_t first) {
    if (views_.size() == first + 1) return views_[first];
    Bytes all;
    for (std::size_t i = first; i < views_.size(); ++i)
      all.insert(all.end(), views_[i].begin(), views_[i].end());
    return keep(std::move(all));
  }
  // Removes the pieces from number `first` on. Owned bytes are freed only on destruction.
  void truncate(std::size_t first) {
    for (; views_.size() > first; views_.pop_back()) size_ -= views_.back().size();
  }
  // Replaces piece `number` by other bytes of the same length.
  void replace(std::size_t number, Bytes bytes) { views_[number] = keep(std::move(bytes)); }

 private:
  std::vector<ByteView> views_;
  std::vector<Bytes> owned_;  // moving a vector does not move its bytes
  std::uint64_t size_ = 0;
};

}  // namespace cairn::inline v0::zarr
