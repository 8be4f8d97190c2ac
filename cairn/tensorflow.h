// tensorflow.h -- writing TensorFlow checkpoints: what tf.train.Checkpoint, tf.train.load_checkpoint and tf.train.Saver restore.
#pragma once

#include <cairn/checkpoint_sharding.h>
#include <cairn/formats.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// TensorFlow's name of the type ("float", "half"); nullopt for a type that it cannot hold.
std::optional<std::string_view> tensorflow_dtype(DType dtype);
// The key under which the object that one gets to by this path has its value: "model/layer.S1/kernel/.ATTRIBUTES/VARIABLE_VALUE". For
// the paths of an opened TensorFlow checkpoint's variables these are their keys.
std::string tensorflow_key(const KeyPath& path);

// One tensor to be written.
struct TensorFlowSource {
  std::string key;   // as tensorflow_key makes it, or any name of a variable; any bytes
  TensorType dtype;  // a DType, or "string", or another type of TensorFlow's that has a fixed size ("qint8")
  Shape shape;
  std::uint64_t cut = 0;                  // as TensorSource::cut
  std::vector<std::string> strings = {};  // of a string tensor: its elements in C order, which are not fetched
  // What is given may be a slice of a larger tensor, other slices of which come under the same key: this is where it lies, and the shape
  // of that tensor.
  struct Slice {
    Shape full_shape;
    std::vector<std::int64_t> origin;
  };
  std::optional<Slice> slice = {};
  std::string device = {};     // whose task decides which files it may share with others; empty: none
  std::string full_name = {};  // in the object graph; empty: the path of the key
};

struct TensorFlowWriteOptions {
  enum class Like : std::uint8_t {
    // As tf.train.Checkpoint.save(), to be restored with restore(): the object graph has a save_counter (1, unless a source is one), and
    // the folder's file `checkpoint` then names this checkpoint as the latest.
    kSave,
    kWrite,  // as tf.train.Checkpoint.write(), to be restored with read(): neither
  };
  Like like = Like::kSave;
  // An object for every step of the keys that tensorflow_key makes; none is made if a source has the key of the graph,
  // "_CHECKPOINTABLE_OBJECT_GRAPH": that is then a graph that was written before. False: no graph, and no save_counter; restored by name.
  bool object_graph = true;
  std::shared_ptr<const ShardingCallback> sharding_callback = nullptr;  // none: ShardByTaskPolicy, one data file for each task
  bool replace = false;                                                 // a checkpoint of that prefix is refused otherwise
  std::uint64_t memory = std::uint64_t{1} << 30U;                       // buffer bytes in flight
  ProgressFn progress = {};
  MultiprocessingOptions multiprocessing = {};  // as in SafetensorsWriteOptions
};
// Writes `<prefix>.index` and `<prefix>.data-00000-of-00001` (or more of these), whole or not at all, and makes the folder if there is
// none. Values are stored in the order of the sources, the object graph last. Throws invalid_argument, naming the tensor, for types that
// TensorFlow cannot hold, and for keys that are there twice; what the callback throws; failed_precondition for shards that are not valid
// (validate_shards), and if a file `checkpoint` that is to be updated is something else. Returns the files written, the index behind
// those of values.
std::vector<std::string> write_tensorflow(const std::string& prefix, std::vector<TensorFlowSource> sources, const FetchFn& fetch,
                                          const TensorFlowWriteOptions& options = {});
// The arrays, numbers, strings and bytes of a tree, under the keys of their paths. Python's numbers become bool, int64 (uint64),
// float64 and complex128. Throws invalid_argument for leaves without a value and empty containers, naming them.
std::vector<std::string> write_tensorflow(const std::string& prefix, const Tree& tree, const TensorFlowWriteOptions& options = {});

}  // namespace cairn
