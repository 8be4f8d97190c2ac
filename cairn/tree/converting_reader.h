// converting_reader.h -- reads arrays to memory of another element type. It reads some parts at a
// time, as one plan, and converts them on all threads of an executor.
#pragma once

#include <cairn/array/cast_all.h>
#include <cairn/checkpoint.h>

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// Bytes in memory of the elements of a box of an array.
std::uint64_t stored_bytes(const TensorInfo& tensor, const Box& box);

class ConvertingReader {
 public:
  // A box of an array that is read at once.
  struct Part {
    std::size_t array = 0;  // the number that add() got
    Box box;                // in the array's coordinates
    MutableArrayView out;   // of the stored type; valid until the call returns
  };
  // Reads all parts, and may move from them. They have the order in which their arrays were added.
  using ReadFn = std::function<void(std::span<Part> parts)>;

  // The stored elements are held while they are converted: at most `held_bytes`, or one chunk if
  // that is larger. A compressed array without chunks counts as one chunk.
  ConvertingReader(std::uint64_t held_bytes, Executor& executor, ReadFn read)
      : held_bytes_(held_bytes), executor_(executor), read_(std::move(read)) {}
  // Bytes to hold for this executor: a usual chunk of 16 MiB for each thread, of which each reads
  // one at a time; 48 to 256 MiB.
  static std::uint64_t usual_bytes(const Executor& executor);

  // Adds a box of an array, to be converted to `out`. Reads what was added before if it does not
  // fit beside it. `tensor` must live until the next flush(). With kChecked, throws
  // invalid_argument for the first element that the type of `out` cannot hold, then or in flush().
  void add(std::size_t array, const TensorInfo& tensor, const Box& box, const MutableArrayView& out,
           Casting casting = Casting::kUnsafe);
  // Reads and converts what has been added and not been read yet.
  void flush();

 private:
  // Calls add() for parts of the box that fit into held_bytes_, cut along this dimension and the
  // next ones.
  void cut(const TensorInfo& tensor, const Box& box, std::size_t dimension,
           const std::function<void(const Box&)>& add) const;
  void add_part(std::size_t array, const TensorInfo& tensor, Box part, const MutableArrayView& out,
                Casting casting);
  [[noreturn]] void fail(const LostElement& lost) const;

  // Where the elements of a conversion come from.
  struct Origin {
    const TensorInfo* tensor;
    std::vector<std::int64_t> first;  // of the part, in the array's coordinates
  };

  std::uint64_t held_bytes_;
  Executor& executor_;
  ReadFn read_;
  Buffer memory_{0};
  std::uint64_t used_ = 0;  // bytes of memory_ that are in use
  std::vector<Part> parts_;
  std::vector<Cast> casts_;      // parallel to parts_
  std::vector<Origin> origins_;  // parallel to parts_
};

}  // namespace cairn::inline v0
