// checkpoint_sharding.h -- which tensors of a checkpoint, or which parts of them, go into which of its files: the sharding callbacks of
// TensorFlow (tf.train.experimental), under its names.
#pragma once

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

// What the elements of a tensor are: of a type of fixed size, or strings, or objects of TensorFlow's.
struct TensorType {
  std::string name;        // as tf.DType has it: "float32", "string", "variant", "qint8"
  std::uint64_t size = 0;  // bytes of an element as stored; 0: they have no fixed size

  TensorType() = default;
  TensorType(DType dtype) : name(dtype_name(dtype)), size(dtype_size(dtype)) {}  // NOLINT(google-explicit-constructor)
  TensorType(std::string type_name, std::uint64_t bytes) : name(std::move(type_name)), size(bytes) {}
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

// A tensor that is to be saved, or a part of it. No values are behind it: callbacks say what goes where, and never change anything.
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
  // As tf.slice: the part that begins at `origin` of this one. Throws out_of_range if it does not lie within.
  [[nodiscard]] ShardTensor slice(const std::vector<std::int64_t>& origin, const Shape& shape) const;
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
  std::string slice_spec;                        // which slice of a larger tensor it is (slice_spec_text); empty: it is whole
  std::shared_ptr<const void> trackable = {};    // whatever object owns it, to callbacks that know of such; none of the object graph
  std::optional<StringBytes> string_bytes = {};  // of strings, if it is known: TensorFlow does not in a tf.function

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
    for (std::size_t slot = std::hash<std::string_view>()(key) & mask; slots_[slot] != 0; slot = (slot + 1) & mask)
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
  std::vector<std::size_t> slots_;  // 1 + index of the entry whose hash led here; 0: free. Empty as long as there are few
};

// What goes into one data file: checkpoint key -> slice_spec -> tensor. In a file, slices of one key are side by side.
using TensorSlices = OrderedMap<ShardTensor>;
using Shard = OrderedMap<TensorSlices>;

// How tensors are split into shards. Restrictions: no tensor is left out or put twice, no shape, type or task changes, and all tensors of
// a shard are of one task. A tensor may be cut: its parts come under the same key, each with the slice_spec that says which part it is.
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
  // Is called once for each task, with its tensors. Called with the same ones it must answer the same: of several processes that save
  // together each calls it.
  [[nodiscard]] virtual std::vector<Shard> operator()(std::span<const ShardableTensor> tensors) const = 0;
  // What it was made with, by name.
  [[nodiscard]] virtual std::vector<std::pair<std::string, Value>> kwargs() const { return {}; }
  // Of the description, and of the name and the value of each parameter, in whatever order; equal numbers of different types have one
  // hash. As TensorFlow combines them, two parameters that swap their values have the same hash.
  [[nodiscard]] std::size_t hash() const;
  // As in TensorFlow, a callback equals itself alone.
  bool operator==(const ShardingCallback& other) const { return this == &other; }
};

// One shard for each task: what is done where there is no callback.
class ShardByTaskPolicy : public ShardingCallback {
 public:
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<Shard> operator()(std::span<const ShardableTensor> tensors) const override;
};

struct MaxShardSizeOptions {
  // Cuts exactly as TensorFlow does, also where what it makes cannot be restored or lacks tensors; where TensorFlow fails, or never ends,
  // Cairn throws. Otherwise Cairn differs where that would be so, and only there (docs/sharding.md).
  bool like_tensorflow = false;
  std::function<void(const std::string&)> warn = {};  // is told of each shard that is larger than it should be, and of sizes not known
};

// Shards of at most so many bytes of values. Tensors are cut along one axis at a time, so that what is left is always a box. Larger may be
// the shard of one tensor that cannot be cut, and that of the object graph, whose size is not counted.
class MaxShardSizePolicy : public ShardingCallback {
 public:
  // Throws invalid_argument unless max_shard_size is positive (0 will do if it is to be like TensorFlow's).
  explicit MaxShardSizePolicy(std::int64_t max_shard_size, MaxShardSizeOptions options = {});

  [[nodiscard]] std::string description() const override;
  // Throws, naming the key, invalid_argument for more than a million shards and for a slice spec that is not the tensor's; out_of_range
  // for a tensor of more than 2^63 - 1 bytes; unimplemented where TensorFlow fails, if it is to be like TensorFlow's.
  [[nodiscard]] std::vector<Shard> operator()(std::span<const ShardableTensor> tensors) const override;
  [[nodiscard]] std::vector<std::pair<std::string, Value>> kwargs() const override;

 private:
  std::int64_t max_shard_size_;
  MaxShardSizeOptions options_;
};

// Throws failed_precondition, in TensorFlow's words, for shards that are not these tensors: one that is there twice, not at all, or was
// not among them; one whose shape, type or task has changed; tensors of several tasks in one shard. What TensorFlow has no message for:
// parts must lie in one of the tensors of their key, not overlap, and be all of it together.
void validate_shards(std::span<const Shard> shards, std::span<const ShardableTensor> tensors, std::string_view callback_description);

// What saving does: the callback's shards of each task, tasks in the order of their first tensors, validated. Throws invalid_argument for
// two tensors of one key and slice_spec, and for a device that is none; what the callback throws; and as validate_shards does.
std::vector<Shard> make_shards(const ShardingCallback& callback, std::span<const ShardableTensor> tensors);

// The slice_spec of a part of a tensor: "4 3 5 0,4:1,1:3,2" is [0:4, 1:2, 3:5] of one of shape (4, 3, 5); empty for a rank of 0.
std::string slice_spec_text(std::span<const std::int64_t> full_shape, const Box& part);

// The task of a device; nullopt if it names none. Throws invalid_argument for what is no device, in TensorFlow's words.
std::optional<std::int64_t> device_task(std::string_view device);

}  // namespace cairn
