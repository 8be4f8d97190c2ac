// copy.cc -- copies elements between strided arrays. Whole runs are copied if both sides are
// contiguous, else single elements. If the fast dimensions of the two sides differ, the copy goes
// through a small buffer of tiles.
#include <cairn/array/box.h>
#include <cairn/array/strided.h>
#include <cairn/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace cairn::inline v0 {
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

// Copies elements of a compile-time size. The common steps are constants, so that the loops
// vectorise.
template <std::size_t kSize>
void copy_run(const Run& borrowed) {
  // a local copy that the written bytes cannot alias; otherwise every iteration would reload it
  const Run run = borrowed;
  constexpr auto kStep = static_cast<std::int64_t>(kSize);
  if (run.from_stride == kStep && run.to_stride == kStep) {
    std::memcpy(run.to, run.from, static_cast<std::size_t>(run.n) * kSize);
    return;
  }
  if (run.from_stride == 0) {
    const auto e = load<kSize>(run.from);
    if (run.to_stride == kStep)
      for (std::int64_t i = 0; i < run.n; ++i) std::memcpy(run.to + i * kStep, &e, kSize);
    else
      for (std::int64_t i = 0; i < run.n; ++i) std::memcpy(run.to + i * run.to_stride, &e, kSize);
    return;
  }
  if (run.to_stride == kStep) {
    for (std::int64_t i = 0; i < run.n; ++i)
      std::memcpy(run.to + i * kStep, run.from + i * run.from_stride, kSize);
    return;
  }
  for (std::int64_t i = 0; i < run.n; ++i)
    std::memcpy(run.to + i * run.to_stride, run.from + i * run.from_stride, kSize);
}

void copy_run_any(const Run& borrowed) {
  const Run run = borrowed;
  for (std::int64_t i = 0; i < run.n; ++i)
    std::memcpy(run.to + i * run.to_stride, run.from + i * run.from_stride, run.element_size);
}

template <class Word>
Word reversed(Word w) {
  if constexpr (sizeof(Word) == 2)
    return static_cast<Word>(w << 8U | w >> 8U);  // vectorises, unlike the built-in function
  else if constexpr (sizeof(Word) == 4)
    return __builtin_bswap32(w);
  else
    return __builtin_bswap64(w);
}

// Copies elements of kWords components and reverses the bytes of each component.
template <class Word, std::int64_t kWords>
void swap_run(const Run& borrowed) {
  const Run run = borrowed;
  constexpr auto kStep = static_cast<std::int64_t>(sizeof(Word));
  const auto one = [](const std::byte* from, std::byte* to) {
    Word w;
    std::memcpy(&w, from, sizeof(w));
    w = reversed(w);
    std::memcpy(to, &w, sizeof(w));
  };
  if (run.from_stride == kStep * kWords && run.to_stride == kStep * kWords) {
    for (std::int64_t i = 0; i < run.n * kWords; ++i) one(run.from + i * kStep, run.to + i * kStep);
    return;
  }
  for (std::int64_t i = 0; i < run.n; ++i)
    for (std::int64_t word = 0; word < kWords; ++word)
      one(run.from + i * run.from_stride + word * kStep, run.to + i * run.to_stride + word * kStep);
}

bool is_fixed_size(std::size_t n) { return n == 1 || n == 2 || n == 4 || n == 8 || n == 16; }

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

// A vector register with lanes of kSize bytes.
template <std::size_t kSize>
struct Lanes;
template <>
struct Lanes<1> {
  using Type [[gnu::vector_size(16)]] = std::uint8_t;
};
template <>
struct Lanes<2> {
  using Type [[gnu::vector_size(16)]] = std::uint16_t;
};
template <>
struct Lanes<4> {
  using Type [[gnu::vector_size(16)]] = std::uint32_t;
};
template <>
struct Lanes<8> {
  using Type [[gnu::vector_size(16)]] = std::uint64_t;
};
template <>
struct Lanes<16> : Lanes<8> {};

// Returns a[first], b[first], a[first + 1], b[first + 1], ...
template <std::size_t kFirst, class V, std::size_t... kLane>
V interleave(V a, V b, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(a, b, (kFirst + kLane / 2 + kLane % 2 * sizeof...(kLane))...);
}

// Transposes N x N elements of kSize bytes, N = 16 / kSize: N rows of 16 bytes become N columns.
// Each of log2(N) rounds interleaves the first half of the rows with the second half.
template <std::size_t kSize>
void transpose_block(const std::byte* from, std::byte* to, std::int64_t pitch) {
  constexpr std::size_t kRows = 16 / kSize;
  using V = typename Lanes<kSize>::Type;
  constexpr std::make_index_sequence<std::max<std::size_t>(kRows, 2)> lanes;
  std::array<V, kRows> rows;
  for (std::size_t r = 0; r < kRows; ++r)
    std::memcpy(&rows[r], from + static_cast<std::int64_t>(r) * pitch, 16);
  for (std::size_t round = 1; round < kRows; round *= 2) {
    std::array<V, kRows> mixed;
    for (std::size_t r = 0; r < kRows / 2; ++r) {
      mixed[2 * r] = interleave<0>(rows[r], rows[r + kRows / 2], lanes);
      mixed[2 * r + 1] = interleave<kRows / 2>(rows[r], rows[r + kRows / 2], lanes);
    }
    rows = mixed;
  }
  for (std::size_t r = 0; r < kRows; ++r)
    std::memcpy(to + static_cast<std::int64_t>(r) * pitch, &rows[r], 16);
}
using BlockFn = void (*)(const std::byte* from, std::byte* to, std::int64_t pitch);

BlockFn transpose_block_for(std::size_t element_size) {
  switch (element_size) {
    case 1:
      return transpose_block<1>;
    case 2:
      return transpose_block<2>;
    case 4:
      return transpose_block<4>;
    case 8:
      return transpose_block<8>;
    default:
      return transpose_block<16>;
  }
}

// Copies if the last dimension is contiguous in `to` and another one in `from`. Reads a tile along
// `from`, transposes it and writes it along `to`, so that both sides access whole cache lines in
// sequence. Direct copies would suffer from strides of large powers of two, which put all rows of a
// column into the same few cache sets.
class Transposer {
 public:
  Transposer(RunFn last_run, std::size_t element_size)
      : read_(copy_run_for(element_size)),
        turn_(transpose_block_for(element_size)),
        write_(last_run),
        size_(static_cast<std::int64_t>(element_size)),
        edge_(std::clamp<std::int64_t>(256 / size_, 16, 128)),
        block_(16 / size_),
        // not a power of two, so that blocks use different cache sets
        pitch_(edge_ * size_ + 16) {}
  static bool suits(std::size_t element_size) { return is_fixed_size(element_size); }

  void operator()(const std::byte* from, std::byte* to, const WalkDim& rows,
                  const WalkDim& columns) {
    for (std::int64_t r = 0; r < rows.n; r += edge_)
      for (std::int64_t c = 0; c < columns.n; c += edge_)
        tile(from + r * rows.from + c * columns.from, to + r * rows.to + c * columns.to,
             {std::min(edge_, rows.n - r), rows.from, rows.to},
             {std::min(edge_, columns.n - c), columns.from, columns.to});
  }

 private:
  // Rows are contiguous in `from`, columns in `to`.
  void tile(const std::byte* from, std::byte* to, const WalkDim& rows, const WalkDim& columns) {
    const auto size = static_cast<std::size_t>(size_);
    for (std::int64_t c = 0; c < columns.n; ++c)
      read_({from + c * columns.from, in_.data() + c * pitch_, rows.from, size_, rows.n, size});
    // Transposes whole blocks, also at the edge; the excess is never written.
    for (std::int64_t c = 0; c < columns.n; c += block_)
      for (std::int64_t r = 0; r < rows.n; r += block_)
        turn_(in_.data() + c * pitch_ + r * size_, out_.data() + r * pitch_ + c * size_, pitch_);
    for (std::int64_t r = 0; r < rows.n; ++r)
      write_({out_.data() + r * pitch_, to + r * rows.to, size_, columns.to, columns.n, size});
  }

  // the largest edge * pitch
  static constexpr std::size_t kCapacity = std::size_t{128} * (256 + 16);

  RunFn read_;
  BlockFn turn_;
  RunFn write_;
  std::int64_t size_;
  std::int64_t edge_;
  std::int64_t block_;
  std::int64_t pitch_;
  alignas(64) std::array<std::byte, kCapacity> in_;
  alignas(64) std::array<std::byte, kCapacity> out_;
};

void run_walk(Walk walk, RunFn run, std::size_t element_size) {
  if (walk.dims.empty()) walk.dims.push_back({.n = 1, .from = 0, .to = 0});
  const WalkDim last = walk.dims.back();
  std::vector<WalkDim> outer(walk.dims.begin(), walk.dims.end() - 1);
  const std::size_t fast = fastest_in_from(walk.dims);
  constexpr std::int64_t kWorthTiling = 8;
  const bool transpose = fast != outer.size() && last.from != 0 && last.n >= kWorthTiling &&
                         outer[fast].n >= kWorthTiling && Transposer::suits(element_size);
  if (!transpose) {
    walk_over(walk, outer, [&](const std::byte* from, std::byte* to) {
      run({from, to, last.from, last.to, last.n, element_size});
    });
    return;
  }
  const WalkDim rows = outer[fast];
  outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(fast));
  Transposer transposer(run, element_size);
  walk_over(walk, outer,
            [&](const std::byte* from, std::byte* to) { transposer(from, to, rows, last); });
}

void check_same_type(const ArrayView& from, const MutableArrayView& to) {
  if (from.dtype != to.dtype || from.element_size != to.element_size)
    throw Error(Code::kInvalidArgument, "cannot copy elements of " +
                                            std::string(dtype_name(from.dtype)) + " (" +
                                            std::to_string(from.element_size) + " bytes) into " +
                                            std::string(dtype_name(to.dtype)) + " (" +
                                            std::to_string(to.element_size) + " bytes)");
}

}  // namespace

void copy_walk(Walk walk, std::size_t element_size) {
  const auto size = static_cast<std::int64_t>(element_size);
  if (walk.empty || size == 0) return;
  const bool runs =
      walk.dims.empty() || (walk.dims.back().from == size && walk.dims.back().to == size);
  if (!runs) return run_walk(std::move(walk), copy_run_for(element_size), element_size);
  // Treats a contiguous run as one larger element.
  std::int64_t run_bytes = size;
  if (!walk.dims.empty()) {
    run_bytes *= walk.dims.back().n;
    walk.dims.pop_back();
  }
  const auto bytes = static_cast<std::size_t>(run_bytes);
  if (is_fixed_size(bytes) && !walk.dims.empty())
    return run_walk(std::move(walk), copy_run_for(bytes), bytes);
  walk_over(walk, walk.dims, [bytes](const std::byte* source, std::byte* target) {
    std::memcpy(target, source, bytes);
  });
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
    throw Error(Code::kInvalidArgument, "an element of " + std::to_string(element.size()) +
                                            " bytes cannot fill elements of " +
                                            std::to_string(to.element_size));
  const ArrayView from{.data = element.data(),
                       .dtype = to.dtype,
                       .element_size = to.element_size,
                       .shape = to.shape,
                       .strides = std::vector<std::int64_t>(to.shape.size(), 0)};
  copy_elements(from, to);
}

}  // namespace cairn::inline v0
