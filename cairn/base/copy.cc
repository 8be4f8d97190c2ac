// copy.cc -- moving elements between strided arrays: whole runs where both sides are contiguous, else element by element,
// through a small buffer of tiles where the two sides disagree about which dimension is the fast one.
#include <cairn/base/box.h>
#include <cairn/base/strided.h>
#include <cairn/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace cairn {
namespace {

struct Run {
  const std::byte* from;
  std::byte* to;
  std::int64_t from_stride;
  std::int64_t to_stride;
  std::int64_t n;
  std::size_t element_size;
};
using RunFn = void (*)(const Run&);

template <std::size_t kSize>
struct Element {
  std::array<std::byte, kSize> bytes;
};

template <std::size_t kSize>
Element<kSize> load(const std::byte* p) {
  Element<kSize> e;
  std::memcpy(&e, p, kSize);  // any alignment
  return e;
}

// Elements of a size known when compiling. The common steps are spelled out as constants for the vectoriser's sake.
template <std::size_t kSize>
void copy_run(const Run& run) {
  constexpr auto kStep = static_cast<std::int64_t>(kSize);
  if (run.from_stride == 0) {
    const auto e = load<kSize>(run.from);
    if (run.to_stride == kStep)
      for (std::int64_t i = 0; i < run.n; ++i) std::memcpy(run.to + i * kStep, &e, kSize);
    else
      for (std::int64_t i = 0; i < run.n; ++i) std::memcpy(run.to + i * run.to_stride, &e, kSize);
    return;
  }
  if (run.to_stride == kStep) {
    for (std::int64_t i = 0; i < run.n; ++i) std::memcpy(run.to + i * kStep, run.from + i * run.from_stride, kSize);
    return;
  }
  for (std::int64_t i = 0; i < run.n; ++i) std::memcpy(run.to + i * run.to_stride, run.from + i * run.from_stride, kSize);
}

void copy_run_any(const Run& run) {
  for (std::int64_t i = 0; i < run.n; ++i) std::memcpy(run.to + i * run.to_stride, run.from + i * run.from_stride, run.element_size);
}

template <class Word>
Word reversed(Word w) {
  if constexpr (sizeof(Word) == 2)
    return __builtin_bswap16(w);
  else if constexpr (sizeof(Word) == 4)
    return __builtin_bswap32(w);
  else
    return __builtin_bswap64(w);
}

// Elements of kWords components; the bytes of each component change order.
template <class Word, std::size_t kWords>
void swap_run(const Run& run) {
  constexpr auto kStep = static_cast<std::int64_t>(sizeof(Word) * kWords);
  const auto one = [](const std::byte* from, std::byte* to) {
    std::array<Word, kWords> words;
    std::memcpy(&words, from, sizeof(words));
    for (Word& w : words) w = reversed(w);
    std::memcpy(to, &words, sizeof(words));
  };
  if (run.from_stride == kStep && run.to_stride == kStep)
    for (std::int64_t i = 0; i < run.n; ++i) one(run.from + i * kStep, run.to + i * kStep);
  else
    for (std::int64_t i = 0; i < run.n; ++i) one(run.from + i * run.from_stride, run.to + i * run.to_stride);
}

RunFn copy_run_for(std::size_t element_size) {
  switch (element_size) {
    case 1:
      return copy_run<1>;
    case 2:
      return copy_run<2>;
    case 4:
      return copy_run<4>;
    case 8:
      return copy_run<8>;
    case 16:
      return copy_run<16>;
    default:
      return copy_run_any;
  }
}

RunFn swap_run_for(DType dtype) {
  switch (dtype) {
    case DType::kComplex64:
      return swap_run<std::uint32_t, 2>;
    case DType::kComplex128:
      return swap_run<std::uint64_t, 2>;
    case DType::kOpaque:
      throw Error(Code::kInvalidArgument, "opaque elements have no byte order to reverse");
    default:
      break;
  }
  switch (dtype_size(dtype)) {
    case 2:
      return swap_run<std::uint16_t, 1>;
    case 4:
      return swap_run<std::uint32_t, 1>;
    case 8:
      return swap_run<std::uint64_t, 1>;
    default:
      return copy_run<1>;
  }
}

// The last dimension is contiguous in `to`, another one (rows) in `from`. A tile is read along the rows of `from` into a
// buffer and written along `to`, so that both sides see whole cache lines one after the other, whatever the strides:
// strides of large powers of two put every row of a column into the same few cache sets.
class Transposer {
 public:
  Transposer(RunFn final_run, std::size_t element_size) : final_run_(final_run), size_(static_cast<std::int64_t>(element_size)) {
    edge_ = std::clamp<std::int64_t>(256 / size_, 16, 64);
    pitch_ = edge_ * size_ + 16;  // not a power of two: the second pass walks down the columns of the buffer
  }
  static bool suits(std::size_t element_size) { return element_size <= 16; }

  void operator()(const std::byte* from, std::byte* to, const WalkDim& along_from, const WalkDim& along_to) {
    for (std::int64_t c = 0; c < along_to.n; c += edge_)
      for (std::int64_t r = 0; r < along_from.n; r += edge_)
        tile(from + r * along_from.from + c * along_to.from, to + r * along_from.to + c * along_to.to,
             {std::min(edge_, along_from.n - r), along_from.from, along_from.to},
             {std::min(edge_, along_to.n - c), along_to.from, along_to.to});
  }

 private:
  void tile(const std::byte* from, std::byte* to, const WalkDim& rows, const WalkDim& columns) {
    const RunFn read = copy_run_for(static_cast<std::size_t>(size_));
    const auto size = static_cast<std::size_t>(size_);
    for (std::int64_t c = 0; c < columns.n; ++c)
      read({from + c * columns.from, buffer_.data() + c * pitch_, rows.from, size_, rows.n, size});
    for (std::int64_t r = 0; r < rows.n; ++r)
      final_run_({buffer_.data() + r * size_, to + r * rows.to, pitch_, columns.to, columns.n, size});
  }

  RunFn final_run_;
  std::int64_t size_;
  std::int64_t edge_;
  std::int64_t pitch_;
  std::array<std::byte, 64 * (256 + 16)> buffer_;  // edge * pitch at its largest
};

void run_walk(Walk walk, RunFn run, std::size_t element_size) {
  if (walk.dims.empty()) walk.dims.push_back({.n = 1, .from = 0, .to = 0});
  const WalkDim last = walk.dims.back();
  std::vector<WalkDim> outer(walk.dims.begin(), walk.dims.end() - 1);
  const std::size_t fast = fastest_in_from(walk.dims);
  constexpr std::int64_t kWorthTiling = 8;
  const bool transpose =
      fast != outer.size() && last.from != 0 && last.n >= kWorthTiling && outer[fast].n >= kWorthTiling && Transposer::suits(element_size);
  if (!transpose) {
    walk_over(walk, outer, [&](const std::byte* from, std::byte* to) { run({from, to, last.from, last.to, last.n, element_size}); });
    return;
  }
  const WalkDim rows = outer[fast];
  outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(fast));
  Transposer transposer(run, element_size);
  walk_over(walk, outer, [&](const std::byte* from, std::byte* to) { transposer(from, to, rows, last); });
}

void check_same_type(const ArrayView& from, const MutableArrayView& to) {
  if (from.dtype != to.dtype || from.element_size != to.element_size)
    throw Error(Code::kInvalidArgument, "cannot copy elements of " + std::string(dtype_name(from.dtype)) + " (" +
                                            std::to_string(from.element_size) + " bytes) into " + std::string(dtype_name(to.dtype)) + " (" +
                                            std::to_string(to.element_size) + " bytes)");
}

bool is_fixed_size(std::int64_t n) { return n == 1 || n == 2 || n == 4 || n == 8 || n == 16; }

}  // namespace

void copy_walk(Walk walk, std::size_t element_size) {
  const auto size = static_cast<std::int64_t>(element_size);
  if (walk.empty || size == 0) return;
  const bool runs = walk.dims.empty() || (walk.dims.back().from == size && walk.dims.back().to == size);
  if (!runs) return run_walk(std::move(walk), copy_run_for(element_size), element_size);
  // A contiguous run is one larger element.
  std::int64_t run_bytes = size;
  if (!walk.dims.empty()) {
    run_bytes *= walk.dims.back().n;
    walk.dims.pop_back();
  }
  const auto bytes = static_cast<std::size_t>(run_bytes);
  if (is_fixed_size(run_bytes) && !walk.dims.empty()) return run_walk(std::move(walk), copy_run_for(bytes), bytes);
  walk_over(walk, walk.dims, [bytes](const std::byte* source, std::byte* target) { std::memcpy(target, source, bytes); });
}

void copy_elements(const ArrayView& from, const MutableArrayView& to) {
  check_same_type(from, to);
  copy_walk(plan_walk(from, to), to.element_size);
}

void copy_elements_swapped(const ArrayView& from, const MutableArrayView& to) {
  check_same_type(from, to);
  const RunFn run = swap_run_for(to.dtype);
  if (to.element_size == 1) return copy_elements(from, to);
  Walk walk = plan_walk(from, to);
  if (!walk.empty) run_walk(std::move(walk), run, to.element_size);
}

void fill_elements(ByteView element, const MutableArrayView& to) {
  if (element.size() != to.element_size)
    throw Error(Code::kInvalidArgument,
                "an element of " + std::to_string(element.size()) + " bytes cannot fill elements of " + std::to_string(to.element_size));
  const ArrayView from{.data = element.data(),
                       .dtype = to.dtype,
                       .element_size = to.element_size,
                       .shape = to.shape,
                       .strides = std::vector<std::int64_t>(to.shape.size(), 0)};
  copy_elements(from, to);
}

}  // namespace cairn
