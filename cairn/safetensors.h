// safetensors.h -- safetensors files: one file, or a set of shards with an index.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/tensor_source.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

class ShardingCallback;  // tensorflow.h

// A .safetensors file, or a *.safetensors.index.json with its shards. Header checks as strict as
// the reference's.
std::unique_ptr<Checkpoint> open_safetensors(const std::string& path,
                                             const OpenOptions& options = {});
// The safetensors spelling ("F32", "BF16", "F8_E4M3"); nullopt for a type safetensors cannot hold.
std::optional<std::string_view> safetensors_dtype(DType dtype);

struct SafetensorsWriteOptions {
  std::vector<std::pair<std::string, std::string>> metadata;  // __metadata__
  // more: <stem>-00001-of-0000N.safetensors and an index
  std::optional<std::uint64_t> max_shard_bytes;
  // Instead: each of its shards is such a file (checkpoint_sharding.h). The keys are the names;
  // tensors must stay whole.
  std::shared_ptr<const ShardingCallback> sharding_callback;
  // an existing target is refused otherwise
  IfExists if_exists = IfExists::kFail;
  std::uint64_t memory = std::uint64_t{1} << 30U;  // buffer bytes in flight
  ProgressFn progress;
  // Several processes write one set, which must see the same folder: each calls with the same
  // arguments, fetches and writes its share of the bytes, and gets what one process would write.
  // What fails in one fails in all, and nothing appears.
  MultiprocessingOptions multiprocessing;
};
// Writes tensors in the reference's order (by alignment descending, then name), to a temporary and
// renamed. Throws invalid_argument for a dtype the format cannot hold, and for a tensor that the
// sharding callback cuts, naming the tensor. Returns the files written.
std::vector<std::string> write_safetensors(const std::string& path,
                                           std::vector<TensorSource> tensors, const FetchFn& fetch,
                                           const SafetensorsWriteOptions& options);

}  // namespace cairn
