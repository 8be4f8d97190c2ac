// weight_map.h -- the index of a model in several files, as Hugging Face writes it:
//
//   {"metadata": {"total_size": 12}, "weight_map": {"a.weight": "model-1-of-2.safetensors"}}
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// So many bytes tell a file from an index. A header may begin with white space.
inline constexpr std::uint64_t kProbeBytes = 4096;
// A larger index is not read.
inline constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{1} << 30U;

// Whether the first character after white space is '{'.
bool begins_as_json_object(ByteView first);

struct WeightMap {
  std::map<std::string, std::vector<std::string>> files;  // file: tensors in it
  std::optional<std::uint64_t> total_size;
  std::string metadata;  // JSON text
};

// Accepts only files in the index's folder or below it. Throws data_loss for anything else.
WeightMap parse_weight_map(std::string_view text);

}  // namespace cairn::inline v0
