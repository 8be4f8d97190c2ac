// tools.h -- the work behind the command line, as functions: inspect, stats, verify, convert.
#pragma once

#include <cairn/reader.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

// Shell-style matching of parameter names: '*' any run, '?' one character, [abc] and [!abc]; '.' is not special.
bool glob_match(std::string_view pattern, std::string_view text);

// "0:8, :, 3": NumPy basic slicing without steps; negative indices count from the end; missing dimensions are whole.
// An integer keeps its dimension out of `shape`. Throws invalid_argument or out_of_range naming the dimension.
struct SliceSpec {
  Box box;
  Shape shape;  // of the result, integer-indexed dimensions dropped
};
SliceSpec parse_slice(std::string_view text, std::span<const std::int64_t> shape);

// The pytree, drawn with box characters: one line a node.
std::string draw_tree(const Checkpoint& checkpoint);

// A readable preview of an array, as NumPy prints one; long ones are summarised.
std::string preview(const ArrayView& array, std::size_t max_items = 1000);

struct TensorStats {
  std::string name;
  std::string dtype_name;
  Shape shape;
  std::uint64_t count = 0, zeros = 0, nans = 0, infs = 0;
  std::optional<double> min, max, mean, stddev;  // over the finite values; none if there are none
  std::vector<std::uint64_t> histogram;          // 16 equal bins from min to max, of the finite values
};
// Streams over one tensor in bounded memory. Complex numbers count by absolute value.
TensorStats tensor_stats(const Checkpoint& checkpoint, std::size_t index, std::uint64_t memory);

struct ConvertOptions {
  std::string format;                                       // "safetensors" or "npz"; "" = by the target's extension
  std::vector<std::string> include, exclude;                // globs over names; include empty = all
  std::vector<std::pair<std::string, std::string>> rename;  // regex (ECMAScript) and its replacement, in order
  std::optional<DType> dtype;                               // cast every floating array to this
  bool skip_unsupported = false;                            // leave out what the target cannot hold, and list it
  bool replace = false;
  std::optional<std::uint64_t> max_shard_bytes;
  std::uint64_t memory = std::uint64_t{1} << 30U;  // peak working memory, bytes
  ProgressFn progress;
};
struct ConvertReport {
  std::vector<std::string> files;  // written
  std::uint64_t tensors = 0, bytes = 0;
  std::vector<std::pair<std::string, std::string>> skipped;  // name, why
  std::vector<std::pair<std::string, std::string>> renamed;  // from, to
};
// Never loses a leaf silently: one the target cannot hold is invalid_argument naming it, unless skip_unsupported; two
// leaves with one name after renaming likewise.
ConvertReport convert(const Checkpoint& source, const std::string& target, const ConvertOptions& options);

}  // namespace cairn
