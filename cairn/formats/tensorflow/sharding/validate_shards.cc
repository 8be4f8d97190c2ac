// validate_shards.cc -- checks that shards hold all tensors they were made from, each once, whole
// or in parts that cover it.
//
// The checks are TensorFlow's, in its order and its words. TensorFlow does not support parts here:
// it ends with a bare KeyError. Instead, this code looks up the tensor that the part belongs to.
// The part must lie where its slice spec says, and in the end the parts must cover the whole
// tensor.
#include <cairn/array/box.h>
#include <cairn/array/box_cover.h>
#include <cairn/error.h>
#include <cairn/formats/tensorflow/sharding/slice_spec.h>
#include <cairn/formats/tensorflow/sharding/tensor_slot.h>
#include <cairn/tensorflow.h>

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

namespace cairn::inline v0 {
namespace {

using Task = std::optional<std::int64_t>;

std::string text(const Task& task) { return task ? std::to_string(*task) : "None"; }

std::string_view strip(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos
             ? ""
             : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// A tensor that must occur in the shards.
struct Original {
  const ShardableTensor* tensor;
  bool seen = false;            // seen whole
  std::vector<Box> parts = {};  // in the tensor's own coordinates
  std::vector<std::string_view> part_specs = {};
};

class Validation {
 public:
  Validation(std::span<const ShardableTensor> tensors, std::string_view description)
      : description_(description) {
    originals_.reserve(tensors.size());
    slots_.reserve(tensors.size());
    unseen_.reserve(tensors.size());
    for (const ShardableTensor& tensor : tensors) {
      const auto [slot, fresh] =
          slots_.emplace(TensorSlot{tensor.checkpoint_key, tensor.slice_spec}, originals_.size());
      if (fresh) {
        originals_.push_back({&tensor});
        ++unseen_[tensor.checkpoint_key];
      } else {
        originals_[slot->second].tensor = &tensor;
      }
    }
    used_.reserve(tensors.size());
  }

  void add(const Shard& shard) {
    std::optional<First> first;
    for (const auto& [key, slices] : shard) {
      for (const auto& [spec, tensor] : slices) {
        const TensorSlot slot{key, strip(spec)};
        if (tensor.empty()) fail("there is no tensor under a key of the checkpoint shards:", slot);
        Found found = check_tensor(slot, tensor);
        check_same_task(slot, tensor, first);
        accept(slot, tensor, std::move(found));
      }
    }
  }

  void finish() {
    check_removed();
    if (exchanged_)
      fail("another tensor was found in the place of one of the same shape:", *exchanged_);
    for (const Original& original : originals_)
      if (!original.parts.empty()) check_parts(original);
  }

 private:
  struct First {
    TensorSlot slot;
    const std::string* device;
    Task task;
  };
  struct Found {
    Original* original;
    // in the original's coordinates; nullopt: the whole tensor, under its own slice spec
    std::optional<Box> part;
  };

  [[noreturn]] void fail(std::string_view what, const std::string& lines) const {
    throw Error(
        Code::kFailedPrecondition,
        fmt::format(
            "After executing the checkpoint sharding callback, {}\n  callback_description: {}\n{}",
            what, description_, lines));
  }
  [[noreturn]] void fail(std::string_view what, const TensorSlot& slot,
                         const std::string& lines = "") const {
    fail(what, fmt::format("  checkpoint_key: {}\n  slice_spec: {}\n{}", slot.key, slot.slice_spec,
                           lines));
  }
  template <class Value>
  [[noreturn]] void fail_changed(std::string_view what, const TensorSlot& slot, const Value& before,
                                 const Value& after) const {
    fail(fmt::format("a tensor was found with an altered {}:", what), slot,
         fmt::format("  original tensor_{0}: {1}\n  new tensor_{0}: {2}\n", what, before, after));
  }

  Found check_tensor(const TensorSlot& slot, const ShardTensor& tensor) {
    if (used_.contains(slot))
      fail("multiple tensors with the same checkpoint key and slice spec were found:", slot);
    if (!unseen_.contains(slot.key))
      fail("a tensor not originally in the object graph was found in the checkpoint shards:", slot);
    const auto whole = slots_.find(slot);
    Found found{whole != slots_.end() ? &originals_[whole->second] : &whole_of(slot, tensor), {}};
    if (whole == slots_.end()) found.part = part_of(slot, *found.original);
    const ShardableTensor& target = *found.original->tensor;
    const Shape& shape = found.part ? found.part->shape : target.shape();
    if (tensor.shape() != shape)
      fail_changed("shape", slot, shape_text(shape), shape_text(tensor.shape()));
    if (tensor.dtype().name != target.dtype().name)
      fail_changed("dtype", slot, fmt::format("<dtype: '{}'>", target.dtype().name),
                   fmt::format("<dtype: '{}'>", tensor.dtype().name));
    if (const Task before = task_of(target.device()), after = task_of(tensor.device());
        before != after)
      fail_changed("task", slot, text(before), text(after));
    return found;
  }

  // The original tensor that this part belongs to.
  Original& whole_of(const TensorSlot& slot, const ShardTensor& tensor) {
    if (of_spec_.empty())
      for (std::size_t i = 0; i < originals_.size(); ++i)
        of_spec_.emplace(&originals_[i].tensor->tensor.spec(), i);
    const auto [begin, end] = of_spec_.equal_range(&tensor.spec());
    for (auto it = begin; it != end; ++it)
      if (originals_[it->second].tensor->checkpoint_key == slot.key) return originals_[it->second];
    fail("a tensor was found that is not part of one with its checkpoint key:", slot);
  }

  // The position of the part according to its slice spec, in the original's coordinates.
  Box part_of(const TensorSlot& slot, const Original& original) const {
    const ShardableTensor& target = *original.tensor;
    const ShapeAndSlice spec =
        with_context([&] { return fmt::format("the sharding callback's slice of {}", slot.key); },
                     [&] { return parse_slice_spec(slot.slice_spec); });
    Box outer = Box::whole(target.shape());
    Shape full = target.shape();
    if (!target.slice_spec.empty()) {
      const ShapeAndSlice of_target = parse_slice_spec(target.slice_spec);
      outer = slice_box(of_target);
      full = of_target.full_shape;
    }
    const Box box = slice_box(spec);
    if (spec.full_shape != full || !contains(outer, box))
      fail("a part was found that is not in its tensor:", slot,
           fmt::format("  original tensor_shape: {}\n  original slice_spec: {}\n",
                       shape_text(target.shape()), target.slice_spec));
    return relative_to(box, outer.origin);
  }

  void check_same_task(const TensorSlot& slot, const ShardTensor& tensor,
                       std::optional<First>& first) {
    if (!first) {
      first = First{slot, &tensor.device(), task_of(tensor.device())};
      return;
    }
    if (tensor.device() == *first->device) return;
    const Task task = task_of(tensor.device());
    if (!first->task || !task || *first->task == *task) return;
    fail("tensors with different tasks were found in the same shard:",
         fmt::format("  tensor #1:    checkpoint_key: {}\n    slice_spec: {}\n    task: {}\n"
                     "  tensor #2:    checkpoint_key: {}\n    slice_spec: {}\n    task: {}\n",
                     first->slot.key, first->slot.slice_spec, *first->task, slot.key,
                     slot.slice_spec, *task));
  }

  void accept(const TensorSlot& slot, const ShardTensor& tensor, Found found) {
    used_.insert(slot);
    Original& original = *found.original;
    if (!found.part) {
      if (tensor != original.tensor->tensor && !exchanged_) exchanged_ = slot;
      original.seen = true;
      if (const auto left = unseen_.find(slot.key); --left->second == 0) unseen_.erase(left);
      return;
    }
    const Box held = tensor.part() != nullptr ? *tensor.part() : Box::whole(tensor.shape());
    if (held != *found.part)
      fail("a part was found under the slice spec of another:", slot,
           fmt::format("  part: {}\n", box_text(held)));
    original.parts.push_back(std::move(*found.part));
    original.part_specs.push_back(slot.slice_spec);
  }

  // Reports missing keys in the order of their first tensors, each with its missing slices.
  void check_removed() const {
    std::vector<std::string_view> keys;
    std::unordered_map<std::string_view, std::string> missing;
    for (const Original& original : originals_) {
      if (original.seen || !original.parts.empty()) continue;
      const ShardableTensor& tensor = *original.tensor;
      const auto [lines, fresh] = missing.try_emplace(tensor.checkpoint_key);
      if (fresh) keys.emplace_back(tensor.checkpoint_key);
      lines->second += fmt::format("{}'{}': <tf.Tensor '{}' shape={} dtype={}>", fresh ? "" : ", ",
                                   tensor.slice_spec, tensor.name(), shape_text(tensor.shape()),
                                   tensor.dtype().name);
    }
    if (keys.empty()) return;
    std::string lines;
    for (const std::string_view key : keys)
      lines += fmt::format("  tensor:\n    checkpoint_key: {}\n    slice_spec: {{{}}}\n", key,
                           missing.at(key));
    fail("tensors in the object graph were not found in the checkpoint shards:", lines);
  }

  void check_parts(const Original& original) const {
    const ShardableTensor& tensor = *original.tensor;
    if (original.seen)
      fail("a tensor was found both whole and in parts:",
           TensorSlot{tensor.checkpoint_key, original.part_specs[0]});
    const auto fault = cover_fault(Box::whole(tensor.shape()), original.parts);
    if (!fault) return;
    if (!fault->boxes.empty())
      fail("parts of a tensor were found that overlap:",
           TensorSlot{tensor.checkpoint_key, original.part_specs[fault->boxes[0]]},
           fmt::format("  other slice_spec: {}\n", original.part_specs[fault->boxes[1]]));
    fail("a part of a tensor in the object graph was not found in the checkpoint shards:",
         TensorSlot{tensor.checkpoint_key, tensor.slice_spec},
         fmt::format("  first missing element: {}\n", shape_text(fault->point)));
  }

  // Caches the last device: most tensors have the device of the one before.
  Task task_of(const std::string& device) {
    if (device != last_device_) {
      last_task_ = device_task(device);
      last_device_ = device;
    }
    return last_task_;
  }

  std::string_view description_;
  std::vector<Original> originals_;  // in their original order
  std::unordered_map<TensorSlot, std::size_t, TensorSlotHash> slots_;
  std::unordered_set<TensorSlot, TensorSlotHash> used_;
  // by key: how many of its tensors have not been seen whole
  std::unordered_map<std::string_view, std::size_t> unseen_;
  // originals by their spec; built when the first part occurs
  std::unordered_multimap<const SaveSpec*, std::size_t> of_spec_;
  // where a tensor is that TensorFlow mistakes for another
  std::optional<TensorSlot> exchanged_;
  std::string last_device_;
  Task last_task_;
};

}  // namespace

void validate_shards(std::span<const Shard> shards, std::span<const ShardableTensor> tensors,
                     std::string_view callback_description) {
  Validation validation(tensors, callback_description);
  for (const Shard& shard : shards) validation.add(shard);
  validation.finish();
}

}  // namespace cairn::inline v0
