// filters.cc -- undoes numcodecs' filters with the same arithmetic as NumPy.
#include <cairn/zarr/codec/filters.h>

#include <cairn/array/box.h>
#include <cairn/array/small_float.h>
#include <cairn/error.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <type_traits>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::size_t kBlockElements = 2048;                    // elements converted at a time
using BlockBytes = std::array<std::byte, 16 * kBlockElements>;  // a block of the largest type

std::size_t size_of(const NumberType& type) { return dtype_size(type.dtype); }

// ---- conversion between types, a block at a time ----

void convert(ByteView in, DType from, MutableByteView out, DType to) {
  const auto count = static_cast<std::int64_t>(in.size() / dtype_size(from));
  cast_elements(make_view(in, from, {count}), make_view(out, to, {count}));
}

void swap_into(ByteView in, DType dtype, MutableByteView out) {
  const auto count = static_cast<std::int64_t>(in.size() / dtype_size(dtype));
  copy_elements_swapped(make_view(in, dtype, {count}), make_view(out, dtype, {count}));
}

// Converts elements of `from`, in its byte order, to type `to` in the machine's byte order.
void load(ByteView in, const NumberType& from, MutableByteView out, DType to) {
  if (from.is_native()) return convert(in, from.dtype, out, to);
  BlockBytes native;
  const MutableByteView swapped = MutableByteView(native).first(in.size());
  swap_into(in, from.dtype, swapped);
  convert(swapped, from.dtype, out, to);
}

// The reverse of load.
void store(ByteView in, DType from, MutableByteView out, const NumberType& to) {
  if (to.is_native()) return convert(in, from, out, to.dtype);
  BlockBytes native;
  const MutableByteView converted = MutableByteView(native).first(out.size());
  convert(in, from, converted, to.dtype);
  swap_into(converted, to.dtype, out);
}

// Loads every block as elements of type `hub`, lets `change` modify them, and stores them.
template <class Step, class Change>
void for_blocks(const Step& step, DType hub, ByteView in, MutableByteView out, Change change) {
  BlockBytes memory;
  const std::size_t count = in.size() / size_of(step.stored);
  for (std::size_t at = 0; at < count; at += kBlockElements) {
    const std::size_t n = std::min(kBlockElements, count - at);
    const MutableByteView block = MutableByteView(memory).first(n * dtype_size(hub));
    load(in.subspan(at * size_of(step.stored), n * size_of(step.stored)), step.stored, block, hub);
    change(block);
    store(block, hub, out.subspan(at * size_of(step.decoded), n * size_of(step.decoded)),
          step.decoded);
  }
}

template <class T, class Change>
void change_each(MutableByteView block, Change change) {
  for (std::size_t at = 0; at < block.size(); at += sizeof(T)) {
    T value;
    std::memcpy(&value, block.data() + at, sizeof(T));
    value = change(value);
    std::memcpy(block.data() + at, &value, sizeof(T));
  }
}

// ---- delta ----

// Replaces each difference by the sum up to it, which `plus` adds.
template <class T, class Plus>
void undo_delta_with(const DeltaStep& step, ByteView in, MutableByteView out, FilterCarry& carry,
                     Plus plus) {
  T sum{};
  std::memcpy(&sum, carry.sum.data(), sizeof(T));
  const auto add = [&](T value) {
    // the first element is copied: adding it to zero would lose a minus zero
    sum = carry.started ? plus(sum, value) : value;
    carry.started = true;
    return sum;
  };
  for_blocks(step, step.decoded.dtype, in, out,
             [&](MutableByteView block) { change_each<T>(block, add); });
  std::memcpy(carry.sum.data(), &sum, sizeof(T));
}

template <class T>
void undo_delta_as(const DeltaStep& step, ByteView in, MutableByteView out, FilterCarry& carry) {
  undo_delta_with<T>(step, in, out, carry, [](T a, T b) { return static_cast<T>(a + b); });
}

// NumPy adds float16 values as float and rounds after each step.
void undo_float16_delta(const DeltaStep& step, ByteView in, MutableByteView out,
                        FilterCarry& carry) {
  undo_delta_with<std::uint16_t>(step, in, out, carry, [](std::uint16_t a, std::uint16_t b) {
    return small_float::encode_float16(small_float::decode_float16(a) +
                                       small_float::decode_float16(b));
  });
}

void undo_delta(const DeltaStep& step, ByteView in, MutableByteView out, FilterCarry& carry) {
  switch (step.decoded.dtype) {
    case DType::kFloat16:
      return undo_float16_delta(step, in, out, carry);
    case DType::kFloat32:
      return undo_delta_as<float>(step, in, out, carry);
    case DType::kFloat64:
      return undo_delta_as<double>(step, in, out, carry);
    default:
      break;
  }
  switch (size_of(step.decoded)) {  // integers wrap around, so their sign makes no difference
    case 1:
      return undo_delta_as<std::uint8_t>(step, in, out, carry);
    case 2:
      return undo_delta_as<std::uint16_t>(step, in, out, carry);
    case 4:
      return undo_delta_as<std::uint32_t>(step, in, out, carry);
    default:
      return undo_delta_as<std::uint64_t>(step, in, out, carry);
  }
}

// ---- the other filters ----

void undo_scale(const ScaleStep& step, ByteView in, MutableByteView out) {
  // NumPy divides float32 as float32, and integers of any size as float64.
  if (step.stored.dtype == DType::kFloat32) {
    const auto scale = static_cast<float>(step.scale);
    const auto offset = static_cast<float>(step.offset);
    return for_blocks(step, DType::kFloat32, in, out, [&](MutableByteView block) {
      change_each<float>(block, [&](float x) { return x / scale + offset; });
    });
  }
  for_blocks(step, DType::kFloat64, in, out, [&](MutableByteView block) {
    change_each<double>(block, [&](double x) { return x / step.scale + step.offset; });
  });
}

void undo_cast(const CastStep& step, ByteView in, MutableByteView out) {
  for_blocks(step, step.stored.dtype, in, out, [](MutableByteView) {});
}

void unshuffle(const ShuffleStep& step, ByteView in, MutableByteView out) {
  const std::size_t count = in.size() / step.element_size;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < step.element_size; ++j)
      out[i * step.element_size + j] = in[j * count + i];
  const std::size_t rest = count * step.element_size;
  std::copy(in.begin() + static_cast<std::ptrdiff_t>(rest), in.end(),
            out.begin() + static_cast<std::ptrdiff_t>(rest));
}

void unpack_bits(ByteView in, MutableByteView out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = in[1 + i / 8] >> (7 - i % 8) & std::byte{1};
}

std::uint64_t packed_bits(ByteView in) {
  const std::uint64_t padding = in.empty() ? 0 : std::to_integer<std::uint64_t>(in[0]);
  if (in.empty() || padding > 7 || (padding > 0 && in.size() == 1))
    throw Error(Code::kDataLoss, "packbits: " + std::to_string(in.size()) + " bytes with " +
                                     std::to_string(padding) + " bits of padding");
  return 8 * (in.size() - 1) - padding;
}

template <class Step>
constexpr bool kConverts = std::is_same_v<Step, DeltaStep> || std::is_same_v<Step, CastStep> ||
                           std::is_same_v<Step, ScaleStep>;

}  // namespace

std::optional<FilterStep> as_filter(const ByteStep& step) {
  return std::visit(
      [](const auto& s) -> std::optional<FilterStep> {
        if constexpr (std::is_constructible_v<FilterStep, decltype(s)>) return FilterStep(s);
        return std::nullopt;
      },
      step);
}

std::uint64_t filtered_size(const FilterStep& step, std::uint64_t n) {
  return std::visit(
      [&](const auto& s) -> std::uint64_t {
        using Step = std::decay_t<decltype(s)>;
        if constexpr (kConverts<Step>) return n / size_of(s.decoded) * size_of(s.stored);
        if constexpr (std::is_same_v<Step, PackBitsStep>) return 1 + (n + 7) / 8;
        return n;
      },
      step);
}

std::uint64_t unfiltered_size(const FilterStep& step, ByteView in) {
  return std::visit(
      [&](const auto& s) -> std::uint64_t {
        using Step = std::decay_t<decltype(s)>;
        if constexpr (std::is_same_v<Step, PackBitsStep>) return packed_bits(in);
        if constexpr (kConverts<Step>) {
          if (in.size() % size_of(s.stored) != 0)
            throw Error(Code::kDataLoss, "filter: " + std::to_string(in.size()) +
                                             " bytes are not a whole number of " +
                                             std::string(dtype_name(s.stored.dtype)) + " elements");
          return in.size() / size_of(s.stored) * size_of(s.decoded);
        }
        return in.size();
      },
      step);
}

bool is_elementwise(const FilterStep& step) {
  return std::visit([](const auto& s) { return kConverts<std::decay_t<decltype(s)>>; }, step);
}

void undo_filter(const FilterStep& step, ByteView in, MutableByteView out) {
  FilterCarry carry;
  if (is_elementwise(step)) return undo_filter_part(step, in, out, carry);
  if (const auto* shuffle = std::get_if<ShuffleStep>(&step)) return unshuffle(*shuffle, in, out);
  unpack_bits(in, out);
}

void undo_filter_part(const FilterStep& step, ByteView in, MutableByteView out,
                      FilterCarry& carry) {
  if (const auto* delta = std::get_if<DeltaStep>(&step)) return undo_delta(*delta, in, out, carry);
  if (const auto* cast = std::get_if<CastStep>(&step)) return undo_cast(*cast, in, out);
  if (const auto* scale = std::get_if<ScaleStep>(&step)) return undo_scale(*scale, in, out);
}

}  // namespace cairn::inline v0::zarr
