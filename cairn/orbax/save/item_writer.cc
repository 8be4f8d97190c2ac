// item_writer.cc -- plans an item, checks that all processes agree on the plan, and writes it.
#include <cairn/orbax/save/item_writer.h>

#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/kvstore.h>
#include <cairn/ocdbt/write/database_sink.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/save/commit.h>
#include <cairn/orbax/save/consistency.h>
#include <cairn/orbax/save/database_options.h>
#include <cairn/tree/tree_metadata.h>

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_set>
#include <utility>

namespace cairn::inline v0::orbax {
namespace {

using distributed::ProcessGroup;
using distributed::StepKind;

const Shape& piece_shape(const SaveLeaf& leaf) {
  return leaf.write_shape.empty() ? leaf.shape : leaf.write_shape;
}

bool is_shared(const SaveLeaf& leaf) { return leaf.kind == "jax.Array"; }

handlers::ArrayWriteOptions array_options(const SaveOptions& options, Executor& executor,
                                          WorkShare share) {
  handlers::ArrayWriteOptions out;
  out.zarr_format = options.use_zarr3 ? 3 : 2;
  out.compression = options.compression;
  out.chunk_bytes = options.chunk_bytes;
  if (options.use_ocdbt) out.file_bytes = options.target_file_bytes;
  out.memory = options.resources.memory;
  out.executor = &executor;
  out.progress = options.progress;
  out.share = share;
  return out;
}

// The texts of the strings, shardings and tree metadata. They are built before the first byte is
// written, because building them may fail.
struct Sidecars {
  std::string tree, strings, shardings;
};

Sidecars make_beside(const SaveItem& item, const SaveOptions& options) {
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
  Sidecars beside;
  beside.tree = tree_metadata_text(tree);
  if (!strings.empty()) beside.strings = strings_text(strings);
  if (!shardings.empty()) beside.shardings = shardings_text(shardings);
  return beside;
}

// Writes each value to a file of its own and records the file names. On some file systems only the
// process that wrote a file can make it durable.
class RecordingSink : public StoreSink {
 public:
  using StoreSink::StoreSink;
  void write(std::string_view key, std::span<const ByteView> pieces) override {
    StoreSink::write(key, pieces);
    const std::lock_guard lock(mutex_);
    keys_.emplace_back(key);
  }
  void sync(const std::string& folder) {
    std::vector<std::string> files;
    std::set<std::string> folders;
    for (const std::string& key : keys_) {
      files.push_back(join(folder, key));
      folders.insert(files.back().substr(0, files.back().rfind('/')));
    }
    sync_some(folder, std::move(files), {folders.begin(), folders.end()});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> keys_;
};

class ItemWriting {
 public:
  ItemWriting(std::string folder, const SaveItem& item, const SaveOptions& options,
              Executor& executor, const ProcessGroup& group)
      : folder_(std::move(folder)),
        item_(item),
        options_(options),
        executor_(executor),
        group_(group) {}

  void run() {
    SaveConsistencyCheck consistency;
    const auto messages = group_.gather("save: plan", StepKind::kControl, [&] {
      plan();
      if (!group_.is_single() && !group_.writes_separately()) note_arrays(consistency);
      return consistency.message();
    });
    consistency.check(messages, group_);
    // The metadata of a folder is written before any process writes values to it.
    if (in_common_files())
      group_.step("save: array metadata", StepKind::kControl, [&] { write_common_metadata(); });
    group_.step("save: write", StepKind::kIo, [&] { write(); });
  }

 private:
  // A database or folder, and the arrays that are written to it.
  struct Destination {
    std::string folder;
    std::vector<handlers::ArrayToWrite> planned;
    std::vector<std::size_t> leaves;  // parallel to planned
    std::unique_ptr<handlers::ArrayWriter> writer;
  };
  // The destination of a leaf's array.
  struct Place {
    std::size_t leaf = 0;
    std::size_t destination = 0;
    std::size_t array = 0;
    std::string name;
  };

  [[nodiscard]] bool in_common_files() const { return !options_.use_ocdbt && !group_.is_single(); }
  [[nodiscard]] const handlers::ArrayWriter& writer_of(const Place& place) const {
    return *destinations_[place.destination].writer;
  }

  void plan() {
    // For many small arrays, building the tree's metadata takes as long as planning the arrays, so
    // both run in parallel.
    const auto when = executor_.threads() > 1 ? std::launch::async | std::launch::deferred
                                              : std::launch::deferred;
    auto described = std::async(
        when, [&] { return group_.is_primary() ? make_beside(item_, options_) : Sidecars(); });
    place_arrays();
    const WorkShare share = item_.dealt ? WorkShare{group_.index(), group_.count()} : WorkShare{};
    for (Destination& to : destinations_)
      to.writer = std::make_unique<handlers::ArrayWriter>(
          std::move(to.planned), array_options(options_, executor_, share));
    beside_ = described.get();
  }

  void place_arrays() {
    const bool own = options_.use_ocdbt && !group_.is_single();
    const std::string process =
        std::string(kProcessPrefix) + (own ? std::to_string(group_.index()) : "");
    destinations_.resize(2);
    destinations_[0].folder = own ? join(folder_, process) : folder_;
    destinations_[1].folder =
        join(folder_, std::string(kProcessPrefix) + "replica_" + std::to_string(group_.index()));
    destinations_[0].planned.reserve(item_.leaves.size());
    std::unordered_set<std::string> names;
    for (std::size_t i = 0; i < item_.leaves.size(); ++i) {
      const SaveLeaf& leaf = item_.leaves[i];
      if (!leaf.is_array() && leaf.kind != "string") continue;
      std::string name = param_name(leaf.path);
      if (!names.insert(name).second)
        throw Error(Code::kInvalidArgument, "two leaves have the parameter name '" + name +
                                                "', so one would replace the other");
      if (!leaf.is_array() || (!group_.is_primary() && !is_shared(leaf) && !item_.dealt)) continue;
      const std::size_t number = own && leaf.in_replica_folder ? 1 : 0;
      Destination& to = destinations_[number];
      places_.push_back({i, number, to.leaves.size(), name});
      to.leaves.push_back(i);
      to.planned.push_back({.name = std::move(name),
                            .dtype = leaf.dtype,
                            .source_dtype = leaf.source_dtype,
                            .shape = leaf.shape,
                            .piece = piece_shape(leaf),
                            .data = leaf.data,
                            .chunk_bytes = leaf.chunk_bytes,
                            .shard_axes = leaf.shard_axes,
                            .write_chunk_shape = leaf.write_chunk_shape,
                            .read_chunk_shape = leaf.read_chunk_shape,
                            .metadata_key = leaf.metadata_key,
                            .priority = leaf.priority,
                            .parts = leaf.parts ? &*leaf.parts : nullptr});
    }
  }

  void note_arrays(SaveConsistencyCheck& consistency) const {
    for (const Place& place : places_) {
      const SaveLeaf& leaf = item_.leaves[place.leaf];
      if (!is_shared(leaf) && !item_.dealt) continue;
      std::string description = "in pieces of " + shape_text(piece_shape(leaf)) + " as " +
                                writer_of(place).metadata_text(place.array);
      if (!leaf.random_key_impl.empty()) description += ", a PRNG key of " + leaf.random_key_impl;
      if (leaf.in_replica_folder) description += ", in the replicas' database";
      if (item_.dealt)
        consistency.add(place.name, std::move(description), {}, {}, {}, false);
      else if (leaf.parts)
        consistency.add(place.name, std::move(description), leaf.shape, piece_shape(leaf),
                        *leaf.parts, group_.is_primary());
    }
  }

  void write_common_metadata() {
    if (!group_.is_primary()) return;
    RecordingSink sink(files_in(folder_));
    destinations_[0].writer->write_metadata(sink);
    if (is_durable()) sink.sync(folder_);
  }

  void write() {
    for (Destination& to : destinations_) write_arrays(to);
    write_array_metadatas();
    if (!beside_.shardings.empty()) write_pending_file(folder_, kShardingFile, beside_.shardings);
    if (!beside_.strings.empty()) write_pending_file(folder_, kStringsFile, beside_.strings);
    if (item_.values_written) item_.values_written();
    if (group_.is_primary()) write_pending_file(folder_, kTreeMetadataFile, beside_.tree);
  }

  void write_arrays(Destination& to) {
    const bool with_metadata = group_.is_primary() && !in_common_files() && !to.leaves.empty();
    // A tree of strings and empty nodes has no database.
    if (!with_metadata && !to.writer->has_values()) return;
    const handlers::FetchBoxesFn fetch = [&](std::span<ReadRequest> requests) {
      fetch_boxes(to, requests);
    };
    const auto write_to = [&](ValueSink& sink) {
      if (with_metadata) to.writer->write_metadata(sink);
      to.writer->write_values(sink, fetch);
    };
    if (options_.use_ocdbt) {
      const auto data_file_bytes = static_cast<std::uint64_t>(options_.target_file_bytes);
      ocdbt::DatabaseSink sink(files_in(to.folder), database_options(data_file_bytes));
      write_to(sink);
      sink.commit();
      if (!group_.is_single() && is_durable()) sync_tree(to.folder);
    } else if (group_.is_single()) {
      StoreSink sink(files_in(to.folder));
      write_to(sink);
    } else {
      RecordingSink sink(files_in(to.folder));
      write_to(sink);
      if (is_durable()) sink.sync(to.folder);
    }
  }

  void fetch_boxes(const Destination& to, std::span<ReadRequest> requests) const {
    for (ReadRequest& request : requests) request.tensor = to.leaves[request.tensor];
    const auto copied = [&](const ReadRequest& request) {
      return static_cast<bool>(item_.leaves[request.tensor].copy);
    };
    const auto rest = std::stable_partition(requests.begin(), requests.end(), copied);
    for (auto at = requests.begin(); at != rest; ++at)
      item_.leaves[at->tensor].copy(at->box, at->out);
    if (rest != requests.end()) item_.fetch({rest, requests.end()});
  }

  void write_array_metadatas() const {
    std::vector<StoredArrayMetadata> described;
    for (const Place& place : places_) {
      const SaveLeaf& leaf = item_.leaves[place.leaf];
      if (is_shared(leaf))
        described.push_back({place.name, piece_shape(leaf),
                             writer_of(place).read_chunk_shape(place.array), leaf.random_key_impl});
    }
    if (described.empty()) return;
    const std::string folder = join(folder_, kArrayMetadataFolder);
    const std::string name = std::string(kArrayMetadataPrefix) + std::to_string(group_.index());
    make_directories(folder, Durability::kDeferredSync);
    write_pending_file(folder, name, array_metadatas_text(described));
    if (!group_.is_single() && is_durable()) sync_some(folder, {join(folder, name)}, {folder});
  }

  [[nodiscard]] bool is_durable() const { return options_.durability != Durability::kUnsynced; }
  [[nodiscard]] StorePtr files_in(const std::string& folder) const {
    return open_file_store(folder, options_.durability == Durability::kSynced
                                       ? Durability::kDeferredSync
                                       : options_.durability);
  }

  std::string folder_;
  const SaveItem& item_;
  const SaveOptions& options_;
  Executor& executor_;
  const ProcessGroup& group_;
  std::vector<Destination> destinations_;
  std::vector<Place> places_;  // in the order of the leaves
  Sidecars beside_;
};

}  // namespace

LeafMetadata leaf_metadata(const SaveLeaf& leaf) {
  LeafMetadata entry;
  entry.path = leaf.path;
  entry.value_type = leaf.kind;
  entry.skip_deserialize = is_empty_node_type(leaf.kind);
  if (leaf.kind == "jax.Array") entry.write_shape = piece_shape(leaf);
  return entry;
}

void write_pytree_item(const std::string& folder, const SaveItem& item, const SaveOptions& options,
                       Executor& executor, const ProcessGroup& group) {
  ItemWriting(folder, item, options, executor, group).run();
}

}  // namespace cairn::inline v0::orbax
