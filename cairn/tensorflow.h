// tensorflow.h -- TensorFlow checkpoints: open them, write them, and decide which tensors share a
// data file.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/distributed.h>
#include <cairn/tensor_source.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

// A checkpoint of TensorFlow 2 (TensorBundle), by its prefix (of <prefix>.index and
// <prefix>.data-00000-of-00001), its index, a data file, a `checkpoint` file or the folder of one
// (its latest checkpoint, or that of options.step), or a SavedModel's folder. Names are keys as
// stored; paths are what is between their slashes. Slices of partitioned variables are put
// together. The checksum of everything read is checked: of what is read in part, the whole is read
// once. A missing data file makes its tensors unreadable.
std::unique_ptr<Checkpoint> open_tensorflow(const std::string& path,
                                            const OpenOptions& options = {});
// Whether there is something that open_tensorflow would open. Looks at names and first bytes only.
bool is_tensorflow(const std::string& path);

// ---- sharding: callbacks under the names of tf.train.experimental ----

// What the elements of a tensor are: of a type of fixed size, or strings, or objects of
// TensorFlow's.
struct TensorType {
  std::string name;        // as tf.DType has it: "float32", "string", "variant", "qint8"
  std::uint64_t size = 0;  // bytes of an element as stored; 0: they have no fixed size

  TensorType() = default;
  TensorType(DType dtype)
      : name(dtype_name(dtype)), size(dtype_size(dtype)) {}  // NOLINT(google-explicit-constructor)
  TensorType(std::string type_name, std::uint64_t bytes)
      : name(std::move(type_name)), size(bytes) {}
  bool operator==(const TensorType&) const = default;
};

// What a tensor that is to be saved is. All that refers to the tensor shares it.
struct SaveSpec {
  std::size_t source = 0;  // the number by which whoever saves knows it
  std::string name;        // the tensor's; where it is stored is the checkpoint key
  TensorType dtype;
  Shape shape;         // its own: if it is a slice of a larger one, the slice's
  std::string device;  // "/job:worker/replica:0/task:1/device:CPU:0"; empty: none, and no task
};

// A tensor that is to be saved, or a part of it. No values are behind it: callbacks say what goes
// where, and never change anything.
class ShardTensor {
 public:
  ShardTensor() = default;  // refers to nothing, and may only be assigned to
  explicit ShardTensor(std::shared_ptr<const SaveSpec> spec) : spec_(std::move(spec)) {}

  [[nodiscard]] bool empty() const { return spec_ == nullptr; }
  [[nodiscard]] const SaveSpec& spec() const { return *spec_; }
  [[nodiscard]] const Shape& shape() const { return part_ ? part_->shape : spec_->shape; }
  [[nodiscard]] const TensorType& dtype() const { return spec_->dtype; }
  [[nodiscard]] const std::string& device() const { return spec_->device; }
  // The part of it, in the coordinates of the tensor that is to be saved; nullptr: all.
  [[nodiscard]] const Box* part() const { return part_ ? &*part_ : nullptr; }
  // As tf.slice: the part that begins at `origin` of this one. Throws out_of_range if it does not
  // lie within.
  [[nodiscard]] ShardTensor slice(const std::vector<std::int64_t>& origin,
                                  const Shape& shape) const;
  bool operator==(const ShardTensor&) const = default;  // the same part of the same tensor

 private:
  std::shared_ptr<const SaveSpec> spec_;
  std::optional<Box> part_;
};

// Bytes of the strings of a tensor, without what it takes to say how long they are.
struct StringBytes {
  std::uint64_t total = 0, longest = 0;
  bool operator==(const StringBytes&) const = default;
};

// A tensor as a callback gets it.
struct ShardableTensor {
  ShardTensor tensor;
  std::string checkpoint_key;
  // which slice of a larger tensor it is (slice_spec_text); empty: it is whole
  std::string slice_spec;
  // whatever object owns it, to callbacks that know of such; none of the object graph
  std::shared_ptr<const void> trackable = {};
  // of strings, if it is known: TensorFlow does not in a tf.function
  std::optional<StringBytes> string_bytes = {};

  [[nodiscard]] const SaveSpec& tensor_save_spec() const { return tensor.spec(); }
  [[nodiscard]] const std::string& name() const { return tensor.spec().name; }
  [[nodiscard]] const TensorType& dtype() const { return tensor.dtype(); }
  [[nodiscard]] const Shape& shape() const { return tensor.shape(); }
  [[nodiscard]] const std::string& device() const { return tensor.device(); }
  // Of the name, the type, the device and the key.
  [[nodiscard]] std::size_t hash() const;
  bool operator==(const ShardableTensor&) const = default;
};

// A map from texts that keeps the order in which they came, as Python's dict does.
template <class Value>
class OrderedMap {
 public:
  using value_type = std::pair<std::string, Value>;

  // The value of `key`, which joins at the end if it is not there.
  Value& operator[](std::string_view key) {
    if (const std::size_t at = index_of(key); at < entries_.size()) return entries_[at].second;
    entries_.emplace_back(std::string(key), Value());
    note(entries_.size() - 1);
    return entries_.back().second;
  }
  // nullptr if it is not there.
  [[nodiscard]] const Value* find(std::string_view key) const {
    const std::size_t at = index_of(key);
    return at < entries_.size() ? &entries_[at].second : nullptr;
  }
  [[nodiscard]] auto begin() const { return entries_.begin(); }
  [[nodiscard]] auto end() const { return entries_.end(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  bool operator==(const OrderedMap& other) const { return entries_ == other.entries_; }

 private:
  static constexpr std::size_t kFew = 8;  // that are looked through one by one

  [[nodiscard]] std::size_t index_of(std::string_view key) const {
    if (slots_.empty()) {
      std::size_t at = 0;
      while (at < entries_.size() && entries_[at].first != key) ++at;
      return at;
    }
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t slot = std::hash<std::string_view>()(key) & mask; slots_[slot] != 0;
         slot = (slot + 1) & mask)
      if (entries_[slots_[slot] - 1].first == key) return slots_[slot] - 1;
    return entries_.size();
  }
  void note(std::size_t at) {
    if (entries_.size() <= kFew) return;
    if (2 * entries_.size() <= slots_.size()) return place(at);
    slots_.assign(slots_.empty() ? 4 * kFew : 2 * slots_.size(), 0);
    for (std::size_t i = 0; i < entries_.size(); ++i) place(i);
  }
  void place(std::size_t at) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = std::hash<std::string_view>()(entries_[at].first) & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = at + 1;
  }

  std::vector<value_type> entries_;
  // 1 + index of the entry whose hash led here; 0: free. Empty as long as there are few
  std::vector<std::size_t> slots_;
};

// What goes into one data file: checkpoint key -> slice_spec -> tensor. In a file, slices of one
// key are side by side.
using TensorSlices = OrderedMap<ShardTensor>;
using Shard = OrderedMap<TensorSlices>;

// How tensors are split into shards. Restrictions: no tensor is left out or put twice, no shape,
// type or task changes, and all tensors of a shard are of one task. A tensor may be cut: its parts
// come under the same key, each with the slice_spec that says which part it is.
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
  // A parameter's value; std::monostate: one that has no hash.
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

  ShardingCallback() = default;
  ShardingCallback(const ShardingCallback&) = default;
  ShardingCallback& operator=(const ShardingCallback&) = default;
  virtual ~ShardingCallback() = default;

  // For messages; it is not stored.
  [[nodiscard]] virtual std::string description() const = 0;
  // Is called once for each task, with its tensors. Called with the same ones it must answer the
  // same: of several processes that save together each calls it.
  [[nodiscard]] virtual std::vector<Shard> operator()(
      std::span<const ShardableTensor> tensors) const = 0;
  // What it was made with, by name.
  [[nodiscard]] virtual std::vector<std::pair<std::string, Value>> kwargs() const { return {}; }
  // Of the description, and of the name and the value of each parameter, in whatever order; equal
  // numbers of different types have one hash. As TensorFlow combines them, two parameters that swap
  // their values have the same hash.
  [[nodiscard]] std::size_t hash() const;
  // As in TensorFlow, a callback equals itself alone.
  bool operator==(const ShardingCallback& other) const { return this == &other; }
};

// One shard for each task: what is done where there is no callback.
class ShardByTaskPolicy : public ShardingCallback {
 public:
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<Shard> operator()(
      std::span<const ShardableTensor> tensors) const override;
};

struct MaxShardSizeOptions {
  // Cuts exactly as TensorFlow does, also where what it makes cannot be restored or lacks tensors;
  // where TensorFlow fails, or never ends, Cairn throws. Otherwise Cairn differs where that would
  // be so, and only there (docs/sharding.md).
  bool like_tensorflow = false;
  // is told of each shard that is larger than it should be, and of sizes not known
  std::function<void(const std::string&)> warn = {};
};

// Shards of at most so many bytes of values. Tensors are cut along one axis at a time, so that what
// is left is always a box. Larger may be the shard of one tensor that cannot be cut, and that of
// the object graph, whose size is not counted.
class MaxShardSizePolicy : public ShardingCallback {
 public:
  // Throws invalid_argument unless max_shard_size is positive (0 will do if it is to be like
  // TensorFlow's).
  explicit MaxShardSizePolicy(std::int64_t max_shard_size, MaxShardSizeOptions options = {});

  [[nodiscard]] std::string description() const override;
  // Throws, naming the key, invalid_argument for more than a million shards and for a slice spec
  // that is not the tensor's; out_of_range for a tensor of more than 2^63 - 1 bytes; unimplemented
  // where TensorFlow fails, if it is to be like TensorFlow's.
  [[nodiscard]] std::vector<Shard> operator()(
      std::span<const ShardableTensor> tensors) const override;
  [[nodiscard]] std::vector<std::pair<std::string, Value>> kwargs() const override;

 private:
  std::int64_t max_shard_size_;
  MaxShardSizeOptions options_;
};

// Throws failed_precondition, in TensorFlow's words, for shards that are not these tensors: one
// that is there twice, not at all, or was not among them; one whose shape, type or task has
// changed; tensors of several tasks in one shard. What TensorFlow has no message for: parts must
// lie in one of the tensors of their key, not overlap, and be all of it together.
void validate_shards(std::span<const Shard> shards, std::span<const ShardableTensor> tensors,
                     std::string_view callback_description);

// What saving does: the callback's shards of each task, tasks in the order of their first tensors,
// validated. Throws invalid_argument for two tensors of one key and slice_spec, and for a device
// that is none; what the callback throws; and as validate_shards does.
std::vector<Shard> make_shards(const ShardingCallback& callback,
                               std::span<const ShardableTensor> tensors);

// The slice_spec of a part of a tensor: "4 3 5 0,4:1,1:3,2" is [0:4, 1:2, 3:5] of one of shape (4,
// 3, 5); empty for a rank of 0.
std::string slice_spec_text(std::span<const std::int64_t> full_shape, const Box& part);

// The task of a device; nullopt if it names none. Throws invalid_argument for what is no device, in
// TensorFlow's words.
std::optional<std::int64_t> device_task(std::string_view device);

// ---- writing ----

// TensorFlow's name of the type ("float", "half"); nullopt for a type that it cannot hold.
std::optional<std::string_view> tensorflow_dtype(DType dtype);
// The key under which the object that one gets to by this path has its value:
// "model/layer.S1/kernel/.ATTRIBUTES/VARIABLE_VALUE". For the paths of an opened TensorFlow
// checkpoint's variables these are their keys.
std::string tensorflow_key(const KeyPath& path);

// One tensor to be written.
struct TensorFlowSource {
  std::string key;  // as tensorflow_key makes it, or any name of a variable; any bytes
  // a DType, or "string", or another type of TensorFlow's that has a fixed size ("qint8")
  TensorType dtype;
  Shape shape;
  std::uint64_t cut = 0;  // as TensorSource::cut
  // of a string tensor: its elements in C order, which are not fetched
  std::vector<std::string> strings = {};
  // What is given may be a slice of a larger tensor, other slices of which come under the same key:
  // this is where it lies, and the shape of that tensor.
  struct Slice {
    Shape full_shape;
    std::vector<std::int64_t> origin;
  };
  std::optional<Slice> slice = {};
  // whose task decides which files it may share with others; empty: none
  std::string device = {};
  std::string full_name = {};  // in the object graph; empty: the path of the key
};

struct TensorFlowWriteOptions {
  enum class Like : std::uint8_t {
    // As tf.train.Checkpoint.save(), to be restored with restore(): the object graph has a
    // save_counter (1, unless a source is one), and the folder's file `checkpoint` then names this
    // checkpoint as the latest.
    kSave,
    kWrite,  // as tf.train.Checkpoint.write(), to be restored with read(): neither
  };
  Like like = Like::kSave;
  // An object for every step of the keys that tensorflow_key makes; none is made if a source has
  // the key of the graph, "_CHECKPOINTABLE_OBJECT_GRAPH": that is then a graph that was written
  // before. False: no graph, and no save_counter; restored by name.
  bool object_graph = true;
  // none: ShardByTaskPolicy, one data file for each task
  std::shared_ptr<const ShardingCallback> sharding_callback = nullptr;
  // a checkpoint of that prefix is refused otherwise
  IfExists if_exists = IfExists::kFail;
  std::uint64_t memory = std::uint64_t{1} << 30U;  // buffer bytes in flight
  ProgressFn progress = {};
  MultiprocessingOptions multiprocessing = {};  // as in SafetensorsWriteOptions
};
// Writes `<prefix>.index` and `<prefix>.data-00000-of-00001` (or more of these), whole or not at
// all, and makes the folder if there is none. Values are stored in the order of the sources, the
// object graph last. Throws invalid_argument, naming the tensor, for types that TensorFlow cannot
// hold, and for keys that are there twice; what the callback throws; failed_precondition for shards
// that are not valid (validate_shards), and if a file `checkpoint` that is to be updated is
// something else. Returns the files written, the index behind those of values.
std::vector<std::string> write_tensorflow(const std::string& prefix,
                                          std::vector<TensorFlowSource> sources,
                                          const FetchFn& fetch,
                                          const TensorFlowWriteOptions& options = {});
// The arrays, numbers, strings and bytes of a tree, under the keys of their paths. Python's numbers
// become bool, int64 (uint64), float64 and complex128. Throws invalid_argument for leaves without a
// value and empty containers, naming them.
std::vector<std::string> write_tensorflow(const std::string& prefix, const Tree& tree,
                                          const TensorFlowWriteOptions& options = {});

}  // namespace cairn
