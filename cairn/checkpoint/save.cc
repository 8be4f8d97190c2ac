// save.cc -- a tree to a checkpoint: leaves to an item, the item into a pending directory, the directory into place.
#include <cairn/base/executor.h>
#include <cairn/base/file.h>
#include <cairn/checkpoint.h>
#include <cairn/checkpoint/commit.h>
#include <cairn/checkpoint/item_writer.h>
#include <cairn/checkpoint/layout.h>
#include <cairn/checkpoint/metadata.h>
#include <cairn/checkpoint/save.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <type_traits>

namespace cairn {
namespace checkpoint {
namespace {

// What Orbax calls the handlers of items like ours.
constexpr const char* kHandler = "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler";
constexpr const char* kV1Handler = "orbax.checkpoint.experimental.v1._src.handlers.pytree_handler.PyTreeHandler";

std::int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

void write_text(const std::string& folder, std::string_view name, std::string_view text) {
  AtomicFile file(join(folder, name));
  file.append(as_bytes(text));
  file.commit(Durability::kUnsynced);
}

void check(const SaveOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(Code::kInvalidArgument, what); };
  if (options.item &&
      (options.item->empty() || options.item->find('/') != std::string::npos || *options.item == "." || *options.item == ".."))
    refuse("'" + *options.item + "' cannot be the name of an item: it becomes a folder");
  if (options.item && options.item->find(kTemporaryMark) != std::string::npos)
    refuse("the item's name '" + *options.item + "' is that of something unfinished");
  if (options.v1 && !options.item) refuse("version 1 of Orbax's API keeps a tree as an item: name it ('state' is what it looks for)");
  if (options.chunk_bytes && *options.chunk_bytes <= 0) refuse("chunks of " + std::to_string(*options.chunk_bytes) + " bytes");
  if (options.target_file_bytes < 0) refuse("data files of " + std::to_string(options.target_file_bytes) + " bytes");
  if (!options.custom_metadata.empty())
    in([] { return "the custom metadata"; },
       [&] {
         if (parse_json(options.custom_metadata).is_null()) refuse("is null");
       });
}

// Only a checkpoint, or nothing at all, gives way to a checkpoint.
void check_replaceable(const std::string& target) {
  if (!directory_exists(target)) return;
  const Listing listing = list_directory(target);
  if ((listing.files.empty() && listing.folders.empty()) || is_orbax(target)) return;
  throw Error(Code::kAlreadyExists, target + ": is a folder that is no checkpoint, so it will not be replaced");
}

}  // namespace

void save_item(const std::string& path, const SaveItem& item, const SaveOptions& options) {
  check(options);
  const bool replace = options.if_exists == IfExists::kReplace;
  if (replace) check_replaceable(path);
  PendingDirectory pending(path, replace);
  std::unique_ptr<Executor> own;
  if (options.threads != 0) own = std::make_unique<Executor>(options.threads);
  CheckpointMetadata metadata;
  metadata.init_time_ns = now_ns();
  const std::string folder = options.item ? join(pending.path(), *options.item) : pending.path();
  make_directories(folder);
  write_pytree_item(folder, item, options, own ? *own : default_executor());
  const std::string committed = "Checkpoint commit was successful to ";
  if (options.item && !options.v1) write_text(folder, kCommitFile, committed + folder);
  if (options.v1) write_text(pending.path(), kV1Marker, "");
  metadata.item_handlers = {{options.item.value_or(""), options.v1 ? kV1Handler : kHandler}};
  metadata.commit_time_ns = now_ns();
  write_text(pending.path(), kCheckpointMetadataFile, checkpoint_metadata_text(metadata));
  write_text(pending.path(), kCommitFile, committed + pending.target());
  pending.commit();
}

namespace {

// The leaves of a tree; numbers get memory of their own.
class Leaves {
 public:
  explicit Leaves(const Tree& tree) {
    for (TreeEntry& entry : flatten(tree)) {
      SaveLeaf& leaf = item_.leaves.emplace_back();
      leaf.path = std::move(entry.path);
      std::visit([&](const auto& value) { set(leaf, value); }, entry.value.value());
      arrays_.push_back(std::move(entry.value));
    }
    const auto before = [](const SaveLeaf& a, const SaveLeaf& b) { return key_path_less(a.path, b.path); };
    if (!std::is_sorted(item_.leaves.begin(), item_.leaves.end(), before))
      std::stable_sort(item_.leaves.begin(), item_.leaves.end(), before);
  }
  [[nodiscard]] SaveItem& item() { return item_; }

 private:
  void set(SaveLeaf& leaf, EmptyNode node) { leaf.kind = empty_node_name(node); }
  void set(SaveLeaf& leaf, Placeholder /*value*/) { leaf.kind = "placeholder"; }
  void set(SaveLeaf& leaf, bool value) { set_number(leaf, DType::kBool, value); }
  void set(SaveLeaf& leaf, std::int64_t value) { set_number(leaf, DType::kInt64, value); }
  void set(SaveLeaf& leaf, std::uint64_t value) { set_number(leaf, DType::kUint64, value); }
  void set(SaveLeaf& leaf, double value) { set_number(leaf, DType::kFloat64, value); }
  void set(SaveLeaf& leaf, const std::string& value) {
    leaf.kind = "string";
    leaf.text = value;
  }
  void set(SaveLeaf& leaf, const Array& array) {
    leaf.kind = "np.ndarray";
    leaf.dtype = leaf.source_dtype = array.dtype();
    leaf.shape = array.shape();
    leaf.data = array.bytes().data();
    if (leaf.dtype == DType::kOpaque)
      throw Error(Code::kInvalidArgument, param_name(leaf.path) + ": an array of uninterpreted elements cannot be saved");
    // A size of zero has no data, which is not the same as having to be fetched.
    if (leaf.data == nullptr) leaf.data = numbers_.emplace_back().data();
  }
  // flatten() turns containers without children into empty nodes and goes into the others.
  void set(SaveLeaf&, const Tree::List&) {}
  void set(SaveLeaf&, const Tree::Dict&) {}

  template <class T>
  void set_number(SaveLeaf& leaf, DType dtype, T value) {
    auto& bytes = numbers_.emplace_back();
    std::memcpy(bytes.data(), &value, sizeof(value));
    leaf.kind = "scalar";
    leaf.dtype = leaf.source_dtype = dtype;
    leaf.data = bytes.data();
  }

  SaveItem item_;
  std::vector<Tree> arrays_;  // keeps what the leaves point to
  std::deque<std::array<std::byte, 8>> numbers_;
};

}  // namespace
}  // namespace checkpoint

void save_orbax(const std::string& path, const Tree& tree, const SaveOptions& options) {
  checkpoint::Leaves leaves(tree);
  leaves.item().custom_metadata = options.custom_metadata;
  checkpoint::save_item(path, leaves.item(), options);
}

}  // namespace cairn
