#include <cairn/tools/dequantize/scaled_array.h>

#include <cairn/array/box.h>
#include <cairn/array/byte_count.h>
#include <cairn/base/errors.h>
#include <cairn/tools/dequantize/row_tiles.h>
#include <cairn/tools/transform/lazy_pieces.h>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::int64_t kFloat4Bytes = 16;  // of a group of 32 codes
constexpr std::size_t kWordBytes = 4;      // of packed integers

std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// The multiples of `unit` that cover [begin, begin + count), counted in units.
struct UnitSpan {
  std::int64_t begin = 0, count = 0;
};
UnitSpan units_over(std::int64_t begin, std::int64_t count, std::int64_t unit) {
  const std::int64_t first = begin / unit;
  return {first, quotient_up(begin + count, unit) - first};
}

Shape code_chunks(const TensorInfo& codes, const ScaledCodes& spec) {
  Shape chunk = codes.chunk_shape;
  if (spec.packing == CodePacking::kFloat4) {
    if (chunk.size() != spec.shape.size() + 1) return {};
    chunk.pop_back();
    chunk.back() *= 2 * kFloat4Bytes;
  } else if (chunk.size() == spec.shape.size() && !chunk.empty()) {
    chunk.back() *= codes_per_element(spec.packing);
  } else {
    return {};
  }
  for (std::size_t d = 0; d < chunk.size(); ++d) chunk[d] = std::min(chunk[d], spec.shape[d]);
  return chunk;
}

// What was read for a piece of the weight.
struct ScaledPiece {
  Array codes;
  std::int64_t first = 0;            // code of a stored row at which a row of the piece begins
  Array scales, zeros;               // float32; zeros: not allocated if there are none
  Box blocks;                        // the scales that they are; of rank 0: the only one
  std::vector<std::int64_t> groups;  // along the last axis, from 0 on; empty: as the blocks say
};

class ScaledArray final : public LazyArray {
 public:
  ScaledArray(const Checkpoint& source, ScaledCodes spec, DType dtype)
      : LazyArray(dtype, spec.shape, code_chunks(source.tensors()[spec.codes], spec)),
        tensors_(source.tensors()),
        spec_(std::move(spec)) {}

  void read(const Box& box, const MutableArrayView& out, LazyReads& reads) const override {
    reads.computed.push_back([this, box, out, context = reads.context] {
      in_pieces(
          box, context.memory, [&](const Box& part) { return cost(part.shape); },
          [&](const Box& piece) {
            const ScaledPiece found = read_parts(piece, context);
            compute(found, piece, subview(out, relative_to(piece, box.origin)), context.executor);
          });
    });
  }
  void add_sources(std::vector<std::size_t>& sources) const override {
    sources.push_back(spec_.codes);
    sources.push_back(spec_.scale);
    if (spec_.zero_point) sources.push_back(*spec_.zero_point);
    if (spec_.group_index) sources.push_back(*spec_.group_index);
  }
  [[nodiscard]] std::string text(const Checkpoint& source) const override {
    return "dequantize(" + source.tensors()[spec_.codes].name + ")";
  }

 private:
  // ---- boxes of the stored arrays ----

  [[nodiscard]] Box code_box(const Box& box) const {
    Box stored = box;
    if (box.shape.empty()) return stored;
    const bool is_grouped = spec_.packing == CodePacking::kFloat4;
    const std::int64_t per = is_grouped ? 2 * kFloat4Bytes : codes_per_element(spec_.packing);
    const UnitSpan last = units_over(box.origin.back(), box.shape.back(), per);
    stored.origin.back() = last.begin;
    stored.shape.back() = last.count;
    if (is_grouped) {
      stored.origin.push_back(0);
      stored.shape.push_back(kFloat4Bytes);
    }
    return stored;
  }

  // Of rank 0 if there is one scale for all.
  [[nodiscard]] Box block_box(const Box& box) const {
    Box blocks;
    for (std::size_t d = 0; d < spec_.blocks.size(); ++d) {
      const bool is_whole = spec_.group_index && d + 1 == spec_.blocks.size();
      const UnitSpan span = is_whole ? UnitSpan{0, tensors_[spec_.scale].shape[d]}
                                     : units_over(box.origin[d], box.shape[d], spec_.blocks[d]);
      blocks.origin.push_back(span.begin);
      blocks.shape.push_back(span.count);
    }
    return blocks;
  }

  // Of the zero points of these blocks, as they are stored.
  [[nodiscard]] Box zero_box(const Box& blocks) const {
    Box stored = blocks;
    if (spec_.zero_points != ZeroPoints::kPacked) return stored;
    const std::size_t d = blocks.rank() - 2;
    const UnitSpan rows =
        units_over(blocks.origin[d], blocks.shape[d], codes_per_element(spec_.packing));
    stored.origin[d] = rows.begin;
    stored.shape[d] = rows.count;
    return stored;
  }

  // The bytes that a piece of this shape takes, wherever it begins.
  [[nodiscard]] std::uint64_t cost(const Shape& shape) const {
    // The worst origin is the last element of a unit: then one more unit is touched.
    Box box{Shape(shape.size(), 0), shape};
    Shape stored = code_box(box).shape;
    if (spec_.packing == CodePacking::kFloat4)
      ++stored[stored.size() - 2];
    else if (!stored.empty())
      ++stored.back();
    Shape blocks = block_box(box).shape;
    for (std::size_t d = 0; d < blocks.size(); ++d) blocks[d] += spec_.blocks[d] > 1 ? 1 : 0;
    const std::uint64_t number = dtype_size(tensors_[spec_.scale].dtype) + sizeof(float);
    std::uint64_t scales = static_cast<std::uint64_t>(element_count(blocks)) * number;
    if (spec_.zero_point) scales *= 3;  // they may be stored as int64
    const std::uint64_t groups =
        spec_.group_index ? static_cast<std::uint64_t>(shape.back()) * 12 : 0;
    return byte_count(stored, tensors_[spec_.codes].dtype) + scales + groups;
  }

  // ---- reading ----

  [[nodiscard]] Array array_for(std::size_t index, const Box& box,
                                std::vector<ReadRequest>& requests) const {
    Array array = Array::allocate(tensors_[index].dtype, box.shape);
    requests.push_back({index, box, array.mutable_view()});
    return array;
  }

  [[nodiscard]] ScaledPiece read_parts(const Box& box, const LazyContext& context) const {
    ScaledPiece piece;
    piece.blocks = block_box(box);
    const Box codes = code_box(box);
    if (!box.shape.empty()) {
      const bool is_grouped = spec_.packing == CodePacking::kFloat4;
      const std::int64_t per = is_grouped ? 2 * kFloat4Bytes : codes_per_element(spec_.packing);
      piece.first = box.origin.back() - codes.origin[box.rank() - 1] * per;
    }
    std::vector<ReadRequest> requests;
    piece.codes = array_for(spec_.codes, codes, requests);
    const Box scale_box =
        spec_.blocks.empty() ? Box::whole(tensors_[spec_.scale].shape) : piece.blocks;
    const Array scales = array_for(spec_.scale, scale_box, requests);
    Array zeros, groups;
    if (spec_.zero_point)
      zeros = array_for(*spec_.zero_point,
                        spec_.blocks.empty() ? Box::whole(tensors_[*spec_.zero_point].shape)
                                             : zero_box(piece.blocks),
                        requests);
    if (spec_.group_index)
      groups = array_for(*spec_.group_index, {{box.origin.back()}, {box.shape.back()}}, requests);
    context.source.read(requests, {});
    piece.scales = to_floats(scales);
    if (spec_.zero_point) piece.zeros = zero_floats(zeros, piece.blocks);
    if (spec_.group_index) piece.groups = checked_groups(groups);
    return piece;
  }

  // The bytes of E8M0 are often stored as uint8.
  static Array to_floats(const Array& stored) {
    ArrayView from = stored.view();
    if (from.dtype == DType::kUint8) from.dtype = DType::kFloat8E8m0fnu;
    Array out = Array::allocate(DType::kFloat32, stored.shape());
    cast_elements(from, out.mutable_view());
    return out;
  }

  [[nodiscard]] Array zero_floats(const Array& stored, const Box& blocks) const {
    Array out =
        Array::allocate(DType::kFloat32, spec_.blocks.empty() ? stored.shape() : blocks.shape);
    if (spec_.zero_points == ZeroPoints::kNumbers) {
      cast_elements(stored.view(), out.mutable_view());
      return out;
    }
    const std::int64_t per = codes_per_element(spec_.packing);
    const std::size_t d = blocks.rank() - 2;
    const std::int64_t rows = blocks.shape[d], columns = blocks.shape[d + 1];
    const std::int64_t first = blocks.origin[d] % per;
    const std::int64_t stored_rows = stored.shape()[d];
    const std::int64_t matrices =
        rows * columns == 0 ? 0 : element_count(blocks.shape) / (rows * columns);
    auto* numbers = reinterpret_cast<float*>(out.mutable_view().data);
    for (std::int64_t m = 0; m < matrices; ++m)
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::byte* words = stored.bytes().data() + (m * stored_rows + (first + i) / per) *
                                                             columns *
                                                             static_cast<std::int64_t>(kWordBytes);
        for (std::int64_t j = 0; j < columns; ++j, words += kWordBytes)
          decode_codes(spec_.packing, DType::kInt32, words, (first + i) % per, 1, numbers++);
      }
    return out;
  }

  [[nodiscard]] std::vector<std::int64_t> checked_groups(const Array& stored) const {
    const Array wide = stored.cast(DType::kInt64);
    const auto* begin = reinterpret_cast<const std::int64_t*>(wide.bytes().data());
    std::vector<std::int64_t> groups(begin, begin + element_count(stored.shape()));
    if (std::ranges::all_of(groups, [](std::int64_t g) { return g == -1; })) {
      groups.clear();
      return groups;
    }
    const std::int64_t most = tensors_[spec_.scale].shape.back();
    for (const std::int64_t group : groups)
      if (group < 0 || group >= most)
        data_loss(fmt::format("{}: group {} is not one of the {} groups of the scales",
                              tensors_[*spec_.group_index].full_name(), group, most));
    return groups;
  }

  // ---- computing ----

  void compute(const ScaledPiece& piece, const Box& box, const MutableArrayView& out,
               Executor& executor) const {
    const std::size_t lead = box.shape.empty() ? 0 : box.rank() - 1;
    std::int64_t stored_rows = 1;  // the codes of a row lie one behind the other
    for (std::size_t d = 0; d < lead; ++d) stored_rows *= box.shape[d];
    const auto row_bytes = static_cast<std::int64_t>(piece.codes.bytes().size()) /
                           std::max<std::int64_t>(stored_rows, 1);
    fill_row_tiles(out, executor, [&](const RowPart& part, float* to) {
      std::int64_t row = 0;
      std::int64_t block = 0;
      for (std::size_t d = 0; d < lead; ++d) {
        row = row * box.shape[d] + part.row[d];
        if (!spec_.blocks.empty())
          block = block * piece.blocks.shape[d] +
                  ((box.origin[d] + part.row[d]) / spec_.blocks[d] - piece.blocks.origin[d]);
      }
      decode_codes(spec_.packing, piece.codes.dtype(), piece.codes.bytes().data() + row * row_bytes,
                   piece.first + part.begin, part.count, to);
      scale_row(piece, box, block, part, to);
    });
  }

  // `block`: the row of the scales.
  void scale_row(const ScaledPiece& piece, const Box& box, std::int64_t block, const RowPart& part,
                 float* to) const {
    const auto* scales = reinterpret_cast<const float*>(piece.scales.bytes().data());
    const auto* zeros =
        spec_.zero_point ? reinterpret_cast<const float*>(piece.zeros.bytes().data()) : nullptr;
    if (spec_.blocks.empty()) return scale_run(scales, zeros, 0, to, part.count);
    const std::int64_t row = block * piece.blocks.shape.back();
    if (!piece.groups.empty()) {
      for (std::int64_t i = 0; i < part.count; ++i)
        scale_run(scales, zeros, row + piece.groups[static_cast<std::size_t>(part.begin + i)],
                  to + i, 1);
      return;
    }
    const std::int64_t extent = spec_.blocks.back();
    for (std::int64_t at = 0; at < part.count;) {
      const std::int64_t column = box.origin.back() + part.begin + at;
      const std::int64_t n = std::min(part.count - at, extent - column % extent);
      scale_run(scales, zeros, row + column / extent - piece.blocks.origin.back(), to + at, n);
      at += n;
    }
  }

  static void scale_run(const float* scales, const float* zeros, std::int64_t block, float* to,
                        std::int64_t n) {
    const float scale = scales[block];
    const float zero = zeros == nullptr ? 0.0F : zeros[block];
    if (zeros == nullptr)
      for (std::int64_t i = 0; i < n; ++i) to[i] *= scale;
    else
      for (std::int64_t i = 0; i < n; ++i) to[i] = (to[i] - zero) * scale;
  }

  TensorList tensors_;
  ScaledCodes spec_;
};

}  // namespace

LazyPtr lazy_scaled(const Checkpoint& source, ScaledCodes codes, DType dtype) {
  return std::make_shared<ScaledArray>(source, std::move(codes), dtype);
}

}  // namespace cairn::inline v0
