// golden.h -- what the tests of this folder share: golden files, whole tensors, and tensors in
// memory as a source.
#pragma once

#include <cairn/array/box.h>
#include <cairn/base/json/json.h>
#include <cairn/checkpoint.h>
#include <cairn/io/file.h>
#include <cairn/tensor_source.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/support/hex.h"
#include "tests/support/little_endian.h"

namespace cairn::testing {

inline std::string golden(std::string_view name) {
  return std::string(CAIRN_GOLDEN_DIR) + "/" + std::string(name);
}
inline Json golden_json(std::string_view name) {
  return parse_json(as_text(read_file(golden(name))));
}

inline const std::string& text_of(const Json& json, std::string_view member) {
  return *json.find(member)->as_string();
}
inline Shape shape_of(const Json& json) {
  Shape shape;
  for (const Json& extent : *json.find("shape")->as_array()) shape.push_back(*extent.as_int64());
  return shape;
}

// What golden files spell in Latin-1.
inline std::string from_latin1(std::string_view utf8) {
  std::string text;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    text += byte < 0x80 ? utf8[i]
                        : static_cast<char>((byte & 0x03U) << 6U |
                                            (static_cast<unsigned char>(utf8[++i]) & 0x3fU));
  }
  return text;
}

inline Bytes to_bytes(ByteView view) { return {view.begin(), view.end()}; }

inline std::string file_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const auto& name : names) text += name + " ";
  return text;
}

// The whole tensor's bytes, as files hold them: little-endian.
inline Bytes read_whole(const Checkpoint& checkpoint, std::size_t index) {
  const TensorInfo& info = checkpoint.tensors()[index];
  Array array = Array::allocate(info.dtype, info.element_size, info.shape);
  const ReadRequest request{index, Box::whole(info.shape), array.mutable_view()};
  checkpoint.read({&request, 1}, {});
  return little_endian(to_bytes(array.bytes()), info.dtype);
}

// Compares a read of the box with that part of a read of the whole tensor.
inline void check_box(const Checkpoint& checkpoint, std::size_t index, const Box& box) {
  const TensorInfo& info = checkpoint.tensors()[index];
  const Bytes whole = read_whole(checkpoint, index);
  const ArrayView from{whole.data(), info.dtype, info.element_size, info.shape,
                       c_strides(info.shape, info.element_size)};
  Array expected = Array::allocate(info.dtype, box.shape);
  copy_elements(subview(from, box), expected.mutable_view());
  Array out = Array::allocate(info.dtype, box.shape);
  checkpoint.read(info.name, box, out.mutable_view());
  EXPECT_EQ(little_endian(to_bytes(out.bytes()), info.dtype), to_bytes(expected.bytes()))
      << info.name << box_text(box);
}

// Tensors that are all in memory, to be written.
struct MemorySource {
  std::vector<TensorSource> tensors;
  std::vector<Bytes> values;

  void add(std::string name, DType dtype, Shape shape, ByteView bytes) {
    tensors.push_back({std::move(name), dtype, std::move(shape)});
    values.push_back(to_bytes(bytes));
  }
  // Bytes that differ from place to place.
  void add_pattern(std::string name, DType dtype, Shape shape, std::size_t seed,
                   std::size_t mask = 0xff) {
    Bytes bytes(static_cast<std::size_t>(element_count(shape)) * dtype_size(dtype));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(((i * 167 + i / 251 * 13 + seed * 31) ^ (i >> 9U)) & mask);
    add(std::move(name), dtype, std::move(shape), bytes);
  }
  [[nodiscard]] FetchFn fetch() const {
    return [this](std::span<const TensorPiece> pieces) {
      for (const TensorPiece& piece : pieces) {
        const Bytes& from = values[piece.tensor];
        ASSERT_LE(piece.offset + piece.out.size(), from.size());
        if (!piece.out.empty())
          std::memcpy(piece.out.data(), from.data() + piece.offset, piece.out.size());
      }
    };
  }
};

inline const std::string kSafetensorsGolden = "safetensors/safetensors-0.8.0/";

// The tensors of the golden file, as its script says they are.
inline MemorySource safetensors_golden() {
  MemorySource source;
  const Bytes values = read_file(golden(kSafetensorsGolden + "all.values"));
  std::size_t at = 0;
  const Json tensors = golden_json(kSafetensorsGolden + "all.json");
  for (const Json& tensor : *tensors.as_array()) {
    const DType dtype = *dtype_from_name(text_of(tensor, "dtype"));
    const Shape shape = shape_of(tensor);
    const std::size_t nbytes = static_cast<std::size_t>(element_count(shape)) * dtype_size(dtype);
    source.add(text_of(tensor, "name"), dtype, shape, ByteView(values).subspan(at, nbytes));
    at += nbytes;
  }
  EXPECT_EQ(at, values.size());
  return source;
}

}  // namespace cairn::testing
