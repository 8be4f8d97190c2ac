// pieces.h -- a value in several pieces, in order: bytes of others and bytes of its own.
#pragma once

#include <cairn/types.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace cairn::zarr {

class Pieces {
 public:
  // Bytes that must stay where they are as long as the pieces are used.
  void borrow(ByteView bytes) {
    if (bytes.empty()) return;
    views_.push_back(bytes);
    size_ += bytes.size();
  }
  // Keeps `bytes` without making them a piece.
  ByteView keep(Bytes bytes) { return owned_.emplace_back(std::move(bytes)); }
  void own(Bytes bytes) { borrow(keep(std::move(bytes))); }

  // All pieces of another value, and what it owns.
  void append(Pieces&& more) {
    views_.insert(views_.end(), more.views_.begin(), more.views_.end());
    std::move(more.owned_.begin(), more.owned_.end(), std::back_inserter(owned_));
    size_ += more.size_;
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::span<const ByteView> views() const { return views_; }
  // All pieces from number `first` on as one: without copying if there is only one.
  [[nodiscard]] ByteView joined(std::size_t first) {
    if (views_.size() == first + 1) return views_[first];
    Bytes all;
    for (std::size_t i = first; i < views_.size(); ++i)
      all.insert(all.end(), views_[i].begin(), views_[i].end());
    return keep(std::move(all));
  }
  // Drops the pieces from number `first` on. What they owned stays until the end.
  void truncate(std::size_t first) {
    for (; views_.size() > first; views_.pop_back()) size_ -= views_.back().size();
  }
  // Puts other bytes of the same length in the place of piece `number`.
  void replace(std::size_t number, Bytes bytes) { views_[number] = keep(std::move(bytes)); }

 private:
  std::vector<ByteView> views_;
  std::vector<Bytes> owned_;  // moving a vector does not move its bytes
  std::uint64_t size_ = 0;
};

}  // namespace cairn::zarr
