// read_forward.cc -- a ring of pieces: threads fill them in order, the reader empties them.
#include <cairn/io/tree/read_forward.h>

#include <cairn/base/cancellation.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// Buffers of one piece that readers at the same time pass on to each other, so that their pages are
// touched only once.
class PieceBuffers {
 public:
  // Those of all readers that exist now.
  static std::shared_ptr<PieceBuffers> shared() {
    static std::mutex mutex;
    static std::weak_ptr<PieceBuffers> current;
    const std::scoped_lock lock(mutex);
    auto buffers = current.lock();
    if (!buffers) current = buffers = std::make_shared<PieceBuffers>();
    return buffers;
  }
  Buffer take() {
    {
      const std::scoped_lock lock(mutex_);
      if (!free_.empty()) {
        Buffer buffer = std::move(free_.back());
        free_.pop_back();
        return buffer;
      }
    }
    return Buffer(kForwardPiece);
  }
  void give(Buffer buffer) {
    const std::scoped_lock lock(mutex_);
    if (free_.size() < kMostFree) free_.push_back(std::move(buffer));
  }

 private:
  static constexpr std::size_t kMostFree = 8;
  std::mutex mutex_;
  std::vector<Buffer> free_;
};

class ForwardSource final : public RangeSource {
 public:
  ForwardSource(std::shared_ptr<const File> file, const ForwardRange& range)
      : file_(std::move(file)),
        size_(file_->size()),
        range_(range),
        pieces_((range.length + kForwardPiece - 1) / kForwardPiece),
        allowed_(std::min(pieces_, (range.sure + kForwardPiece - 1) / kForwardPiece)),
        ring_(std::max<std::size_t>(range.window, 1)),
        cancellation_(current_cancellation().or_by(stop_.get_token())) {}
  ~ForwardSource() override {
    {
      const std::scoped_lock lock(mutex_);
      stop_.request_stop();
    }
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    for (Piece& piece : ring_) release(piece);
  }
  ForwardSource(const ForwardSource&) = delete;
  ForwardSource& operator=(const ForwardSource&) = delete;

  [[nodiscard]] std::uint64_t size() const override { return size_; }
  void read_into(std::uint64_t offset, MutableByteView out) const override {
    if (offset < range_.offset + position_ || offset + out.size() > range_.offset + range_.length)
      return file_->read_into(offset, out);
    read_ahead(offset - range_.offset, out);
  }
  void read_scatter(std::uint64_t offset, std::span<const MutableByteView> out) const override {
    for (const MutableByteView part : out) {
      if (part.data() != nullptr) read_into(offset, part);
      offset += part.size();
    }
  }
  [[nodiscard]] std::int64_t modified_ns() const override { return file_->modified_ns(); }
  [[nodiscard]] const std::string& version() const override { return version_; }

 private:
  struct Piece {
    std::uint64_t number = ~std::uint64_t{0};
    bool is_being_fetched = false;
    Buffer buffer = {};      // of kForwardPiece bytes, or none
    std::uint64_t size = 0;  // bytes of it that are the piece's
    std::exception_ptr error = nullptr;
  };

  void read_ahead(std::uint64_t at, MutableByteView out) const {
    while (!out.empty()) {
      const ByteView bytes = piece(at / kForwardPiece).subspan(at % kForwardPiece);
      const auto n = std::min(out.size(), bytes.size());
      std::copy_n(bytes.begin(), n, out.begin());
      out = out.subspan(n);
      at += n;
    }
    position_ = at;
  }

  // Waits for a piece, and gives the room of those before it to the threads.
  ByteView piece(std::uint64_t number) const {
    std::unique_lock lock(mutex_);
    const bool has_moved = number > first_;
    for (; first_ < number; ++first_)
      if (Piece& passed = place_of(first_); !passed.is_being_fetched) release(passed);
    next_ = std::max(next_, number);
    if (number >= allowed_) {
      step_ = std::min<std::uint64_t>(2 * step_, ring_.size());
      allowed_ = std::min(pieces_, number + step_);
    }
    start_threads();
    if (has_moved) room_.notify_all();
    const Piece& wanted = place_of(number);
    arrived_.wait(lock, [&] { return wanted.number == number && !wanted.is_being_fetched; });
    if (wanted.error) std::rethrow_exception(wanted.error);
    return {wanted.buffer.data(), wanted.size};
  }
  Piece& place_of(std::uint64_t number) const { return ring_[number % ring_.size()]; }

  void release(Piece& piece) const {
    if (piece.buffer.size() > 0) buffers_->give(std::exchange(piece.buffer, {}));
  }

  void start_threads() const {
    const std::uint64_t wanted = std::min<std::uint64_t>(ring_.size(), allowed_ - first_);
    try {
      while (threads_.size() < wanted) threads_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;
    }
  }

  void serve() const {
    const CancellationScope scope(cancellation_);
    std::unique_lock lock(mutex_);
    while (true) {
      room_.wait(lock, [&] {
        return stop_.stop_requested() || (next_ < allowed_ && next_ < first_ + ring_.size() &&
                                          !place_of(next_).is_being_fetched);
      });
      if (stop_.stop_requested()) return;
      Piece& piece = place_of(next_);
      piece.number = next_++;
      piece.is_being_fetched = true;
      lock.unlock();
      fetch(piece);
      lock.lock();
      piece.is_being_fetched = false;
      arrived_.notify_all();
      room_.notify_all();
    }
  }

  void fetch(Piece& piece) const {
    piece.error = nullptr;
    try {
      const std::uint64_t begin = piece.number * kForwardPiece;
      piece.size = std::min(kForwardPiece, range_.length - begin);
      if (piece.buffer.size() == 0) piece.buffer = buffers_->take();
      file_->read_into(range_.offset + begin, {piece.buffer.data(), piece.size});
    } catch (...) {
      piece.error = std::current_exception();
    }
  }

  std::shared_ptr<const File> file_;
  std::shared_ptr<PieceBuffers> buffers_ = PieceBuffers::shared();
  std::uint64_t size_;
  ForwardRange range_;
  std::string version_;
  std::uint64_t pieces_;
  mutable std::uint64_t position_ = 0;  // of the reader in the range
  mutable std::mutex mutex_;  // guards what follows, but for pieces that are being fetched
  mutable std::condition_variable room_;
  mutable std::condition_variable arrived_;
  mutable std::uint64_t first_ = 0;  // the piece that the reader is in
  mutable std::uint64_t next_ = 0;   // the piece that is fetched next
  mutable std::uint64_t allowed_;    // pieces before this one may be fetched
  mutable std::uint64_t step_ = 1;
  mutable std::vector<Piece> ring_;  // piece i is at i modulo the window
  std::stop_source stop_;
  Cancellation cancellation_;
  mutable std::vector<std::thread> threads_;
};

}  // namespace

File read_forward(std::shared_ptr<const File> file, const ForwardRange& range) {
  std::string path = file->path();
  return {std::move(path), std::make_shared<const ForwardSource>(std::move(file), range)};
}

}  // namespace cairn::inline v0
