// bundle_sharding.cc -- tensors and callbacks of sharding, the policy of one shard for each task,
// and how a save runs a callback.
#include <cairn/array/box.h>
#include <cairn/base/hash.h>
#include <cairn/base/visible_text.h>
#include <cairn/error.h>
#include <cairn/formats/tensorflow/sharding/device_name.h>
#include <cairn/formats/tensorflow/sharding/tensor_slot.h>
#include <cairn/tensorflow.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace cairn::inline v0 {
namespace {

std::size_t text_hash(std::string_view text) { return std::hash<std::string_view>()(text); }

// Equal numbers have equal hashes, integers or not, as in Python.
std::size_t number_hash(double value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (value == std::floor(value) && value >= -kLimit && value < kLimit)
    return splitmix64(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  return std::hash<double>()(value);
}

struct ValueHash {
  std::size_t operator()(std::monostate /*unhashable*/) const { return 0; }
  std::size_t operator()(bool value) const { return splitmix64(value ? 1 : 0); }
  std::size_t operator()(std::int64_t value) const {
    return splitmix64(static_cast<std::uint64_t>(value));
  }
  std::size_t operator()(double value) const { return number_hash(value); }
  std::size_t operator()(const std::string& value) const { return text_hash(value); }
};

std::string in_quotes(std::string_view text) { return "'" + visible_text(text) + "'"; }

// The device as TensorFlow prints it; one that cannot be parsed as it is.
std::string device_text(std::string_view device) {
  const auto name = try_call([&] { return DeviceName::parse(device); });
  return name ? visible_text(name.value().text()) : in_quotes(device);
}

void check_slots(std::span<const ShardableTensor> tensors) {
  std::unordered_set<TensorSlot, TensorSlotHash> slots;
  slots.reserve(tensors.size());
  for (const ShardableTensor& tensor : tensors) {
    if (tensor.tensor.empty())
      throw Error(Code::kInvalidArgument,
                  fmt::format("there is no tensor for the key \"{}\"", tensor.checkpoint_key));
    if (!slots.insert({tensor.checkpoint_key, tensor.slice_spec}).second)
      throw Error(Code::kInvalidArgument,
                  fmt::format("two tensors have the checkpoint key \"{}\" and the slice spec "
                              "\"{}\": one would overwrite the other",
                              tensor.checkpoint_key, tensor.slice_spec));
  }
}

// The number of each tensor's task. Tasks are numbered in the order in which they first occur.
std::vector<std::size_t> task_numbers(std::span<const ShardableTensor> tensors,
                                      std::size_t& count) {
  std::unordered_map<std::string_view, std::size_t> of_device;
  std::unordered_map<std::string, std::size_t> of_task;
  std::vector<std::size_t> numbers;
  numbers.reserve(tensors.size());
  for (const ShardableTensor& tensor : tensors) {
    if (!numbers.empty() && tensor.device() == tensors[numbers.size() - 1].device()) {
      numbers.push_back(numbers.back());
      continue;
    }
    auto known = of_device.find(tensor.device());
    if (known == of_device.end()) {
      const DeviceName name = with_context([&] { return tensor.checkpoint_key; },
                                           [&] { return DeviceName::parse(tensor.device()); });
      known = of_device
                  .emplace(tensor.device(),
                           of_task.emplace(name.task_name(), of_task.size()).first->second)
                  .first;
    }
    numbers.push_back(known->second);
  }
  count = of_task.size();
  return numbers;
}

std::vector<Shard> checked_shards(const ShardingCallback& callback,
                                  std::span<const ShardableTensor> tensors) {
  std::vector<Shard> shards = callback(tensors);
  validate_shards(shards, tensors, callback.description());
  return shards;
}

}  // namespace

ShardTensor ShardTensor::slice(const std::vector<std::int64_t>& origin, const Shape& shape) const {
  Box box{origin, shape};
  check_inside(box, this->shape());
  ShardTensor out(spec_);
  for (std::size_t d = 0; part_ && d < box.rank(); ++d) box.origin[d] += part_->origin[d];
  if (box.shape != spec_->shape) out.part_ = std::move(box);
  return out;
}

std::size_t ShardableTensor::hash() const {
  std::uint64_t hash = text_hash(name());
  for (const std::string& text : {dtype().name, device(), checkpoint_key})
    hash = splitmix64(hash) ^ text_hash(text);
  return hash;
}

std::string ShardableTensor::text() const {
  if (tensor.empty())
    return "ShardableTensor: no tensor, checkpoint_key=" + in_quotes(checkpoint_key);
  std::string which = fmt::format("tensor {}", tensor.spec().source);
  if (const Box* part = tensor.part()) which += fmt::format(", from {}", shape_text(part->origin));
  return fmt::format(
      "\nShardableTensor:\n  tensor={}\n  dtype=tf.{}\n  device={}\n  name={}\n"
      "  shape=TensorShape([{}])\n  slice_spec={}\n  checkpoint_key={}\n  trackable={}",
      which, dtype().name, device_text(device()), in_quotes(name()), fmt::join(shape(), ", "),
      in_quotes(slice_spec), in_quotes(checkpoint_key),
      trackable == nullptr ? "None" : "an object");
}

std::size_t ShardingCallback::hash() const {
  std::size_t hash = text_hash(description());
  for (const auto& [name, value] : kwargs())
    hash ^= text_hash(name) ^ std::visit(ValueHash(), value);
  return hash;
}

std::string ShardByTaskPolicy::description() const {
  return "Split tensors into shards based on their device spec task.";
}

std::vector<Shard> ShardByTaskPolicy::operator()(std::span<const ShardableTensor> tensors) const {
  std::vector<Shard> shards(1);
  for (const ShardableTensor& tensor : tensors)
    shards[0][tensor.checkpoint_key][tensor.slice_spec] = tensor.tensor;
  return shards;
}

std::vector<Shard> make_shards(const ShardingCallback& callback,
                               std::span<const ShardableTensor> tensors) {
  check_slots(tensors);
  std::size_t tasks = 0;
  const std::vector<std::size_t> task = task_numbers(tensors, tasks);
  if (tasks <= 1) return checked_shards(callback, tensors);
  std::vector<std::vector<ShardableTensor>> groups(tasks);
  for (std::size_t i = 0; i < tensors.size(); ++i) groups[task[i]].push_back(tensors[i]);
  std::vector<Shard> all;
  for (const auto& group : groups)
    for (Shard& shard : checked_shards(callback, group)) all.push_back(std::move(shard));
  return all;
}

std::optional<std::int64_t> device_task(std::string_view device) {
  return DeviceName::parse(device).task;
}

}  // namespace cairn::inline v0
