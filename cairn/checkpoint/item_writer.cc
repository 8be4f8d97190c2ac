// item_writer.cc -- arrays to a database or to folders, and the files beside them.
#include <cairn/base/file.h>
#include <cairn/checkpoint/commit.h>
#include <cairn/checkpoint/item_writer.h>
#include <cairn/checkpoint/layout.h>
#include <cairn/checkpoint/metadata.h>
#include <cairn/kvstore.h>
#include <cairn/ocdbt/writer.h>
#include <cairn/tree/tree_metadata.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace cairn::checkpoint {
namespace {

// Values into a database: every thread that writes has a stream for itself, and with it a data file. Some streams keep any
// disk busy, and each has memory of its own; of more threads the others wait.
class DatabaseSink : public handlers::ValueSink {
 public:
  DatabaseSink(StorePtr base, ocdbt::WriterOptions options) : writer_(std::move(base), std::move(options)) {}

  void write(std::string_view key, std::span<const ByteView> pieces) override {
    const auto back = [this](ocdbt::Writer::Stream* stream) { give_back(stream); };  // also if writing fails: others may wait for it
    const std::unique_ptr<ocdbt::Writer::Stream, decltype(back)> stream(take(), back);
    stream->write(key, pieces);
  }
  void remove(std::string_view /*key*/) override {}  // in a new database there is nothing to remove
  void commit() { writer_.commit(); }

 private:
  ocdbt::Writer::Stream* take() {
    std::unique_lock lock(mutex_);
    if (idle_.empty() && streams_ < kMostStreams) {
      ++streams_;
      return &writer_.stream();
    }
    given_back_.wait(lock, [&] { return !idle_.empty(); });
    ocdbt::Writer::Stream* stream = idle_.back();
    idle_.pop_back();
    return stream;
  }
  void give_back(ocdbt::Writer::Stream* stream) {
    {
      const std::lock_guard lock(mutex_);
      idle_.push_back(stream);
    }
    given_back_.notify_one();
  }

  static constexpr std::size_t kMostStreams = 8;

  ocdbt::Writer writer_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::size_t streams_ = 0;
  std::vector<ocdbt::Writer::Stream*> idle_;
};

// Of every database that Orbax makes.
ocdbt::WriterOptions database_options(const SaveOptions& options) {
  ocdbt::WriterOptions writer;
  writer.config.emplace();
  writer.config->max_inline_value_bytes = 1024;
  writer.config->max_decoded_node_bytes = 100'000'000;
  writer.target_data_file_size = static_cast<std::uint64_t>(options.target_file_bytes);
  return writer;
}

const Shape& piece_shape(const SaveLeaf& leaf) { return leaf.write_shape.empty() ? leaf.shape : leaf.write_shape; }

// The arrays among the leaves, and where they are there.
struct Arrays {
  std::vector<handlers::ArrayToWrite> arrays;
  std::vector<std::size_t> leaves;
};

Arrays arrays_of(const SaveItem& item) {
  Arrays out;
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < item.leaves.size(); ++i) {
    const SaveLeaf& leaf = item.leaves[i];
    if (!leaf.is_array() && leaf.kind != "string") continue;
    std::string name = param_name(leaf.path);
    if (!names.insert(name).second)
      throw Error(Code::kInvalidArgument, "two leaves have the parameter name '" + name + "', so one would replace the other");
    if (!leaf.is_array()) continue;
    out.arrays.push_back({std::move(name), leaf.dtype, leaf.source_dtype, leaf.shape, piece_shape(leaf), leaf.data, leaf.chunk_bytes,
                          leaf.shard_axes, leaf.priority});
    out.leaves.push_back(i);
  }
  return out;
}

handlers::ArrayWriteOptions array_options(const SaveOptions& options, Executor& executor) {
  handlers::ArrayWriteOptions out;
  out.zarr_format = options.use_zarr3 ? 3 : 2;
  out.compression = options.compression;
  out.chunk_bytes = options.chunk_bytes;
  if (options.use_ocdbt) out.file_bytes = options.target_file_bytes;
  out.memory = options.memory;
  out.executor = &executor;
  out.progress = options.progress;
  return out;
}

void write_arrays(const std::string& folder, const SaveItem& item, const SaveOptions& options, const Arrays& arrays,
                  handlers::ArrayWriter& writer) {
  if (arrays.arrays.empty()) return;  // a tree of texts and empty nodes has no database
  const handlers::FetchBoxesFn fetch = [&](std::span<ReadRequest> requests) {
    for (ReadRequest& request : requests) request.tensor = arrays.leaves[request.tensor];
    const auto copied = [&](const ReadRequest& request) { return static_cast<bool>(item.leaves[request.tensor].copy); };
    const auto rest = std::stable_partition(requests.begin(), requests.end(), copied);
    for (auto at = requests.begin(); at != rest; ++at) item.leaves[at->tensor].copy(at->box, at->out);
    if (rest != requests.end()) item.fetch({rest, requests.end()});
  };
  const StorePtr files = open_file_store(folder, options.durability == Durability::kSynced ? Durability::kSyncedLater : options.durability);
  if (!options.use_ocdbt) {
    handlers::StoreSink sink(files);
    return writer.write(sink, fetch);
  }
  DatabaseSink sink(files, database_options(options));
  writer.write(sink, fetch);
  sink.commit();
}

// What strings, shardings and the tree's metadata say; made before the first byte is written, because they may be refused.
struct Beside {
  std::string tree, strings, shardings;
};

Beside make_beside(const SaveItem& item, const SaveOptions& options) {
  TreeMetadata tree;
  std::vector<std::pair<std::string, std::string>> strings;
  std::vector<std::pair<std::string, std::string>> shardings;
  tree.leaves.reserve(item.leaves.size());
  for (const SaveLeaf& leaf : item.leaves) {
    if (leaf.listed) tree.leaves.push_back(leaf_metadata(leaf));
    if (leaf.kind == "string") strings.emplace_back(param_name(leaf.path), leaf.text);
    if (!leaf.sharding.empty()) shardings.emplace_back(param_name(leaf.path), leaf.sharding);
  }
  tree.use_ocdbt = options.use_ocdbt;
  tree.use_zarr3 = options.use_zarr3;
  tree.store_array_data_equal_to_fill_value = true;
  tree.custom_metadata = item.custom_metadata;
  tree.rich_types = item.rich_types;
  Beside beside;
  beside.tree = tree_metadata_text(tree);
  if (!strings.empty()) beside.strings = strings_text(strings);
  if (!shardings.empty()) beside.shardings = shardings_text(shardings);
  return beside;
}

void write_array_metadatas(const std::string& folder, const SaveItem& item, const Arrays& arrays, const handlers::ArrayWriter& writer) {
  std::vector<StoredArrayMetadata> described;
  for (std::size_t i = 0; i < arrays.arrays.size(); ++i) {
    const SaveLeaf& leaf = item.leaves[arrays.leaves[i]];
    if (leaf.kind == "jax.Array")
      described.push_back({arrays.arrays[i].name, piece_shape(leaf), writer.chunk_shape(i), leaf.random_key_impl});
  }
  if (described.empty()) return;
  make_directories(join(folder, kArrayMetadataFolder), Durability::kSyncedLater);
  write_pending_file(join(folder, kArrayMetadataFolder), "process_0", array_metadatas_text(described));
}

}  // namespace

LeafMetadata leaf_metadata(const SaveLeaf& leaf) {
  LeafMetadata entry;
  entry.path = leaf.path;
  entry.value_type = leaf.kind;
  entry.skip_deserialize = is_empty_node_type(leaf.kind);
  if (leaf.kind == "jax.Array") entry.write_shape = piece_shape(leaf);
  return entry;
}

void write_pytree_item(const std::string& folder, const SaveItem& item, const SaveOptions& options, Executor& executor) {
  // For many small arrays, describing the tree takes as long as planning them.
  const auto when = executor.threads() > 1 ? std::launch::async | std::launch::deferred : std::launch::deferred;
  auto described = std::async(when, [&] { return make_beside(item, options); });
  const Arrays arrays = arrays_of(item);
  handlers::ArrayWriter writer(arrays.arrays, array_options(options, executor));
  const Beside beside = described.get();
  write_arrays(folder, item, options, arrays, writer);
  write_array_metadatas(folder, item, arrays, writer);
  if (!beside.shardings.empty()) write_pending_file(folder, kShardingFile, beside.shardings);
  if (!beside.strings.empty()) write_pending_file(folder, kStringsFile, beside.strings);
  if (item.values_written) item.values_written();
  write_pending_file(folder, kTreeMetadataFile, beside.tree);
}

}  // namespace cairn::checkpoint
