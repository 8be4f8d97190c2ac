// max_shard_size.cc -- fills shards of a maximum size with tensors in their order, and cuts tensors
// that do not fit.
//
// The rest of a tensor is always a box: a cut takes its front part along one axis. It chooses the
// axis that needs the fewest equal parts such that one of them fits the free space of the shard.
// The part is as large as one of these equal parts.
#include <cairn/error.h>
#include <cairn/formats/tensorflow/index/object_graph.h>
#include <cairn/formats/tensorflow/sharding/slice_spec.h>
#include <cairn/tensorflow.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kMaxPlannedShards = 1'000'000;  // a larger number is a mistake, not a plan

// Whether TensorFlow can restore a tensor of this type that is stored in parts.
bool is_joined_by_tensorflow(std::string_view type) {
  constexpr std::array<std::string_view, 16> kTypes = {
      "float32", "float64",   "bfloat16",   "int8",  "int16",  "int32",  "int64", "uint8",
      "bool",    "complex64", "complex128", "qint8", "quint8", "qint32", "int4",  "uint4"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

// Whether TensorFlow can slice a tensor of this type on a CPU.
bool is_sliced_by_tensorflow(std::string_view type) {
  constexpr std::array<std::string_view, 11> kOthers = {
      "qint16", "quint16", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "int4",
      "uint4",  "int2",    "uint2",           "float4_e2m1fn",      "variant"};
  return std::find(kOthers.begin(), kOthers.end(), type) == kOthers.end();
}

std::uint64_t checked_product(std::uint64_t count, std::uint64_t size) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes) ||
      bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw Error(Code::kOutOfRange,
                fmt::format("{} elements of {} bytes exceed 2^63-1 bytes", count, size));
  return bytes;
}

std::uint64_t count_of(const Shape& shape) {
  return static_cast<std::uint64_t>(element_count(shape));
}

// A tensor to be placed, or the rest of one.
struct Rest {
  const ShardableTensor* tensor;
  Shape full_shape;                  // of the tensor that this is a slice of, or its own
  std::vector<std::int64_t> origin;  // where the tensor begins in full_shape
  Box box;                           // the rest, in the coordinates of full_shape
  std::uint64_t item;                // bytes assumed for an element
  std::uint64_t bytes;               // of the rest
};

struct Cut {
  std::size_t axis = 0;
  std::int64_t length = 0;  // 0: no part fits
};

Cut best_cut(const Rest& rest, std::uint64_t room) {
  const std::uint64_t count = count_of(rest.box.shape);
  std::uint64_t fewest = 0;
  Cut best;
  for (std::size_t axis = 0; axis < rest.box.rank(); ++axis) {
    const auto length = static_cast<std::uint64_t>(rest.box.shape[axis]);
    const std::uint64_t fit = room / checked_product(count / length, rest.item);
    if (fit == 0) continue;
    const std::uint64_t parts = (length - 1) / fit + 1;
    if (fewest != 0 && parts >= fewest) continue;
    fewest = parts;
    best = {axis, static_cast<std::int64_t>((length - 1) / parts + 1)};
  }
  return best;
}

class Partitioner {
 public:
  Partitioner(std::uint64_t max, const MaxShardSizeOptions& options)
      : max_(max), room_(max), options_(&options) {}

  void add(const ShardableTensor& tensor) {
    Rest rest = start(tensor);
    if (rest.box.rank() == 0) return add_scalar(rest);
    if (options_->like_tensorflow) {
      if (prepare_like_tensorflow(rest)) add_cut(rest);
      return;
    }
    if (rest.box.empty()) return put(tensor.checkpoint_key, tensor.slice_spec, tensor.tensor);
    if (is_joined_by_tensorflow(tensor.dtype().name)) return add_cut(rest);
    add_whole(rest);
  }

  std::vector<Shard> take() {
    std::vector<Shard> shards;
    if (!shards_[0].empty()) shards = std::move(shards_);
    std::move(large_.begin(), large_.end(), std::back_inserter(shards));
    return shards;
  }

 private:
  Rest start(const ShardableTensor& tensor) {
    Rest rest{&tensor,
              tensor.shape(),
              std::vector<std::int64_t>(tensor.shape().size()),
              Box::whole(tensor.shape()),
              0,
              0};
    if (!tensor.slice_spec.empty()) {
      ShapeAndSlice spec = parse_slice_spec(tensor.slice_spec);
      rest.box = slice_box(spec);
      if (rest.box.shape != tensor.shape())
        throw Error(Code::kInvalidArgument,
                    fmt::format("the slice spec \"{}\" does not match a tensor of shape {}",
                                tensor.slice_spec, shape_text(tensor.shape())));
      rest.origin = rest.box.origin;
      rest.full_shape = std::move(spec.full_shape);
    }
    measure(rest);
    return rest;
  }

  void measure(Rest& rest) {
    const std::string& type = rest.tensor->dtype().name;
    const std::uint64_t count = count_of(rest.box.shape);
    if (rest.tensor->checkpoint_key == kObjectGraphKey || type == "variant") return;
    if (type != "string") {
      rest.item = rest.tensor->dtype().size;
      if (rest.item == 0)
        throw Error(Code::kInvalidArgument, fmt::format("elements of type {} have no size", type));
      rest.bytes = checked_product(count, rest.item);
      return;
    }
    if (!rest.tensor->string_bytes) {
      if (!std::exchange(warned_of_strings_, true))
        warn(
            "The checkpoint sharding policy is being executed in a tf.function. The size of the "
            "string/variant constant cannot be "
            "obtained.");
      return;
    }
    rest.item = rest.tensor->string_bytes->longest;
    rest.bytes = checked_product(1, rest.tensor->string_bytes->total);
  }

  // Returns whether there is anything to add.
  static bool prepare_like_tensorflow(const Rest& rest) {
    const std::string& type = rest.tensor->dtype().name;
    const Shape& shape = rest.box.shape;
    const auto fails = [](const std::string& why) {
      throw Error(Code::kUnimplemented, "TensorFlow's policy fails: " + why);
    };
    if (type == "string" && rest.tensor->string_bytes &&
        rest.tensor->checkpoint_key != kObjectGraphKey) {
      if (shape[0] == 0) fails("it needs at least one string, to find the longest");
      if (std::any_of(shape.begin() + 1, shape.end(),
                      [](std::int64_t extent) { return extent != 1; }))
        fails("it compares strings of rank " + std::to_string(shape.size()));
    }
    if (rest.box.empty()) return false;
    if (!is_sliced_by_tensorflow(type)) fails("it cannot take parts of tensors of type " + type);
    return true;
  }

  void add_scalar(const Rest& rest) {
    const ShardableTensor& tensor = *rest.tensor;
    if (rest.bytes > max_) {
      warn(
          fmt::format("Tensor {} is a <dtype: '{}'> scalar of size {} bytes and cannot be "
                      "partitioned into a shard of max shard size {} bytes. "
                      "It will be added as an individual shard that exceeds the max shard size.",
                      tensor.checkpoint_key, tensor.dtype().name, rest.bytes, max_));
      return add_large(tensor.checkpoint_key, tensor.slice_spec, tensor.tensor);
    }
    add_small(rest, tensor.slice_spec);
  }

  // Adds a tensor uncut, because TensorFlow could not join its parts.
  void add_whole(const Rest& rest) {
    if (rest.bytes > max_) return add_indivisible(rest);
    add_small(rest, slice_spec_text(rest.full_shape, rest.box));
  }

  void add_small(const Rest& rest, const std::string& spec) {
    if (rest.bytes > room_) open();
    put(rest.tensor->checkpoint_key, spec, part_of(rest, rest.box));
    room_ -= rest.bytes;
  }

  void add_cut(Rest rest) {
    if (max_ > 0 && rest.bytes / max_ > kMaxPlannedShards) refuse_number();
    if (rest.bytes > room_ && rest.box.rank() > kMaxBundleRank)
      throw Error(
          Code::kInvalidArgument,
          fmt::format("a tensor of rank {} cannot be cut; TensorFlow's have {} axes at most",
                      rest.box.rank(), kMaxBundleRank));
    while (rest.bytes > room_) {
      const Cut cut = best_cut(rest, room_);
      if (cut.length != 0) {
        add_part(rest, cut);
      } else if (room_ < max_ && (options_->like_tensorflow || rest.item <= max_)) {
        open();
      } else if (options_->like_tensorflow) {
        throw Error(Code::kInvalidArgument,
                    fmt::format("TensorFlow's policy would never end: no part of shape {} cut "
                                "along one axis has at most {} bytes",
                                shape_text(rest.box.shape), max_));
      } else if (!split_off(rest)) {
        return;
      }
    }
    put(rest.tensor->checkpoint_key, slice_spec_text(rest.full_shape, rest.box),
        part_of(rest, rest.box));
    room_ -= rest.bytes;
  }

  void add_part(Rest& rest, const Cut& cut) {
    if (rest.tensor->dtype().name == "string" && rest.box.rank() > 1)
      throw Error(Code::kUnimplemented,
                  "TensorFlow's policy fails: it cannot cut strings of rank " +
                      std::to_string(rest.box.rank()));
    Box part = rest.box;
    part.shape[cut.axis] = cut.length;
    put(rest.tensor->checkpoint_key, slice_spec_text(rest.full_shape, part), part_of(rest, part));
    room_ -= checked_product(count_of(part.shape), rest.item);
    if (room_ == 0) open();
    drop(rest, cut);
  }

  // Called if no part along one axis fits an empty shard. Handles one index of the longest axis as
  // a tensor of its own. A single element gets a shard of its own; returns false if nothing
  // remains.
  bool split_off(Rest& rest) {
    const auto longest = std::max_element(rest.box.shape.begin(), rest.box.shape.end());
    if (*longest == 1) return add_indivisible(rest), false;
    const Cut cut{static_cast<std::size_t>(longest - rest.box.shape.begin()), 1};
    Rest part = rest;
    part.box.shape[cut.axis] = 1;
    part.bytes = checked_product(count_of(part.box.shape), rest.item);
    add_cut(std::move(part));
    drop(rest, cut);
    return true;
  }

  static void drop(Rest& rest, const Cut& cut) {
    rest.box.origin[cut.axis] += cut.length;
    rest.box.shape[cut.axis] -= cut.length;
    rest.bytes = checked_product(count_of(rest.box.shape), rest.item);
  }

  void add_indivisible(const Rest& rest) {
    const std::string spec = slice_spec_text(rest.full_shape, rest.box);
    warn(
        fmt::format("Tensor {}'s minimum slice {} has size {} bytes and cannot be partitioned into "
                    "a shard of max shard size {} bytes. It will be "
                    "added as an individual shard that exceeds the max shard size.",
                    rest.tensor->checkpoint_key, spec, rest.bytes, max_));
    add_large(rest.tensor->checkpoint_key, spec, part_of(rest, rest.box));
  }

  static ShardTensor part_of(const Rest& rest, const Box& box) {
    if (box.shape == rest.tensor->shape()) return rest.tensor->tensor;
    std::vector<std::int64_t> origin = box.origin;
    for (std::size_t d = 0; d < origin.size(); ++d) origin[d] -= rest.origin[d];
    return rest.tensor->tensor.slice(origin, box.shape);
  }

  void put(const std::string& key, const std::string& spec, ShardTensor tensor) {
    shards_.back()[key][spec] = std::move(tensor);
  }
  void add_large(const std::string& key, const std::string& spec, ShardTensor tensor) {
    check_number();
    large_.emplace_back()[key][spec] = std::move(tensor);
  }
  void open() {
    check_number();
    shards_.emplace_back();
    room_ = max_;
  }
  void check_number() const {
    if (shards_.size() + large_.size() >= kMaxPlannedShards) refuse_number();
  }
  [[noreturn]] void refuse_number() const {
    throw Error(Code::kInvalidArgument,
                fmt::format("max_shard_size {} makes more than {} shards; choose a larger size",
                            max_, kMaxPlannedShards));
  }
  void warn(const std::string& message) const {
    if (options_->warn) options_->warn(message);
  }

  std::uint64_t max_, room_;  // room: free bytes in the last of shards_
  const MaxShardSizeOptions* options_;
  std::vector<Shard> shards_ = std::vector<Shard>(1);
  std::vector<Shard> large_;  // each has one tensor, or one part, that exceeds the limit
  bool warned_of_strings_ = false;
};

}  // namespace

MaxShardSizePolicy::MaxShardSizePolicy(std::int64_t max_shard_size, MaxShardSizeOptions options)
    : max_shard_size_(max_shard_size), options_(std::move(options)) {
  if (max_shard_size < (options_.like_tensorflow ? 0 : 1))
    throw Error(Code::kInvalidArgument,
                fmt::format("max_shard_size is {}; it must be positive", max_shard_size));
}

std::string MaxShardSizePolicy::description() const {
  return "Split tensors into shards with a max shard size.";
}

std::vector<Shard> MaxShardSizePolicy::operator()(std::span<const ShardableTensor> tensors) const {
  Partitioner partitioner(static_cast<std::uint64_t>(max_shard_size_), options_);
  for (const ShardableTensor& tensor : tensors)
    with_context([&] { return tensor.checkpoint_key; }, [&] { partitioner.add(tensor); });
  return partitioner.take();
}

std::vector<std::pair<std::string, ShardingCallback::Value>> MaxShardSizePolicy::kwargs() const {
  std::vector<std::pair<std::string, Value>> out = {{"max_shard_size", max_shard_size_}};
  if (options_.like_tensorflow) out.emplace_back("like_tensorflow", true);
  return out;
}

}  // namespace cairn::inline v0
