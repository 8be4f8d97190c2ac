// save.cc -- saves a tree as a checkpoint: collects the leaves into an item, writes the item to a
// pending directory, and moves the directory into place.
#include <cairn/orbax/save/save.h>

#include <cairn/base/executor.h>
#include <cairn/io/file.h>
#include <cairn/orbax.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/save/checkpoint_transaction.h>
#include <cairn/orbax/save/commit.h>
#include <cairn/orbax/save/finalize.h>
#include <cairn/orbax/save/item_writer.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <complex>
#include <cstring>
#include <deque>
#include <type_traits>

namespace cairn::inline v0 {
namespace orbax {
namespace {

// Orbax's names for the handlers of such items.
constexpr const char* kHandler =
    "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler";
constexpr const char* kV1Handler =
    "orbax.checkpoint.experimental.v1._src.handlers.pytree_handler.PyTreeHandler";

std::int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

const SaveOptions& checked(const SaveOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(Code::kInvalidArgument, what); };
  if (options.item && (options.item->empty() || options.item->find('/') != std::string::npos ||
                       *options.item == "." || *options.item == ".."))
    refuse("'" + *options.item + "' cannot be the name of an item: it becomes a folder");
  if (options.item && options.item->find(kTemporaryMark) != std::string::npos)
    refuse("the item's name '" + *options.item + "' is that of something unfinished");
  if (options.v1 && !options.item)
    refuse(
        "version 1 of Orbax's API keeps a tree as an item: name it ('state' is what it looks for)");
  if (options.chunk_bytes && *options.chunk_bytes <= 0)
    refuse("chunks of " + std::to_string(*options.chunk_bytes) + " bytes");
  if (options.target_file_bytes < 0)
    refuse("data files of " + std::to_string(options.target_file_bytes) + " bytes");
  if (!options.custom_metadata.empty())
    with_context([] { return "the custom metadata"; },
                 [&] {
                   if (parse_json(options.custom_metadata).is_null()) refuse("is null");
                 });
  return options;
}

CheckpointMetadata new_metadata(const std::string& custom_metadata) {
  CheckpointMetadata metadata;
  metadata.init_time_ns = now_ns();
  if (custom_metadata.empty()) return metadata;
  metadata.custom_metadata = with_context([] { return "the checkpoint's custom metadata"; },
                                          [&] { return parse_json(custom_metadata); });
  if (metadata.custom_metadata.as_object() == nullptr)
    throw Error(Code::kInvalidArgument, "the checkpoint's custom metadata is " +
                                            std::string(metadata.custom_metadata.type_text()) +
                                            "; it must be a JSON object");
  return metadata;
}

}  // namespace

PendingCheckpoint::PendingCheckpoint(const std::string& path, const SaveOptions& options,
                                     const std::string& custom_metadata)
    : options_(checked(options)),
      metadata_(new_metadata(custom_metadata)),
      pending_(path, options.if_exists, options.durability),
      folder_(options.item ? join(pending_.path(), *options.item) : pending_.path()) {
  make_directories(folder_, Durability::kDeferredSync);
}

void PendingCheckpoint::share() {
  pending_.leave_if_not_committed();
  write_pending_file(pending_.path(), kCheckpointMetadataFile, checkpoint_metadata_text(metadata_));
}

void PendingCheckpoint::commit() {
  const std::string committed = "Checkpoint commit was successful to ";
  if (options_.item && !options_.v1) write_pending_file(folder_, kCommitFile, committed + folder_);
  if (options_.v1) write_pending_file(pending_.path(), kV1Marker, "");
  metadata_.item_handlers = {{options_.item.value_or(""), options_.v1 ? kV1Handler : kHandler}};
  metadata_.commit_time_ns = now_ns();
  write_pending_file(pending_.path(), kCheckpointMetadataFile, checkpoint_metadata_text(metadata_));
  write_pending_file(pending_.path(), kCommitFile, committed + pending_.target());
  pending_.commit();
}

void save_item(const std::string& path, const SaveItem& item, const SaveOptions& options,
               const MultiprocessingOptions& job) {
  const distributed::ProcessGroup group(job);
  CheckpointTransaction transaction(path, options, "", group);
  try {
    const Workers workers(options.resources.threads);
    write_pytree_item(transaction.folder(), item, options, workers.executor(), group);
    transaction.commit([&] {
      if (group.is_single()) return;
      check_array_metadatas(transaction.folder(), {}, group.count());
      merge_process_databases(transaction.folder(), false);
    });
  } catch (...) {
    transaction.give_up();
    throw;
  }
}

namespace {

// The leaves of a tree. Numbers are copied to memory that this class owns.
class Leaves {
 public:
  explicit Leaves(const Tree& tree) {
    for (TreeEntry& entry : flatten(tree, DictOrder::kSorted)) {
      SaveLeaf& leaf = item_.leaves.emplace_back();
      leaf.path = std::move(entry.path);
      std::visit([&](const auto& value) { set(leaf, value); }, entry.value.value());
      arrays_.push_back(std::move(entry.value));
    }
  }
  [[nodiscard]] SaveItem& item() { return item_; }

 private:
  void set(SaveLeaf& leaf, EmptyNode node) { leaf.kind = empty_node_name(node); }
  void set(SaveLeaf& leaf, Placeholder /*value*/) { leaf.kind = "placeholder"; }
  void set(SaveLeaf& leaf, bool value) { set_number(leaf, DType::kBool, value); }
  void set(SaveLeaf& leaf, std::int64_t value) { set_number(leaf, DType::kInt64, value); }
  void set(SaveLeaf& leaf, std::uint64_t value) { set_number(leaf, DType::kUint64, value); }
  void set(SaveLeaf& leaf, double value) { set_number(leaf, DType::kFloat64, value); }
  void set(SaveLeaf& leaf, const std::complex<double>& /*value*/) {
    refuse(leaf, "a complex number without a dtype");
  }
  void set(SaveLeaf& leaf, const NumpyScalar& value) {
    set_number(leaf, value.dtype, value.value);
    if (value.dtype == DType::kOpaque) refuse(leaf, "a number of no known type");
  }
  void set(SaveLeaf& leaf, const Bytes& /*value*/) { refuse(leaf, "bytes"); }
  void set(SaveLeaf& leaf, const CustomLeaf& /*value*/) {
    refuse(leaf, "a value of a type that Orbax's own handlers do not know");
  }
  void set(SaveLeaf& leaf, const std::string& value) {
    leaf.kind = "string";
    leaf.text = value;
  }
  void set(SaveLeaf& leaf, const Array& array) {
    leaf.kind = "np.ndarray";
    leaf.dtype = leaf.source_dtype = array.dtype();
    leaf.shape = array.shape();
    leaf.data = array.bytes().data();
    if (leaf.dtype == DType::kOpaque) refuse(leaf, "an array of uninterpreted elements");
    // An array of size zero has no data pointer. Set one, because null means that the elements must
    // be fetched.
    if (leaf.data == nullptr) leaf.data = numbers_.emplace_back().data();
  }
  // flatten() turns empty containers into empty nodes and descends into all others.
  void set(SaveLeaf&, const Tree::List&) {}
  void set(SaveLeaf&, const Tree::Dict&) {}
  void set(SaveLeaf&, const Tree::Tuple&) {}
  void set(SaveLeaf&, const Tree::NamedTuple&) {}

  [[noreturn]] static void refuse(const SaveLeaf& leaf, const std::string& what) {
    throw Error(Code::kInvalidArgument, param_name(leaf.path) + ": " + what +
                                            " cannot be saved as an array, a scalar or a string");
  }

  template <class T>
  void set_number(SaveLeaf& leaf, DType dtype, const T& value) {
    auto& bytes = numbers_.emplace_back();
    std::memcpy(bytes.data(), &value, sizeof(value));
    leaf.kind = "scalar";
    leaf.dtype = leaf.source_dtype = dtype;
    leaf.data = bytes.data();
  }

  SaveItem item_;
  std::vector<Tree> arrays_;  // keeps the data of the leaves alive
  std::deque<std::array<std::byte, 16>> numbers_;
};

}  // namespace
}  // namespace orbax

void save_orbax(const std::string& path, const Tree& tree, const SaveOptions& options) {
  orbax::Leaves leaves(tree);
  leaves.item().custom_metadata = options.custom_metadata;
  orbax::save_item(path, leaves.item(), options);
}

}  // namespace cairn::inline v0
