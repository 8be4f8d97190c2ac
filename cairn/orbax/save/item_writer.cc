// item_writer.cc -- plans an item, checks that all processes agree on the plan, and writes it.
#include <cairn/orbax/save/item_writer.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/cancellation.h>
#include <cairn/base/errors.h>
#include <cairn/base/observer/observe.h>
#include <cairn/base/text.h>
#include <cairn/handlers/incompressible.h>
#include <cairn/io/directory.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/file_system.h>
#include <cairn/ocdbt/write/database_sink.h>
#include <cairn/orbax/commit/pending_directory.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/save/array_names.h>
#include <cairn/orbax/save/consistency.h>
#include <cairn/orbax/save/database_options.h>
#include <cairn/storage/kvstore.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

using distributed::ProcessGroup;
using distributed::StepKind;

using handlers::piece_shape;

// Values of this many bytes get data files of their own where later saves may share them. For
// smaller ones, opening and syncing a file costs more than writing them again.
constexpr std::uint64_t kOwnFile = std::uint64_t{4} << 20U;

// The rate that a save to the folder can expect before it has stored anything: that of a local
// disk, or for a store or files of another machine that of a network.
zarr::StoreExpectation expectation_of(const OutputFolder& folder) {
  constexpr double kNetwork = 1e8;
  if (folder.is_local() && !file_system_of(folder.path()).is_remote) return {};
  return {.rate = kNetwork, .is_ceiling = true};
}

// The share of the memory that values on their way to a store may take. A local folder needs none:
// 0.
std::uint64_t upload_memory(const OutputFolder& folder, const SaveOptions& options) {
  constexpr std::uint64_t kShare = 4;
  return folder.is_local() ? 0 : std::max<std::uint64_t>(options.resources.memory / kShare, 1);
}

handlers::ArrayWriteOptions array_options(const SaveOptions& options, const SaveItem& item,
                                          Executor& executor, WorkShare share,
                                          SavedFingerprints* fingerprints,
                                          zarr::CompressionChoice* choice) {
  handlers::ArrayWriteOptions out;
  out.zarr_format = options.use_zarr3 ? 3 : 2;
  out.compression = options.compression;
  out.choice = choice;
  out.chunk_bytes = options.chunk_bytes;
  if (options.use_ocdbt) out.file_bytes = options.target_file_bytes;
  out.memory = options.resources.memory;
  out.copies = item.copies;
  out.executor = &executor;
  out.progress = item.progress;
  out.share = share;
  out.fingerprints = fingerprints;
  return out;
}

// The texts of the strings, shardings and tree metadata. They are built before the first byte is
// written, because building them may fail.
struct Sidecars {
  std::string tree, shardings;
  std::map<std::string, std::string> strings;  // by file name
};

Sidecars make_sidecars(SaveItem& item, const SaveOptions& options) {
  item.tree.use_ocdbt = options.use_ocdbt;
  item.tree.use_zarr3 = options.use_zarr3;
  item.tree.store_array_data_equal_to_fill_value = true;
  std::vector<std::pair<std::string, std::string>> shardings;
  for (const StoreArray& array : item.arrays)
    if (!array.sharding.empty()) shardings.emplace_back(array.name, array.sharding);
  Sidecars sidecars;
  sidecars.tree = tree_metadata_text(item.tree);
  std::map<std::string, std::vector<std::pair<std::string_view, std::string_view>>> by_file;
  for (const SaveString& string : item.strings)
    by_file[string.file.empty() ? std::string(kStringsFile) : string.file].emplace_back(
        string.name, string.text);
  for (const auto& [file, strings] : by_file) sidecars.strings[file] = strings_text(strings);
  if (!shardings.empty()) sidecars.shardings = shardings_text(shardings);
  return sidecars;
}

// Writes each value to a file of its own and records the file names. On some file systems only the
// process that wrote a file can make it durable.
class RecordingSink : public StoreSink {
 public:
  using StoreSink::StoreSink;
  void write(std::string_view key, std::span<const ByteView> pieces) override {
    StoreSink::write(key, pieces);
    add(key);
  }
  // Records a file that is there already.
  void add(std::string_view key) {
    const std::lock_guard lock(mutex_);
    keys_.emplace_back(key);
  }
  void sync(const std::string& folder, SyncedFiles* synced = nullptr) {
    std::vector<std::string> files;
    std::set<std::string> folders;
    for (const std::string& key : keys_) {
      files.push_back(join(folder, key));
      folders.insert(parent_of(files.back()));
    }
    sync_some(folder, std::move(files), {folders.begin(), folders.end()}, synced);
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> keys_;
};

class ItemWriting {
 public:
  ItemWriting(OutputFolder folder, SaveItem item, const SaveOptions& options, Executor& executor,
              const ProcessGroup& group)
      : folder_(std::move(folder)),
        item_(std::move(item)),
        options_(options),
        executor_(executor),
        group_(group),
        earlier_(folder_.is_local() ? item_.reuse.from : "",
                 {folder_.path(), options.use_ocdbt, options.resources.threads}) {
    if (!folder_.is_local()) reuse_nothing();
    if (options_.compression.method == Compression::kAuto)
      choice_.emplace(executor_.threads(), expectation_of(folder_));
  }

  WrittenItem run() {
    sample();
    SaveConsistencyCheck consistency;
    const auto messages = gather_plans([&] {
      plan();
      if (writes_with_others()) note_arrays(consistency);
      return consistency.message();
    });
    consistency.check(messages, group_);
    report_chunks();
    // The metadata of a folder is written before any process writes values to it.
    if (in_common_files())
      group_.step("save: array metadata", StepKind::kControl, [&] { write_common_metadata(); });
    group_.step("save: write", StepKind::kIo, [&] { write(); });
    return {stored_bytes_, choice_ ? choice_->report() : CompressionReport()};
  }

 private:
  // A database or folder, and the arrays that are written to it.
  struct Destination {
    explicit Destination(OutputFolder to) : folder(std::move(to)) {}
    OutputFolder folder;
    std::vector<std::size_t> arrays;                       // positions in the item
    std::unique_ptr<SavedFingerprints> fingerprints = {};  // null: nothing is remembered
    std::unique_ptr<handlers::ArrayWriter> writer = {};
  };
  // The destination of an array.
  struct Place {
    std::size_t array = 0;  // position in the item
    std::size_t destination = 0;
    std::size_t number = 0;  // position in the destination
  };

  // Saves share files by hard links, which stores lack. A database cannot refer to data files of
  // another step, either: its references lead downwards only.
  void reuse_nothing() {
    item_.reuse.known = nullptr;
    item_.reuse.for_later = false;
    if (item_.reuse.from.empty()) return;
    observe(item_.reuse.observer, EventLevel::kWarning, "save.not_reused",
            {{"path", folder_.path()},
             {"from", item_.reuse.from},
             {"message", "an object store has no hard links, so all values are written"}});
  }
  [[nodiscard]] bool writes_with_others() const {
    return !group_.is_single() && !group_.writes_separately();
  }
  [[nodiscard]] bool in_common_files() const { return !options_.use_ocdbt && !group_.is_single(); }
  [[nodiscard]] const handlers::ArrayWriter& writer_of(const Place& place) const {
    return *destinations_[place.destination].writer;
  }
  [[nodiscard]] const StoreArray& array_of(const Place& place) const {
    return item_.arrays[place.array];
  }

  // A step "save: plan". The format decides how many of them there are, so all processes meet in
  // the first one, whatever their formats are, and compare these there.
  std::vector<Bytes> gather_plans(const std::function<Bytes()>& work) const {
    auto messages = group_.gather("save: plan", StepKind::kControl, [&] {
      return std::move(ByteWriter().u8(options_.use_ocdbt).u8(options_.use_zarr3).bytes(work()))
          .take();
    });
    check_formats(messages);
    for (Bytes& message : messages) message.erase(message.begin(), message.begin() + 2);
    return messages;
  }

  void check_formats(const std::vector<Bytes>& messages) const {
    const auto format = [&](std::size_t process) {
      ByteReader in(messages[process]);
      const bool use_ocdbt = in.u8() != 0;
      return format_text(use_ocdbt, in.u8() != 0);
    };
    const std::size_t first = group_.primary();
    for (std::size_t p = 0; p < messages.size(); ++p)
      if (format(p) != format(first))
        invalid_argument("the processes do not save in the same way: process " + std::to_string(p) +
                         " makes " + format(p) + ", process " + std::to_string(first) + " makes " +
                         format(first));
  }

  // Finds the arrays that are stored as they are. In processes that write to one checkpoint, the
  // metadata must be equal.
  void sample() {
    if (!options_.use_zarr3) return;
    if (!writes_with_others()) return sample_here();
    const auto messages = gather_plans([&] {
      sample_here();
      return handlers::sampled_message(item_.arrays, sampled_);
    });
    handlers::merge_sampled(item_.arrays, messages, sampled_);
  }
  void sample_here() {
    // A process with another compression overrules the samples of the others. Its metadata then
    // differ from theirs, which the plan refuses.
    sampled_.assign(item_.arrays.size(), handlers::Sampled::kShrinks);
    if (!handlers::stores_incompressible_raw(3, options_.compression)) return;
    sampled_ = handlers::sample_arrays(item_.arrays, executor_);
    keep_earlier_codecs(earlier_, item_.arrays, sampled_);
  }

  void plan() {
    // For many small arrays, building the tree's metadata takes as long as planning the arrays, so
    // both run in parallel.
    const auto when = executor_.threads() > 1 ? std::launch::async | std::launch::deferred
                                              : std::launch::deferred;
    auto described = std::async(
        when, [&] { return group_.is_primary() ? make_sidecars(item_, options_) : Sidecars(); });
    check_array_names(item_, options_.use_ocdbt);
    place_arrays();
    if (item_.progress != nullptr) item_.progress->total -= item_.expected_bytes;
    const WorkShare share = item_.dealt ? WorkShare{group_.index(), group_.count()} : WorkShare{};
    for (Destination& to : destinations_) {
      std::vector<const StoreArray*> arrays;
      std::vector<bool> is_raw;
      for (const std::size_t array : to.arrays) {
        arrays.push_back(&item_.arrays[array]);
        if (!sampled_.empty())
          is_raw.push_back(sampled_[array] == handlers::Sampled::kIncompressible);
      }
      if (item_.reuse.known)
        to.fingerprints = std::make_unique<SavedFingerprints>(*item_.reuse.known);
      handlers::ArrayWriteOptions options = array_options(
          options_, item_, executor_, share, to.fingerprints.get(), choice_ ? &*choice_ : nullptr);
      options.is_raw = std::move(is_raw);
      options.upload_memory = upload_memory(folder_, options_);
      to.writer = std::make_unique<handlers::ArrayWriter>(std::move(arrays), std::move(options));
    }
    if (!options_.use_ocdbt)
      check_array_folders(item_, destinations_[0].arrays, *destinations_[0].writer);
    sidecars_ = described.get();
  }

  // Tells of each array whose pieces are stored in several chunks.
  void report_chunks() const {
    if (!options_.observer) return;
    for (const Place& place : places_) {
      const StoreArray& array = array_of(place);
      const Shape& chunk = writer_of(place).chunk_shape(place.number);
      if (chunk == piece_shape(array)) continue;
      const std::string shape = shape_text(array.shape), piece = shape_text(piece_shape(array)),
                        chosen = shape_text(chunk);
      observe(options_.observer, EventLevel::kInfo, "save.chunk_shape_chosen",
              {{"leaf", array.name},
               {"shape", shape},
               {"write_shape", piece},
               {"chunk_shape", chosen}});
    }
  }

  void place_arrays() {
    const bool own = options_.use_ocdbt && !group_.is_single();
    const std::string prefix(kProcessPrefix), index = std::to_string(group_.index());
    destinations_.clear();
    destinations_.emplace_back(own ? folder_.child(prefix + index) : folder_);
    destinations_.emplace_back(folder_.child(prefix + "replica_" + index));
    for (std::size_t i = 0; i < item_.arrays.size(); ++i) {
      const StoreArray& array = item_.arrays[i];
      if (!group_.is_primary() && !array.device_array && !item_.dealt) continue;
      const std::size_t number = own && array.in_replica_folder ? 1 : 0;
      Destination& to = destinations_[number];
      places_.push_back({i, number, to.arrays.size()});
      to.arrays.push_back(i);
    }
  }

  void note_arrays(SaveConsistencyCheck& consistency) const {
    for (const Place& place : places_) {
      const StoreArray& array = array_of(place);
      if (!array.device_array && !item_.dealt) continue;
      std::string description = "in pieces of " + shape_text(piece_shape(array)) + " as " +
                                writer_of(place).metadata_text(place.number);
      if (!array.random_key_impl.empty()) description += ", a PRNG key of " + array.random_key_impl;
      if (array.in_replica_folder) description += ", in the replicas' database";
      if (item_.dealt || element_count(array.shape) == 0)
        consistency.add(array.name, std::move(description), {}, {}, {}, false);
      else if (array.parts)
        consistency.add(array.name, std::move(description), array.shape, piece_shape(array),
                        *array.parts, group_.is_primary());
    }
  }

  void write_common_metadata() {
    if (!group_.is_primary()) return;
    RecordingSink sink(files_in(folder_), upload_memory(folder_, options_));
    destinations_[0].writer->write_metadata(sink);
    if (is_durable()) sink.sync(folder_.path());
  }

  void write() {
    // Each file of a store waits for an answer, so those that need no order go together.
    std::future<void> described;
    if (!folder_.is_local())
      described = std::async(std::launch::async | std::launch::deferred,
                             [this, cancellation = current_cancellation()] {
                               const CancellationScope scope(cancellation);
                               write_descriptions();
                             });
    for (Destination& to : destinations_) write_arrays(to);
    if (described.valid())
      described.get();
    else
      write_descriptions();
    if (item_.values_written) item_.values_written();
    if (group_.is_primary()) write_tree_metadata();
  }

  // Writes the small files that do not tell whether the item is complete.
  void write_descriptions() const {
    std::vector<std::function<void()>> files;
    files.emplace_back([this] { write_array_metadatas(); });
    if (!sidecars_.shardings.empty())
      files.emplace_back([this] { folder_.write(kShardingFile, sidecars_.shardings); });
    for (const auto& [file, text] : sidecars_.strings)
      files.emplace_back([this, &file = file, &text = text] { folder_.write(file, text); });
    write_each(folder_, executor_, files.size(), [&](std::size_t i) { files[i](); });
  }

  void write_tree_metadata() {
    const Stopwatch watch;
    folder_.write(kTreeMetadataFile, sidecars_.tree);
    observe(options_.observer, EventLevel::kDebug, "save.metadata_written",
            {{"path", folder_.path()}}, watch.elapsed());
  }

  void write_arrays(Destination& to) {
    const bool with_metadata = group_.is_primary() && !in_common_files() && !to.arrays.empty();
    // A tree of strings and empty nodes has no database.
    if (!with_metadata && !to.writer->has_values()) return;
    const handlers::FetchBoxesFn fetch = [&](std::span<ReadRequest> requests) {
      for (ReadRequest& request : requests) request.tensor = to.arrays[request.tensor];
      item_.fetch(requests);
    };
    const ItemTarget target{to.folder.path(), options_.use_ocdbt};
    std::unique_ptr<SharedValues> shared;
    const auto write_to = [&](ValueSink& sink) {
      if (with_metadata) to.writer->write_metadata(sink);
      CountingSink counting(sink);
      shared = share_values(earlier_, to.folder.path(), item_.reuse.observer,
                            {*to.writer, counting, fetch});
      to.writer->write_values(counting, fetch);
      stored_bytes_ += counting.bytes();
    };
    if (options_.use_ocdbt) {
      const auto data_file_bytes = static_cast<std::uint64_t>(options_.target_file_bytes);
      ocdbt::WriterOptions database = database_options(options_.resources.threads, data_file_bytes);
      if (item_.reuse.for_later) database.own_file_bytes = kOwnFile;
      database.upload_memory = upload_memory(folder_, options_);
      ocdbt::DatabaseSink sink(files_in(to.folder), std::move(database));
      write_to(sink);
      if (shared) shared->add_to(sink);
      sink.commit();
      remember(to, target);
      if (!group_.is_single() && is_durable()) sync_tree(to.folder.path(), synced_files());
    } else if (group_.is_single()) {
      StoreSink sink(files_in(to.folder), upload_memory(folder_, options_));
      write_to(sink);
      remember(to, target);
    } else {
      RecordingSink sink(files_in(to.folder), upload_memory(folder_, options_));
      write_to(sink);
      remember(to, target);
      if (shared)
        for (const std::string& key : shared->keys()) sink.add(key);
      if (is_durable()) sink.sync(to.folder.path(), synced_files());
    }
  }

  // The state of a file that is synced must be the one that is remembered.
  static void remember(Destination& to, const ItemTarget& target) {
    if (to.fingerprints) remember_values(*to.fingerprints, target);
  }
  [[nodiscard]] SyncedFiles* synced_files() const {
    return item_.reuse.known ? &item_.reuse.known->files() : nullptr;
  }

  void write_array_metadatas() const {
    std::vector<StoredArrayMetadata> described;
    for (const Place& place : places_) {
      const StoreArray& array = array_of(place);
      if (array.device_array && !array.is_unrecorded)
        described.push_back({array.name, piece_shape(array),
                             writer_of(place).read_chunk_shape(place.number),
                             array.random_key_impl});
    }
    if (described.empty()) return;
    const OutputFolder folder = folder_.child(kArrayMetadataFolder);
    const std::string name = std::string(kArrayMetadataPrefix) + std::to_string(group_.index());
    folder.make();
    folder.write(name, array_metadatas_text(described));
    if (!group_.is_single() && is_durable())
      sync_some(folder.path(), {join(folder.path(), name)}, {folder.path()});
  }

  // Whether this process syncs what it has written. A store has nothing to sync.
  [[nodiscard]] bool is_durable() const {
    return folder_.is_local() && options_.durability != Durability::kUnsynced;
  }
  [[nodiscard]] StorePtr files_in(const OutputFolder& folder) const {
    return folder.files(options_.durability == Durability::kSynced ? Durability::kDeferredSync
                                                                   : options_.durability);
  }

  OutputFolder folder_;
  SaveItem item_;
  const SaveOptions& options_;
  Executor& executor_;
  const ProcessGroup& group_;
  EarlierItem earlier_;
  std::vector<Destination> destinations_;
  std::vector<Place> places_;               // in the order of the arrays
  std::vector<handlers::Sampled> sampled_;  // parallel to item_.arrays; empty: not sampled
  Sidecars sidecars_;
  std::uint64_t stored_bytes_ = 0;
  std::optional<zarr::CompressionChoice> choice_;  // none: the compression does not depend on time
};

}  // namespace

std::string format_text(bool use_ocdbt, bool use_zarr3) {
  return std::string(use_ocdbt ? "an OCDBT database" : "a folder for each array") + ", Zarr v" +
         (use_zarr3 ? "3" : "2");
}

LeafMetadata leaf_metadata(KeyPath path, std::string kind) {
  const bool is_empty = is_empty_node_type(kind);
  return {.path = std::move(path),
          .value_type = std::move(kind),
          .skip_deserialize = is_empty,
          .write_shape = {}};
}

std::uint64_t stored_bytes(const SaveItem& item) {
  std::uint64_t bytes = 0;
  const auto add = [&](const Shape& shape, DType dtype) {
    std::uint64_t size = dtype_size(dtype);
    for (const std::int64_t extent : shape) size *= static_cast<std::uint64_t>(extent);
    bytes += size;
  };
  for (const StoreArray& array : item.arrays) {
    if (!array.parts) {
      add(array.shape, array.dtype);
      continue;
    }
    for (const StorePart& part : *array.parts) add(part.box.shape, array.dtype);
  }
  return bytes;
}

bool is_array_kind(std::string_view kind) {
  return kind == "np.ndarray" || kind == "jax.Array" || kind == "scalar";
}

void link(LeafMetadata& leaf, StoreArray& array) {
  array.device_array = leaf.value_type == "jax.Array";
  if (array.device_array && !array.is_unrecorded) leaf.write_shape = piece_shape(array);
}

WrittenItem write_pytree_item(const OutputFolder& folder, SaveItem item, const SaveOptions& options,
                              Executor& executor, const ProcessGroup& group) {
  return ItemWriting(folder, std::move(item), options, executor, group).run();
}

}  // namespace cairn::inline v0::orbax
