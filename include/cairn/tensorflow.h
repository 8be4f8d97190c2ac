// tensorflow.h -- TensorFlow checkpoints: opens them, writes them, and decides which tensors share
// a data file.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/tensor_source.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Opens a TensorFlow 2 checkpoint (TensorBundle) at a path or a URL: its prefix (of <prefix>.index
// and <prefix>.data-00000-of-00001), its index, a data file, a `checkpoint` file, a folder with
// such a file (its latest checkpoint, or that of options.step), or a SavedModel's folder. Names are
// the stored keys; paths are the keys split at slashes. Slices of partitioned variables are merged
// into one tensor.
//
// The reader verifies the checksum of everything it returns; for a partial read it reads the whole
// tensor once. A missing data file makes its tensors unreadable (TensorInfo::error). Throws as
// cairn::open.
std::unique_ptr<Checkpoint> open_tensorflow(const std::string& path,
                                            const OpenOptions& options = {});
// Whether `path`, or a URL, is something that open_tensorflow opens without options. Examines names
// and first bytes only.
bool is_tensorflow(const std::string& path, const StoreOptions& store = {});

// ---- sharding: callbacks under the names of tf.train.experimental ----

// Element type of a tensor: a type of fixed size, a string, or an object of TensorFlow.
struct TensorType {
  std::string name;        // name as in tf.DType: "float32", "string", "variant", "qint8"
  std::uint64_t size = 0;  // bytes of a stored element; 0: no fixed size

  TensorType() = default;
  TensorType(DType dtype)
      : name(dtype_name(dtype)), size(dtype_size(dtype)) {}  // NOLINT(google-explicit-constructor)
  TensorType(std::string type_name, std::uint64_t bytes)
      : name(std::move(type_name)), size(bytes) {}
  bool operator==(const TensorType&) const = default;
};

// Description of a tensor to be saved. All ShardTensors of the tensor share it.
struct SaveSpec {
  std::size_t source = 0;  // number by which the caller knows the tensor
  std::string name;        // the tensor's name; it is stored under the checkpoint key
  TensorType dtype;
  Shape shape;         // the tensor's own shape: for a slice of a larger tensor, the slice's
  std::string device;  // "/job:worker/replica:0/task:1/device:CPU:0"; "": no device and no task
};

// A tensor to be saved, or a part of it, without its values. Callbacks decide where each tensor
// goes; they never change values.
class ShardTensor {
 public:
  ShardTensor() = default;  // refers to no tensor; may only be assigned to
  explicit ShardTensor(std::shared_ptr<const SaveSpec> spec) : spec_(std::move(spec)) {}

  [[nodiscard]] bool empty() const { return spec_ == nullptr; }
  [[nodiscard]] const SaveSpec& spec() const { return *spec_; }
  [[nodiscard]] const Shape& shape() const { return part_ ? part_->shape : spec_->shape; }
  [[nodiscard]] const TensorType& dtype() const { return spec_->dtype; }
  [[nodiscard]] const std::string& device() const { return spec_->device; }
  // The part in the coordinates of the tensor to be saved; nullptr: all of it.
  [[nodiscard]] const Box* part() const { return part_ ? &*part_ : nullptr; }
  // As tf.slice: the part that begins at `origin` of this one. Throws out_of_range if it does not
  // lie inside.
  [[nodiscard]] ShardTensor slice(const std::vector<std::int64_t>& origin,
                                  const Shape& shape) const;
  bool operator==(const ShardTensor&) const = default;  // the same part of the same tensor

 private:
  std::shared_ptr<const SaveSpec> spec_;
  std::optional<Box> part_;
};

// Bytes of the strings of a tensor, without their stored lengths.
struct StringBytes {
  std::uint64_t total = 0, longest = 0;  // sum of all strings, and the longest string
  bool operator==(const StringBytes&) const = default;
};

// A tensor as a callback receives it.
struct ShardableTensor {
  ShardTensor tensor;               // the tensor or slice
  std::string checkpoint_key = {};  // key under which the tensor is stored
  // Which slice of a larger tensor it is (slice_spec_text). "": it is whole.
  std::string slice_spec = {};
  // The object that owns the tensor, for callbacks that know its type; null for the object graph.
  std::shared_ptr<const void> trackable = {};
  // Set for string tensors of known size. TensorFlow does not know it in a tf.function.
  std::optional<StringBytes> string_bytes = {};

  [[nodiscard]] const SaveSpec& tensor_save_spec() const { return tensor.spec(); }
  [[nodiscard]] const std::string& name() const { return tensor.spec().name; }
  [[nodiscard]] const TensorType& dtype() const { return tensor.dtype(); }
  [[nodiscard]] const Shape& shape() const { return tensor.shape(); }
  [[nodiscard]] const std::string& device() const { return tensor.device(); }
  // Hash of the name, the type, the device and the key.
  [[nodiscard]] std::size_t hash() const;
  // The members for people, one on each line, as TensorFlow's repr: after a line break, and without
  // `_tensor_save_spec`. There are no values, so `tensor` is the tensor's number and part.
  [[nodiscard]] std::string text() const;
  bool operator==(const ShardableTensor&) const = default;
};

// A map from strings that keeps insertion order, like Python's dict.
template <class Value>
class OrderedMap {
 public:
  using value_type = std::pair<std::string, Value>;

  // The value of `key`; inserted at the end if the key is absent.
  Value& operator[](std::string_view key) {
    const auto [place, is_new] = places_.try_emplace(std::string(key), entries_.size());
    if (is_new) entries_.emplace_back(std::string(key), Value());
    return entries_[place->second].second;
  }
  [[nodiscard]] const Value* find(std::string_view key) const {  // nullptr if the key is absent
    const auto place = places_.find(key);
    return place == places_.end() ? nullptr : &entries_[place->second].second;
  }
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  bool operator==(const OrderedMap& other) const { return entries_ == other.entries_; }

 private:
  std::vector<value_type> entries_;
  std::map<std::string, std::size_t, std::less<>> places_;  // key -> index of its entry
};

// Contents of one data file: checkpoint key -> slice_spec -> tensor. The file stores slices of one
// key side by side.
using TensorSlices = OrderedMap<ShardTensor>;
using Shard = OrderedMap<TensorSlices>;

// Base class of callbacks that split tensors into shards (data files). A callback must keep every
// tensor exactly once, without a change of shape, type or task, and all tensors of a shard must
// belong to one task. A callback may split a tensor: its parts keep the key, and each part has the
// slice_spec that describes it.
//
//     class OneShard : public ShardingCallback {
//       std::string description() const override { return "Place all tensors in a single shard."; }
//       std::vector<Shard> operator()(std::span<const ShardableTensor> tensors) const override {
//         Shard shard;
//         for (const auto& t : tensors) shard[t.checkpoint_key][t.slice_spec] = t.tensor;
//         return {shard};
//       }
//     };
class ShardingCallback {
 public:
  // Value of a parameter; std::monostate: a value that cannot be hashed.
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

  ShardingCallback() = default;
  ShardingCallback(const ShardingCallback&) = default;
  ShardingCallback& operator=(const ShardingCallback&) = default;
  virtual ~ShardingCallback() = default;

  // For messages; it is not stored.
  [[nodiscard]] virtual std::string description() const = 0;
  // Called once per task with the task's tensors. The result must depend on the tensors only: when
  // several processes save together, each of them calls it.
  [[nodiscard]] virtual std::vector<Shard> operator()(
      std::span<const ShardableTensor> tensors) const = 0;
  // The parameters of the callback, by name.
  [[nodiscard]] virtual std::vector<std::pair<std::string, Value>> kwargs() const { return {}; }
  // Hash of the description and of the name and value of each parameter, independent of their
  // order. Equal numbers of different types have the same hash. As in TensorFlow, two parameters
  // that swap their values give the same hash.
  [[nodiscard]] std::size_t hash() const;
  // As in TensorFlow, a callback equals only itself.
  bool operator==(const ShardingCallback& other) const { return this == &other; }
};

// One shard per task; the default if there is no callback.
class ShardByTaskPolicy : public ShardingCallback {
 public:
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<Shard> operator()(
      std::span<const ShardableTensor> tensors) const override;
};

// Options of MaxShardSizePolicy.
struct MaxShardSizeOptions {
  // Split exactly as TensorFlow does, even if the result cannot be restored or lacks tensors. Where
  // TensorFlow fails or never terminates, Cairn throws. Default: Cairn differs from TensorFlow only
  // in these cases (docs/guides/sharding.md).
  bool like_tensorflow = false;
  // Called with a message for each shard that exceeds the limit, and for unknown sizes.
  std::function<void(const std::string&)> warn = {};
};

// Shards with at most a given number of bytes of values. Tensors are split along one axis at a
// time, so that the rest is always a box. Two kinds of shard may be larger: a single tensor that
// cannot be split, and the object graph, whose size is not counted.
class MaxShardSizePolicy : public ShardingCallback {
 public:
  // `max_shard_size` is in bytes. Throws invalid_argument unless it is positive (with
  // like_tensorflow, 0 is allowed).
  explicit MaxShardSizePolicy(std::int64_t max_shard_size, MaxShardSizeOptions options = {});

  [[nodiscard]] std::string description() const override;
  // Throws, naming the key: invalid_argument for more than a million shards and for a slice spec
  // that does not describe the tensor; out_of_range for a tensor of more than 2^63 - 1 bytes;
  // unimplemented, with like_tensorflow, where TensorFlow fails.
  [[nodiscard]] std::vector<Shard> operator()(
      std::span<const ShardableTensor> tensors) const override;
  [[nodiscard]] std::vector<std::pair<std::string, Value>> kwargs() const override;

 private:
  std::int64_t max_shard_size_;
  MaxShardSizeOptions options_;
};

// Checks that the shards contain exactly these tensors. Throws failed_precondition, with
// TensorFlow's messages, for a tensor that occurs twice, is missing, or was not among them, for a
// changed shape, type or task, and for a shard with tensors of several tasks. One check has no
// counterpart in TensorFlow: the parts of a key must lie in one of its tensors, must not overlap,
// and must cover the tensor.
void validate_shards(std::span<const Shard> shards, std::span<const ShardableTensor> tensors,
                     std::string_view callback_description);

// The shards as a save makes them: the callback's shards for each task, tasks in the order of their
// first tensors, validated. Throws invalid_argument for two tensors with the same key and
// slice_spec and for a malformed device; the errors of the callback; and the errors of
// validate_shards.
std::vector<Shard> make_shards(const ShardingCallback& callback,
                               std::span<const ShardableTensor> tensors);

// The slice_spec of a part of a tensor: "4 3 5 0,4:1,1:3,2" is [0:4, 1:2, 3:5] of shape (4, 3, 5).
// "" for rank 0.
std::string slice_spec_text(std::span<const std::int64_t> full_shape, const Box& part);

// The shape of the larger tensor that a slice_spec names, and the part in its coordinates. Throws
// invalid_argument, with TensorFlow's message, for a malformed one and for "".
std::pair<Shape, Box> read_slice_spec(std::string_view slice_spec);

// The task of a device; nullopt if the device names none. Throws invalid_argument, with
// TensorFlow's message, for a malformed device.
std::optional<std::int64_t> device_task(std::string_view device);

// ---- writing ----

// TensorFlow's name of the type ("float", "half"); nullopt for a type that TensorFlow cannot hold.
std::optional<std::string_view> tensorflow_dtype(DType dtype);
// The key of the value of the object with this path:
// "model/layer.S1/kernel/.ATTRIBUTES/VARIABLE_VALUE". For the path of a variable in an opened
// TensorFlow checkpoint, this is its key.
std::string tensorflow_key(const KeyPath& path);

// One tensor to be written.
struct TensorFlowSource {
  std::string key;  // from tensorflow_key, or any variable name; any bytes
  // A DType, "string", or another fixed-size type of TensorFlow ("qint8").
  TensorType dtype;
  Shape shape;
  std::uint64_t cut = 0;  // as TensorSource::cut
  // For a string tensor: its elements in C order; they are not fetched.
  std::vector<std::string> strings = {};
  // Position of a slice in a larger tensor, and the shape of that tensor. Other slices of it have
  // the same key.
  struct Slice {
    Shape full_shape;
    std::vector<std::int64_t> origin;
  };
  std::optional<Slice> slice = {};  // set if the source is a slice of a larger tensor
  // Its task decides which tensors may share a file; "": no device.
  std::string device = {};
  std::string full_name = {};  // name in the object graph; "": the path of the key
};

// Options of write_tensorflow.
struct TensorFlowWriteOptions {
  // Which TensorFlow call to imitate.
  enum class Like : std::uint8_t {
    // tf.train.Checkpoint.save(), restored with restore(): the object graph has a save_counter (1,
    // unless a source is one), and the folder's file `checkpoint` names this checkpoint as the
    // latest.
    kSave,
    kWrite,  // tf.train.Checkpoint.write(), restored with read(): neither
  };
  Like like = Like::kSave;
  // Write an object graph, with an object for every step of the keys that tensorflow_key makes. If
  // a source has the graph's key, "_CHECKPOINTABLE_OBJECT_GRAPH", its graph (written earlier) is
  // stored instead. False: no graph and no save_counter; such a checkpoint is restored by name.
  bool object_graph = true;
  // None: ShardByTaskPolicy, one data file per task.
  std::shared_ptr<const ShardingCallback> sharding_callback = nullptr;
  // What to do if a checkpoint with this prefix exists.
  IfExists if_exists = IfExists::kFail;
  StoreOptions store = {};  // how to reach the store, if the prefix is a URL
  Resources resources = {};
  ProgressFn progress = {};
  MultiprocessingOptions multiprocessing = {};  // as in SafetensorsWriteOptions
};
// Writes `<prefix>.index` and `<prefix>.data-00000-of-00001` (or more data files); the prefix is a
// path or a URL of a bucket. They appear together or not at all; a missing folder is created.
// Values are stored in the order of the sources, the object graph last. Returns the paths of the
// files: data files first, then the index.
//
// Throws invalid_argument, naming the tensor, for a type that TensorFlow cannot hold and for a
// duplicate key; failed_precondition for invalid shards (validate_shards) and if the file
// `checkpoint` that should be updated is something else; already_exists as if_exists says; and the
// errors of the callback and of `fetch`.
std::vector<std::string> write_tensorflow(const std::string& prefix,
                                          std::vector<TensorFlowSource> sources,
                                          const FetchFn& fetch,
                                          const TensorFlowWriteOptions& options = {});
// Writes the arrays, numbers, strings and bytes of a tree, under the keys of their paths. Python's
// numbers become bool, int64 (or uint64), float64 and complex128. Throws invalid_argument, naming
// them, for leaves without a value and for empty containers; else as above.
std::vector<std::string> write_tensorflow(const std::string& prefix, const Tree& tree,
                                          const TensorFlowWriteOptions& options = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
