// tensorflow_writer.cc -- plans the sources (types, object graph, distribution over files), writes
// the bundle, and updates the folder's state file.
#include <cairn/array/box.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/bundle_files.h>
#include <cairn/formats/output/output_place.h>
#include <cairn/formats/output/write_to_place.h>
#include <cairn/formats/tensorflow/index/bundle_index.h>
#include <cairn/formats/tensorflow/index/checkpoint_state.h>
#include <cairn/formats/tensorflow/write/bundle_writer.h>
#include <cairn/formats/tensorflow/write/object_graph_build.h>
#include <cairn/tensorflow.h>

#include <algorithm>
#include <chrono>

namespace cairn::inline v0 {
namespace {

using distributed::StepKind;
using Like = TensorFlowWriteOptions::Like;

constexpr std::string_view kSaveCounter = "save_counter";
constexpr std::int32_t kTypeNumbers = 64;  // all type numbers are below this
constexpr std::int64_t kFirstSave = 1;
constexpr std::uint64_t kMostState = std::uint64_t{64} << 20U;  // bytes of a state file
constexpr int kMostTries = 20;                                  // to update it in a store

// TensorFlow's number of a type, looked up by TensorType's name.
std::int32_t number_of(const TensorType& type) {
  for (std::int32_t number = 1; number < kTypeNumbers; ++number) {
    const BundleType* known = bundle_type(number);
    if (known == nullptr || number == kBundleVariant) continue;
    if ((known->dtype ? dtype_name(*known->dtype) : known->name) == type.name) return number;
  }
  throw Error(Code::kInvalidArgument, "TensorFlow has no element type for " + type.name +
                                          "; cast it, or leave the tensor out");
}

BundleSource to_bundle(TensorFlowSource source) {
  const std::int32_t type = number_of(source.dtype);
  BundleSource out{.key = std::move(source.key),
                   .type = type,
                   .shape = std::move(source.shape),
                   .cut = source.cut};
  out.strings = std::move(source.strings);
  if (source.slice) {
    if (source.slice->origin.size() != source.slice->full_shape.size() ||
        out.shape.size() != source.slice->full_shape.size())
      throw Error(Code::kInvalidArgument, "a slice and its tensor differ in rank");
    check_inside({source.slice->origin, out.shape}, source.slice->full_shape);
    out.full_shape = std::move(source.slice->full_shape);
    out.origin = std::move(source.slice->origin);
  }
  return out;
}

TensorFlowSource string_scalar(std::string_view key, std::string value) {
  TensorFlowSource source{.key = std::string(key), .dtype = TensorType("string", 0), .shape = {}};
  source.strings.push_back(std::move(value));
  return source;
}

bool has_key(const std::vector<TensorFlowSource>& sources, std::string_view key) {
  return std::any_of(sources.begin(), sources.end(),
                     [&](const TensorFlowSource& source) { return source.key == key; });
}

// Adds the counter and the graph that the options request. Returns the index of the counter in the
// sources, if it was added.
std::optional<std::size_t> add_graph(std::vector<TensorFlowSource>& sources,
                                     const TensorFlowWriteOptions& options) {
  if (!options.object_graph || has_key(sources, kObjectGraphKey)) return std::nullopt;
  std::optional<std::size_t> counter;
  const std::string counter_key = std::string(kSaveCounter) + std::string(kVariableSuffix);
  if (options.like == Like::kSave && !has_key(sources, counter_key)) {
    counter = sources.size();
    sources.push_back({.key = counter_key, .dtype = DType::kInt64, .shape = {}});
  }
  std::vector<GraphKey> keys;
  for (const TensorFlowSource& source : sources) {
    GraphKey key{source.key, source.full_name};
    // several slices of one tensor share the key
    if (keys.empty() || keys.back().key != key.key) keys.push_back(std::move(key));
  }
  const Bytes graph = encode_object_graph(build_object_graph(keys));
  sources.push_back(string_scalar(kObjectGraphKey, std::string(as_text(graph))));
  return counter;
}

StringBytes string_bytes(const std::vector<std::string>& strings) {
  StringBytes bytes;
  for (const std::string& text : strings) {
    bytes.total += text.size();
    bytes.longest = std::max<std::uint64_t>(bytes.longest, text.size());
  }
  return bytes;
}

ShardableTensor shardable(const TensorFlowSource& source, std::size_t index) {
  SaveSpec spec{.source = index,
                .name = source.full_name,
                .dtype = source.dtype,
                .shape = source.shape,
                .device = source.device};
  if (spec.name.empty()) spec.name = source.key;
  ShardableTensor tensor{.tensor = ShardTensor(std::make_shared<const SaveSpec>(std::move(spec))),
                         .checkpoint_key = source.key,
                         .slice_spec = ""};
  if (source.slice)
    tensor.slice_spec =
        slice_spec_text(source.slice->full_shape, {source.slice->origin, source.shape});
  if (source.dtype.name == "string") tensor.string_bytes = string_bytes(source.strings);
  return tensor;
}

BundlePlan plan_files(const std::vector<TensorFlowSource>& sources,
                      const ShardingCallback& callback) {
  std::vector<ShardableTensor> tensors;
  tensors.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) tensors.push_back(shardable(sources[i], i));
  BundlePlan plan;
  for (const Shard& shard : make_shards(callback, tensors)) {
    if (shard.empty()) continue;
    auto& file = plan.emplace_back();
    for (const auto& [key, slices] : shard)
      for (const auto& [spec, tensor] : slices)
        file.push_back({tensor.spec().source,
                        tensor.part() != nullptr ? std::optional(*tensor.part()) : std::nullopt});
  }
  return plan;
}

std::string state_path(const std::string& prefix) {
  return std::string(folder_prefix(prefix)) + std::string(kCheckpointStateFile);
}

// The text of the state file in a store; nullopt if there is none.
std::optional<Bytes> stored_state(const OutputPlace& place) {
  return place.store()->read_at_most(place.key_of(state_path(place.path())), kMostState);
}

Result<CheckpointState> read_state(const OutputPlace& place) {
  const std::string path = state_path(place.path());
  if (place.is_local()) return read_checkpoint_state(FileTree(), path);
  const auto text = stored_state(place);
  if (!text) return Result<CheckpointState>(CheckpointState());
  return try_call([&] {
    return with_context([&] { return path; },
                        [&] { return parse_checkpoint_state(as_text(*text)).value(); });
  });
}

void check_prefix(const OutputPlace& place, const TensorFlowWriteOptions& options) {
  const std::string& prefix = place.path();
  check_bundle_prefix(prefix);
  if (options.like != Like::kSave) return;
  const auto state = read_state(place);
  if (!state.ok() && state.error().code() != Code::kNotFound)
    throw Error(Code::kFailedPrecondition,
                state.error().message() +
                    "; Cairn would have to overwrite it to name the latest checkpoint");
  // checks that the path can be encoded; throws otherwise
  encode_checkpoint_state(with_latest({}, std::string(name_of(prefix)), 0));
}

// Others may write the state file at the same time.
void note_latest_in_store(const OutputPlace& place, double now) {
  const std::string key = place.key_of(state_path(place.path()));
  for (int i = 0; i < kMostTries; ++i) {
    const auto text = stored_state(place);
    const auto before = text ? parse_checkpoint_state(as_text(*text)).value() : CheckpointState();
    const std::string after =
        encode_checkpoint_state(with_latest(before, std::string(name_of(place.path())), now));
    const auto expected = text ? std::optional<ByteView>(*text) : std::nullopt;
    if (place.store()->replace_if(key, expected, as_bytes(after))) return;
  }
  throw Error(Code::kUnavailable, state_path(place.path()) + ": other programs keep replacing it");
}

void note_latest(const OutputPlace& place) {
  const std::string& prefix = place.path();
  const std::string path = state_path(prefix);
  with_context(
      [&] { return prefix + ": is in place, but not named as the latest"; },
      [&] {
        const double now =
            std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
                .count();
        if (!place.is_local()) return note_latest_in_store(place, now);
        const auto before = read_checkpoint_state(FileTree(), path);
        write_checkpoint_state(path, with_latest(before.ok() ? before.value() : CheckpointState(),
                                                 std::string(name_of(prefix)), now));
      });
}

// Adds the value of the counter, which the caller's sources lack.
FetchFn with_counter(const FetchFn& fetch, const std::optional<std::size_t>& counter) {
  if (!counter) return fetch;
  return [&fetch, counter = *counter](std::span<const TensorPiece> pieces) {
    std::vector<TensorPiece> theirs;
    for (const TensorPiece& piece : pieces) {
      if (piece.tensor != counter)
        theirs.push_back(piece);
      else
        std::copy_n(reinterpret_cast<const std::byte*>(&kFirstSave) + piece.offset,
                    piece.out.size(), piece.out.data());
    }
    if (!theirs.empty()) fetch(theirs);
  };
}

}  // namespace

std::optional<std::string_view> tensorflow_dtype(DType dtype) {
  for (std::int32_t number = 1; number < kTypeNumbers; ++number)
    if (const BundleType* known = bundle_type(number); known != nullptr && known->dtype == dtype)
      return known->name;
  return std::nullopt;
}

std::string tensorflow_key(const KeyPath& path) {
  std::span<const Key> steps = path;
  const std::size_t n = path.size();
  if (n > 2 && path[n - 2].text == kAttributesStep && path[n - 1].text == kVariableAttribute)
    steps = steps.first(n - 2);
  std::string key;
  for (const Key& step : steps)
    key += (key.empty() ? "" : "/") +
           (step.text == kSlotStep ? step.text : escape_trackable(step.text));
  return key + std::string(kVariableSuffix);
}

std::vector<std::string> write_tensorflow(const std::string& prefix,
                                          std::vector<TensorFlowSource> sources,
                                          const FetchFn& fetch,
                                          const TensorFlowWriteOptions& options) {
  return write_tensorflow(OutputPlace(prefix, options.store), std::move(sources), fetch, options);
}

std::vector<std::string> write_tensorflow(const OutputPlace& place,
                                          std::vector<TensorFlowSource> sources,
                                          const FetchFn& fetch,
                                          const TensorFlowWriteOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  std::vector<BundleSource> stored;
  BundlePlan plan;
  std::optional<std::size_t> counter;
  group.step("write: plan", StepKind::kControl, [&] {
    if (group.is_primary()) check_prefix(place, options);
    for (const TensorFlowSource& source : sources)
      with_context([&] { return "tensor '" + source.key + "'"; }, [&] { number_of(source.dtype); });
    counter = add_graph(sources, options);
    if (sources.empty())
      throw Error(Code::kInvalidArgument,
                  "there is no tensor; a TensorFlow checkpoint needs at least one");
    plan = options.sharding_callback ? plan_files(sources, *options.sharding_callback)
                                     : plan_files(sources, ShardByTaskPolicy());
    for (TensorFlowSource& source : sources) {
      const std::string key = source.key;  // for messages
      stored.push_back(with_context([&] { return "tensor '" + key + "'"; },
                                    [&] { return to_bundle(std::move(source)); }));
    }
  });
  const BundleWriteOptions write{
      .if_exists = options.if_exists, .resources = options.resources, .progress = options.progress};
  std::vector<std::string> files =
      write_bundle(place, stored, plan, with_counter(fetch, counter), group, write);
  if (options.like == Like::kSave)
    group.step("write: latest", StepKind::kControl, [&] {
      if (group.is_primary()) note_latest(place);
    });
  return files;
}

}  // namespace cairn::inline v0
