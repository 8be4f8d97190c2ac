#include <cairn/tools/dequantize/affine_array.h>

#include <cairn/array/box.h>
#include <cairn/array/byte_count.h>
#include <cairn/array/cast_plan.h>
#include <cairn/tools/dequantize/row_tiles.h>
#include <cairn/tools/transform/lazy_pieces.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace cairn::inline v0 {
namespace {

// What was read for a piece of the tensor.
struct AffinePiece {
  Array integers;                  // as stored
  std::vector<double> scales;      // of the piece
  std::vector<float> zero_points;  // of channels
  std::uint32_t zero_point = 0;    // of a tensor: its low bits
  std::optional<CastPlan> to_int;  // none: they are int32
};

template <ElementType Number>
std::vector<Number> numbers_of(const Array& array) {
  const Array wide = array.cast(dtype_of<Number>());
  const auto* begin = reinterpret_cast<const Number*>(wide.bytes().data());
  return {begin, begin + element_count(array.shape())};
}

class AffineArray final : public LazyArray {
 public:
  AffineArray(const Checkpoint& source, const AffineParts& parts, DType dtype)
      : LazyArray(dtype, source.tensors()[parts.integers].shape,
                  source.tensors()[parts.integers].chunk_shape),
        tensors_(source.tensors()),
        parts_(parts),
        has_float_scales_(tensors_[parts.scale].dtype == DType::kFloat32) {}

  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    reads.computed.push_back([this, box, out, context = reads.context] {
      in_pieces(
          box, context.memory, [&](const Box& part) { return cost(part.shape); },
          [&](const Box& piece) {
            const AffinePiece found = read_parts(piece, context);
            fill_row_tiles(
                subview(out, relative_to(piece, box.origin)), context.executor,
                [&](const RowPart& part, float* to) { compute(found, piece.shape, part, to); });
          });
    });
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    sources.insert(sources.end(), {parts_.integers, parts_.scale, parts_.zero_point});
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return "dequantize(" + source.tensors()[parts_.integers].name + ")";
  }

 private:
  [[nodiscard]] DType integer_type() const { return tensors_[parts_.integers].dtype; }

  [[nodiscard]] std::uint64_t cost(const Shape& shape) const {
    constexpr std::uint64_t kOfChannel = 4 * sizeof(double);  // as stored and as float64
    const std::uint64_t channels =
        parts_.axis ? static_cast<std::uint64_t>(shape[*parts_.axis]) : 1;
    return byte_count(shape, integer_type()) + channels * kOfChannel;
  }

  [[nodiscard]] AffinePiece read_parts(const Box& box, const LazyContext& context) const {
    Box channels;  // of rank 0 if there is one scale
    if (parts_.axis) channels = {{box.origin[*parts_.axis]}, {box.shape[*parts_.axis]}};
    AffinePiece piece;
    piece.integers = Array::allocate(integer_type(), box.shape);
    Array scales = Array::allocate(tensors_[parts_.scale].dtype, channels.shape);
    Array zeros = Array::allocate(tensors_[parts_.zero_point].dtype, channels.shape);
    const std::vector<ReadRequest> requests = {
        {parts_.integers, box, piece.integers.mutable_view()},
        {parts_.scale, channels, scales.mutable_view()},
        {parts_.zero_point, channels, zeros.mutable_view()}};
    context.source.read(requests, {});
    piece.scales = numbers_of<double>(scales);
    if (parts_.axis)
      piece.zero_points = numbers_of<float>(zeros);
    else
      piece.zero_point = static_cast<std::uint32_t>(numbers_of<std::int64_t>(zeros)[0]);
    if (integer_type() != DType::kInt32) piece.to_int.emplace(integer_type(), DType::kInt32);
    return piece;
  }

  void compute(const AffinePiece& piece, const Shape& shape, const RowPart& part, float* to) const {
    std::int64_t row = 0;
    for (std::size_t d = 0; d < part.row.size(); ++d) row = row * shape[d] + part.row[d];
    const std::int64_t columns = shape.empty() ? 1 : shape.back();
    const std::size_t size = dtype_size(integer_type());
    const std::byte* from =
        piece.integers.bytes().data() + static_cast<std::size_t>(row * columns + part.begin) * size;
    // The integers first take the place of the results, which are as large.
    auto* const bytes = reinterpret_cast<std::byte*>(to);
    const auto n = static_cast<std::size_t>(part.count);
    if (piece.to_int)
      piece.to_int->run(from, bytes, n);
    else
      std::copy_n(from, n * size, bytes);
    if (!parts_.axis) return per_tensor(piece, to, n);
    if (*parts_.axis + 1 == shape.size())
      for (std::size_t i = 0; i < n; ++i)
        per_channel(piece, static_cast<std::size_t>(part.begin) + i, to + i, 1);
    else
      per_channel(piece, static_cast<std::size_t>(part.row[*parts_.axis]), to, n);
  }

  static std::int32_t integer_at(const float* place) {
    std::int32_t integer = 0;
    std::memcpy(&integer, place, sizeof(integer));
    return integer;
  }

  static void per_tensor(const AffinePiece& piece, float* to, std::size_t n) {
    const auto scale = static_cast<float>(piece.scales[0]);
    for (std::size_t i = 0; i < n; ++i) {
      // As PyTorch's, the difference wraps.
      const auto difference = static_cast<std::int32_t>(
          static_cast<std::uint32_t>(integer_at(to + i)) - piece.zero_point);
      to[i] = scale * static_cast<float>(difference);
    }
  }

  void per_channel(const AffinePiece& piece, std::size_t channel, float* to, std::size_t n) const {
    const double scale = piece.scales[channel];
    const float zero = piece.zero_points[channel];
    if (has_float_scales_)
      for (std::size_t i = 0; i < n; ++i)
        to[i] = (static_cast<float>(integer_at(to + i)) - zero) * static_cast<float>(scale);
    else
      for (std::size_t i = 0; i < n; ++i)
        to[i] = static_cast<float>(
            static_cast<double>(static_cast<float>(integer_at(to + i)) - zero) * scale);
  }

  TensorList tensors_;
  AffineParts parts_;
  bool has_float_scales_;
};

}  // namespace

LazyPtr lazy_affine(const Checkpoint& source, AffineParts parts, DType dtype) {
  return std::make_shared<AffineArray>(source, parts, dtype);
}

}  // namespace cairn::inline v0
