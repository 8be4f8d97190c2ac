// golden.h -- arrays that TensorStore and zarr-python wrote, with the elements they must read as.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/io/file.h>
#include <cairn/storage/kvstore.h>
#include <cairn/zarr/read/array.h>

#include <string>
#include <vector>

#include "tests/support/hex.h"

namespace cairn::zarr::testing {

using cairn::testing::from_hex;

struct GoldenArray {
  std::string name;
  std::string dtype;
  std::size_t element_size = 0;
  Shape shape;
  bool fill = false;  // not every chunk is stored
  std::vector<std::pair<std::string, Bytes>> keys;
  Bytes expected;

  [[nodiscard]] StorePtr in_memory() const {
    StorePtr store = make_memory_store();
    for (const auto& [key, value] : keys) store->write(key, value);
    return store;
  }
};

inline MissingChunk missing_of(const GoldenArray& golden) {
  return golden.fill ? MissingChunk::kFill : MissingChunk::kError;
}

inline std::vector<GoldenArray> load_golden(const std::string& producer) {
  const Bytes text = read_file(std::string(CAIRN_GOLDEN_DIR) + "/zarr/" + producer + "/cases.json");
  const Json cases = parse_json(as_text(text));
  std::vector<GoldenArray> arrays;
  for (const Json& item : *cases.as_array()) {
    GoldenArray array;
    array.name = *item.find("name")->as_string();
    array.dtype = *item.find("dtype")->as_string();
    array.element_size = *item.find("element_size")->as_uint64();
    array.fill = *item.find("fill")->as_bool();
    for (const Json& extent : *item.find("shape")->as_array())
      array.shape.push_back(*extent.as_int64());
    for (const auto& [key, value] : *item.find("metadata")->as_object()) {
      const ByteView bytes = as_bytes(*value.as_string());
      array.keys.emplace_back(key, Bytes(bytes.begin(), bytes.end()));
    }
    for (const auto& [key, value] : *item.find("chunks")->as_object())
      array.keys.emplace_back(key, from_hex(*value.as_string()));
    array.expected = from_hex(*item.find("expected")->as_string());
    arrays.push_back(std::move(array));
  }
  return arrays;
}

inline const std::vector<GoldenArray>& tensorstore_arrays() {
  static const auto arrays = load_golden("tensorstore-0.1.86");
  return arrays;
}
inline const std::vector<GoldenArray>& zarr_python_arrays() {
  static const auto arrays = load_golden("zarr-python-3.1.6");
  return arrays;
}
inline const std::vector<GoldenArray>& filtered_arrays() {
  static const auto arrays = load_golden("zarr-python-3.1.6-filters");
  return arrays;
}
inline const GoldenArray& golden(const std::vector<GoldenArray>& arrays, const std::string& name) {
  for (const GoldenArray& array : arrays)
    if (array.name == name) return array;
  throw Error(Code::kNotFound, "no golden array '" + name + "'");
}

}  // namespace cairn::zarr::testing
