// safetensors.h -- reads and writes safetensors files: one file, or a set of shards with an index.
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

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

class ShardingCallback;  // declared in tensorflow.h

// Opens a .safetensors file, or a *.safetensors.index.json with its shards. The header checks are
// as strict as those of the reference implementation. `path` is a path or a URL. Throws as
// cairn::open.
std::unique_ptr<Checkpoint> open_safetensors(const std::string& path,
                                             const OpenOptions& options = {});
// Name of the type in safetensors ("F32", "BF16", "F8_E4M3"); nullopt for a type that safetensors
// cannot hold.
std::optional<std::string_view> safetensors_dtype(DType dtype);

// Options of write_safetensors.
struct SafetensorsWriteOptions {
  std::vector<std::pair<std::string, std::string>> metadata = {};  // entries of __metadata__
  // Small files that belong to the tensors: (name in the same folder, content). They appear before
  // the index of a set, or before a single file of tensors.
  std::vector<std::pair<std::string, std::string>> beside = {};
  // Size limit of one file in bytes. Larger sets are written as <stem>-00001-of-0000N.safetensors
  // and an index. None: no limit.
  std::optional<std::uint64_t> max_shard_bytes = {};
  // In place of max_shard_bytes (to set both is invalid_argument): each shard that the callback
  // returns becomes one such file. The checkpoint keys are the tensor names. The callback must not
  // split tensors.
  std::shared_ptr<const ShardingCallback> sharding_callback = nullptr;
  // What to do if the target exists.
  IfExists if_exists = IfExists::kFail;
  StoreOptions store = {};  // how to reach the store, if the path is a URL
  Resources resources = {};
  ProgressFn progress = {};
  // Several processes write one set. All must see the same folder and call with the same arguments.
  // Each process fetches and writes its share of the bytes; the files are those that a single
  // process would write. An error in one process fails all of them, and no file appears.
  MultiprocessingOptions multiprocessing = {};
};
// Writes tensors in the order of the reference implementation (alignment descending, then name), to
// temporary files that are then renamed. Returns the paths of the files. Throws invalid_argument,
// naming the tensor, for a dtype that the format cannot hold, for a name that is reserved,
// duplicate or not UTF-8, and for a tensor that the sharding callback splits; already_exists as
// if_exists says; io; and the errors of `fetch`.
std::vector<std::string> write_safetensors(const std::string& path,
                                           std::vector<TensorSource> tensors, const FetchFn& fetch,
                                           const SafetensorsWriteOptions& options);

}  // namespace cairn::inline v0
#pragma GCC visibility pop
