// to_tensorflow.cc -- keys and types for a TensorFlow checkpoint; keeps the object graph of a
// TensorFlow source.
#include <cairn/tools/convert/to_tensorflow.h>

#include <cairn/distributed/process_group.h>
#include <cairn/tensorflow.h>
#include <cairn/tools/source/tree_name.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kIndex = ".index";

// The source's object graph, if its keys are those that will be written.
std::optional<std::size_t> graph_of(const PlannedSource& from) {
  const auto& tensors = from.source.tensors();
  const auto at = std::find_if(tensors.begin(), tensors.end(), [](const TensorInfo& tensor) {
    return tensor.typestr == "object_graph";
  });
  if (at == tensors.end() || !has_keys(from.source) || !from.plan.report.renamed.empty())
    return std::nullopt;
  return static_cast<std::size_t>(at - tensors.begin());
}

// Formats without trees have flat names: "model.layer/kernel" becomes three steps.
KeyPath steps_of(const std::string& name) {
  KeyPath path;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("./", start), name.size());
    if (end == start) return {{name, KeyType::kDict}};  // "a..b" does not denote steps
    path.push_back({name.substr(start, end - start), KeyType::kDict});
    start = end + 1;
  }
  return path;
}

std::string key_of(const PlannedSource& from, std::size_t number, const std::string& format,
                   bool plain_names) {
  const std::string& name = from.plan.targets[number].name;
  if (plain_names || format == "tensorflow") return name;
  const bool is_flat = format == "safetensors" || format == "npz" || format == "npy";
  return tensorflow_key(is_flat ? steps_of(name) : from.plan.paths[number]);
}

TensorFlowSource source_of(const PlannedSource& from, std::size_t number, const std::string& format,
                           bool plain_names) {
  const std::size_t index = from.plan.indices[number];
  const TensorInfo& tensor = from.source.tensors()[index];
  const TensorSource& target = from.plan.targets[number];
  TensorFlowSource source;
  source.key = key_of(from, number, format, plain_names);
  source.shape = tensor.shape;
  source.cut = target.cut;
  if (tensor.is_string()) {
    source.dtype = TensorType("string", 0);
    source.strings = from.source.read_strings(index);
  } else {
    source.dtype = target.dtype == DType::kOpaque
                       ? TensorType(tensor.dtype_name, tensor.element_size)
                       : TensorType(target.dtype);
  }
  return source;
}

}  // namespace

std::string tensorflow_prefix(const std::string& target) {
  return target.size() > kIndex.size() && target.ends_with(kIndex)
             ? target.substr(0, target.size() - kIndex.size())
             : target;
}

std::vector<std::string> write_as_tensorflow(const PlannedSource& from, const std::string& target,
                                             const FetchFn& fetch, const ConvertOptions& options) {
  std::vector<TensorFlowSource> sources;
  TensorFlowWriteOptions write;
  distributed::ProcessGroup(options.multiprocessing)
      .step("convert: leaves", distributed::StepKind::kControl, [&] {
        const std::string format = from.source.info().format;
        for (std::size_t i = 0; i < from.plan.indices.size(); ++i)
          sources.push_back(source_of(from, i, format, options.tensorflow.plain_names));
        if (const auto graph = graph_of(from); graph && !options.tensorflow.plain_names) {
          TensorFlowSource& source = sources.emplace_back();
          source.key = from.source.tensors()[*graph].name;
          source.dtype = TensorType("string", 0);
          source.strings = from.source.read_strings(*graph);
        }
        if (options.tensorflow.max_shard_bytes) {
          const std::uint64_t most = std::min<std::uint64_t>(
              *options.tensorflow.max_shard_bytes, std::numeric_limits<std::int64_t>::max());
          write.sharding_callback =
              std::make_shared<MaxShardSizePolicy>(static_cast<std::int64_t>(most));
        }
      });
  write.like = options.tensorflow.name_latest ? TensorFlowWriteOptions::Like::kSave
                                              : TensorFlowWriteOptions::Like::kWrite;
  write.object_graph = !options.tensorflow.plain_names;
  write.if_exists = options.if_exists;
  write.store = options.store;
  write.resources = {.threads = options.resources.threads, .memory = from.plan.memory};
  write.progress = options.progress;
  write.multiprocessing = options.multiprocessing;
  return write_tensorflow(tensorflow_prefix(target), std::move(sources), fetch, write);
}

}  // namespace cairn::inline v0
