// tensorflow.cc -- binds the sharding callbacks and the writer of TensorFlow checkpoints.
//
// Between Python and here, a tensor is (key, slice spec, name of the type, bytes of an element,
// shape, device, name, (bytes of all strings, of the longest) or None), and a shard is
//   [(key, [(slice spec, number of the tensor, origin or None, shape), ...]), ...]
// A part that is not of one of the tensors has a tensor in place of the number.
#include "tensorflow.h"

#include "calls.h"
#include "gil.h"
#include "store_options.h"
#include "values/arrays.h"
#include "values/text.h"
#include "values/trees.h"

#include <cairn/error.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tensorflow.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

using Tensors = std::vector<ShardableTensor>;

std::string name_from(nb::handle text) { return nb::cast<NameText>(text).text; }

ShardableTensor tensor_from(nb::handle given, std::size_t number) {
  SaveSpec spec{.source = number,
                .name = name_from(given[6]),
                .dtype = TensorType(name_from(given[2]), nb::cast<std::uint64_t>(given[3])),
                .shape = nb::cast<Shape>(given[4]),
                .device = name_from(given[5])};
  ShardableTensor tensor{.tensor = ShardTensor(std::make_shared<const SaveSpec>(std::move(spec))),
                         .checkpoint_key = name_from(given[0]),
                         .slice_spec = name_from(given[1])};
  if (!given[7].is_none())
    tensor.string_bytes = StringBytes{.total = nb::cast<std::uint64_t>(given[7][0]),
                                      .longest = nb::cast<std::uint64_t>(given[7][1])};
  return tensor;
}

Tensors tensors_from(nb::handle given) {
  Tensors tensors;
  for (const nb::handle one : given) tensors.push_back(tensor_from(one, tensors.size()));
  return tensors;
}

nb::object described_tensor(const ShardableTensor& tensor) {
  nb::object strings = nb::none();
  if (tensor.string_bytes)
    strings = nb::make_tuple(tensor.string_bytes->total, tensor.string_bytes->longest);
  return nb::make_tuple(to_str(tensor.checkpoint_key), to_str(tensor.slice_spec),
                        to_str(tensor.dtype().name), tensor.dtype().size, tensor.shape(),
                        to_str(tensor.device()), to_str(tensor.name()), strings);
}

std::vector<Shard> shards_from(nb::handle given, std::span<const ShardableTensor> tensors) {
  std::vector<Shard> shards;
  for (const nb::handle shard : given) {
    Shard& out = shards.emplace_back();
    for (const nb::handle entry : shard) {
      TensorSlices& slices = out[name_from(entry[0])];
      for (const nb::handle part : nb::object(entry[1])) {
        ShardTensor& placed = slices[name_from(part[0])];
        if (nb::isinstance<nb::tuple>(part[1])) {
          placed = tensor_from(part[1], tensors.size()).tensor;
          continue;
        }
        const ShardTensor& whole = tensors[nb::cast<std::size_t>(part[1])].tensor;
        placed = part[2].is_none()
                     ? whole
                     : whole.slice(nb::cast<Shape>(part[2]), nb::cast<Shape>(part[3]));
      }
    }
  }
  return shards;
}

nb::list shards_to(const std::vector<Shard>& shards) {
  nb::list out;
  for (const Shard& shard : shards) {
    nb::list keys;
    for (const auto& [key, slices] : shard) {
      nb::list parts;
      for (const auto& [spec, tensor] : slices)
        parts.append(
            nb::make_tuple(to_str(spec), tensor.spec().source,
                           tensor.part() == nullptr ? nb::none() : nb::cast(tensor.part()->origin),
                           tensor.shape()));
      keys.append(nb::make_tuple(to_str(key), parts));
    }
    out.append(keys);
  }
  return out;
}

// ---- policies ----

// The shards of a policy. `warn` gets its warnings.
nb::list max_size_shards(std::int64_t max_shard_size, bool like_tensorflow, nb::handle tensors,
                         nb::handle warn) {
  const MaxShardSizePolicy policy(
      max_shard_size, {.like_tensorflow = like_tensorflow,
                       .warn = [&](const std::string& text) { call_python(warn, to_str(text)); }});
  return shards_to(policy(tensors_from(tensors)));
}

nb::list shards_by_task(nb::handle tensors) {
  return shards_to(ShardByTaskPolicy()(tensors_from(tensors)));
}

std::string policy_description(std::optional<std::int64_t> max_shard_size) {
  return max_shard_size
             ? MaxShardSizePolicy(*max_shard_size, {.like_tensorflow = true}).description()
             : ShardByTaskPolicy().description();
}

void validate_tensorflow(nb::handle shards, nb::handle tensors, const std::string& description) {
  const Tensors read = tensors_from(tensors);
  validate_shards(shards_from(shards, read), read, description);
}

// ---- saves ----

// A callback of Python: (description, function of tensors that returns shards).
class PythonCallback final : public ShardingCallback {
 public:
  PythonCallback(std::string description, nb::object function)
      : description_(std::move(description)), function_(keep_alive(std::move(function))) {}

  [[nodiscard]] std::string description() const override { return description_; }
  [[nodiscard]] std::vector<Shard> operator()(
      std::span<const ShardableTensor> tensors) const override {
    const WithGil locked;
    nb::list given;
    for (const ShardableTensor& tensor : tensors) given.append(described_tensor(tensor));
    const nb::handle function(static_cast<PyObject*>(const_cast<void*>(function_.get())));
    return shards_from(call_python(function, given), tensors);
  }

 private:
  std::string description_;
  std::shared_ptr<const void> function_;
};

// Arrays of several devices become arrays of this process.
Tree gathered_tree(const Tree& tree) {
  return map_leaves(tree, [](const KeyPath&, const Tree& leaf) {
    const auto* sharded = leaf.custom<ShardedArray>();
    return sharded == nullptr ? leaf : Tree(gather_shards(*sharded));
  });
}

// The keys and values of the leaves of a tree, in the order in which they are stored.
nb::list tensorflow_leaves(nb::handle tree) {
  nb::list out;
  for (const TreeEntry& entry : flatten(gathered_tree(tree_from(tree)))) {
    const auto* array = entry.value.array();
    out.append(nb::make_tuple(
        to_str(tensorflow_key(entry.path)),
        array == nullptr ? to_python(entry.value) : to_numpy(*array, Access::kReadOnly)));
  }
  return out;
}

// Returns the paths of the files. `callback`: (description, function), or None.
std::vector<std::string> save_tensorflow(const PathText& prefix, nb::handle tree, bool is_latest,
                                         bool object_graph, bool replace, nb::handle callback,
                                         nb::handle progress, nb::handle storage_options) {
  const Tree read = gathered_tree(tree_from(tree));
  TensorFlowWriteOptions options;
  options.like =
      is_latest ? TensorFlowWriteOptions::Like::kSave : TensorFlowWriteOptions::Like::kWrite;
  options.object_graph = object_graph;
  options.if_exists = replace ? IfExists::kReplace : IfExists::kFail;
  options.store = store_options(storage_options);
  if (!callback.is_none())
    options.sharding_callback = std::make_shared<PythonCallback>(nb::cast<std::string>(callback[0]),
                                                                 nb::object(callback[1]));
  const std::string target = prefix.place();
  std::vector<std::string> files;
  run_long(progress, [&](const CallControl& call) {
    options.progress = [&](std::uint64_t done, std::uint64_t total) {
      if (call.cancel.stop_requested()) throw Error(Code::kCancelled, "the caller asked to stop");
      call.progress(done, total);
    };
    files = write_tensorflow(target, read, options);
  });
  return files;
}

}  // namespace

void define_tensorflow(nb::module_& module) {
  module.def("tensorflow_max_size_shards", max_size_shards, nb::arg("max_shard_size"),
             nb::arg("like_tensorflow"), nb::arg("tensors"), nb::arg("warn"));
  module.def("tensorflow_shards_by_task", shards_by_task, nb::arg("tensors"));
  module.def("tensorflow_policy_description", policy_description, nb::arg("max_shard_size").none());
  module.def("tensorflow_validate_shards", validate_tensorflow, nb::arg("shards"),
             nb::arg("tensors"), nb::arg("description"));
  module.def(
      "tensorflow_slice_spec",
      [](const Shape& full_shape, const Shape& origin, const Shape& shape) {
        return slice_spec_text(full_shape, {origin, shape});
      },
      nb::arg("full_shape"), nb::arg("origin"), nb::arg("shape"));
  module.def(
      "tensorflow_read_slice_spec",
      [](const std::string& text) {
        auto [full_shape, part] = read_slice_spec(text);
        return nb::make_tuple(full_shape, part.origin, part.shape);
      },
      nb::arg("slice_spec"));
  module.def(
      "tensorflow_device_task", [](const std::string& device) { return device_task(device); },
      nb::arg("device"));
  module.def("tensorflow_leaves", tensorflow_leaves, nb::arg("tree").none());
  module.def("tensorflow_save", save_tensorflow, nb::arg("prefix"), nb::arg("tree").none(),
             nb::arg("is_latest"), nb::arg("object_graph"), nb::arg("replace"),
             nb::arg("callback").none(), nb::arg("progress").none() = nb::none(),
             nb::arg("storage_options").none() = nb::none());
}

}  // namespace cairn::python
