// orbax_reader.cc -- opens an Orbax checkpoint of any layout and reads from it.
#include <cairn/orbax/read/orbax_reader.h>

#include <cairn/array/box.h>
#include <cairn/handlers/zarr_metadata.h>
#include <cairn/io/file.h>
#include <cairn/io/system_call.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/open.h>
#include <cairn/orbax/read/describe.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <iterator>
#include <system_error>

namespace cairn::inline v0::orbax {
namespace {

std::string names_of(const std::vector<Item>& items, bool pytrees_only) {
  std::string text;
  for (const auto& item : items)
    if (!pytrees_only || item.kind == ItemKind::kPytree)
      text += (text.empty() ? "'" : ", '") + item.name + "'";
  return text.empty() ? "none" : text;
}

// Returns the pytree items that the options select.
std::vector<Item> choose_items(const Layout& layout, const OpenOptions& options) {
  std::vector<Item> chosen;
  if (!options.item) {
    std::copy_if(layout.items.begin(), layout.items.end(), std::back_inserter(chosen),
                 [](const Item& item) { return item.kind == ItemKind::kPytree; });
    return chosen;
  }
  if (layout.kind != LayoutKind::kComposite)
    throw Error(Code::kInvalidArgument, "item '" + *options.item + "' was requested, but " +
                                            layout.path + " is a single tree without items");
  const auto it = std::find_if(layout.items.begin(), layout.items.end(),
                               [&](const Item& item) { return item.name == *options.item; });
  for (const LostPart& part : layout.lost)
    if (part.item == *options.item && (part.is_tree || it == layout.items.end()))
      throw Error(it == layout.items.end() ? Code::kNotFound : Code::kDataLoss,
                  lost_text(part) + "; nothing is left of it to read");
  if (it == layout.items.end())
    throw Error(Code::kNotFound, "no item '" + *options.item + "' in " + layout.path +
                                     "; its items are " + names_of(layout.items, false));
  if (it->kind != ItemKind::kPytree)
    throw Error(Code::kInvalidArgument,
                "item '" + *options.item + "' of " + layout.path +
                    " holds no arrays; items with arrays: " + names_of(layout.items, true));
  return {*it};
}

template <class T>
void append(std::vector<T>&& from, std::vector<T>& to) {
  if (to.empty())
    to.swap(from);
  else
    std::move(from.begin(), from.end(), std::back_inserter(to));
  from.clear();
}

void check_destination(const TensorInfo& tensor, const ReadRequest& request) {
  const auto& out = request.out;
  if (out.dtype != tensor.dtype || out.element_size != tensor.element_size)
    throw Error(Code::kInvalidArgument,
                "destination element type " + std::string(dtype_name(out.dtype)) +
                    " does not match array element type " + tensor.dtype_name);
  if (out.shape != request.box.shape || out.strides.size() != out.shape.size())
    throw Error(Code::kInvalidArgument, "destination shape " + shape_text(out.shape) +
                                            " does not match box shape " +
                                            shape_text(request.box.shape));
  check_inside(request.box, tensor.shape);
}

// Throws if the caller requests a version and no item has a database. Ignoring the request would
// return a version that was not requested.
void require_versions(const std::string& path, const std::vector<PytreeItem>& items) {
  const auto has = [](const PytreeItem& item) { return item.storage == ArrayStorage::kOcdbt; };
  if (std::any_of(items.begin(), items.end(), has)) return;
  throw Error(Code::kInvalidArgument, "a version was requested, but " + path +
                                          " has no OCDBT database; only databases have versions");
}

// The chosen items, and those of them that cannot be opened.
struct Opened {
  std::vector<PytreeItem> items;
  std::vector<LostItem> lost;
};

// One damaged item does not hide the others. An item that another process has replaced is not
// damaged, and a version that does not exist is an invalid request.
Opened open_items(const Layout& layout, const OpenOptions& options) {
  Opened out;
  for (const auto& item : choose_items(layout, options)) {
    auto opened = try_call([&] { return open_pytree_item(item, layout.kind, options); });
    if (opened) {
      out.items.push_back(std::move(opened).value());
      continue;
    }
    const Code code = opened.error().code();
    const bool no_version = code == Code::kNotFound || code == Code::kInvalidArgument;
    if (code == Code::kUnavailable || (no_version && is_version(options.version)))
      throw Error(opened.error());
    out.lost.push_back({item, opened.error()});
  }
  if (is_version(options.version) && out.lost.empty()) require_versions(layout.path, out.items);
  return out;
}

// The trees that the checkpoint records, whether they are there or not.
std::size_t count_trees(const Layout& layout, std::size_t opened) {
  return opened +
         static_cast<std::size_t>(std::ranges::count(layout.lost, true, &LostPart::is_tree));
}

// Throws if the checkpoint lacks something that it records, and nothing else is there.
void check_something_left(const Layout& layout, const Opened& opened) {
  const auto is_left = [&](const Item& item) {
    return item.kind == ItemKind::kOther &&
           std::ranges::find(layout.lost, item.name, &LostPart::item) == layout.lost.end();
  };
  const auto lacks_all = [](const PytreeItem& item) {
    return item.lacks_structure && item.tensors.empty();
  };
  if (layout.kind == LayoutKind::kZarr || !opened.lost.empty() ||
      !std::ranges::all_of(opened.items, lacks_all) || std::ranges::any_of(layout.items, is_left))
    return;
  std::string parts;
  for (const LostPart& part : layout.lost)
    parts.append(parts.empty() ? "" : "; ").append(lost_text(part));
  if (parts.empty() && opened.items.empty()) return;  // not a tree, by its own records
  if (parts.empty()) parts = join(opened.items[0].item.path, kTreeMetadataFile) + " is missing";
  throw Error(Code::kDataLoss, parts + "; nothing is left to read");
}

// Opens the items, unless others replace or remove the checkpoint meanwhile.
Opened open_items_in_use(const Layout& layout, const OpenOptions& options) {
  Opened opened = in_folder(layout.folder.get(), [&] { return open_items(layout, options); });
  layout.folder->check_still_in_use();
  return opened;
}

std::unique_ptr<Checkpoint> make_checkpoint(Layout layout, Opened opened,
                                            const OpenOptions& options) {
  return std::make_unique<OrbaxCheckpoint>(std::move(layout), std::move(opened.items), options,
                                           std::move(opened.lost));
}

}  // namespace

OrbaxCheckpoint::OrbaxCheckpoint(Layout layout, std::vector<PytreeItem> items,
                                 const OpenOptions& options, std::vector<LostItem> lost)
    : layout_(std::move(layout)),
      items_(std::move(items)),
      lost_(std::move(lost)),
      whole_(!options.item),
      workers_(options.resources.threads),
      memory_(options.resources.memory) {
  info_ = describe_checkpoint(layout_, items_, options);
  // The names of leaves do not change because another item is missing.
  const std::size_t opened = items_.size() + lost_.size();
  const bool has_items = (whole_ ? count_trees(layout_, opened) : opened) > 1;
  std::vector<TensorInfo> leaves;
  for (auto& item : items_) {
    if (has_items)
      for (auto& tensor : item.tensors) tensor.item = item.item.name;
    leaf_counts_.push_back(item.tensors.size());
    missing_.insert(missing_.end(), item.tensors.size(), item.missing);
    append(std::move(item.tensors), leaves);
    append(std::move(item.stored), stored_);
    append(std::move(item.values), values_);
  }
  for (const LostItem& item : lost_) leaves.push_back(add_lost_item(item));
  tensors_ = TensorList(std::move(leaves));
}

TensorInfo OrbaxCheckpoint::add_lost_item(const LostItem& lost) {
  TensorInfo leaf;
  leaf.kind = LeafKind::kUnknown;
  leaf.item = lost.item.name;
  leaf.error = "the item cannot be opened: " + lost.error.message();
  leaf.error_code = lost.error.code();
  info_.facts.emplace_back(lost.item.name + ": UNREADABLE", lost.error.message());
  stored_.emplace_back();
  values_.emplace_back();
  missing_.push_back(zarr::MissingChunk::kError);
  return leaf;
}

const TensorInfo& OrbaxCheckpoint::tensor(std::size_t index) const {
  if (index < tensors_.size()) return tensors_[index];
  throw Error(Code::kOutOfRange, "tensor index " + std::to_string(index) +
                                     " is out of range: there are " +
                                     std::to_string(tensors_.size()) + " tensors");
}

std::string OrbaxCheckpoint::label(std::size_t index) const { return tensors_[index].full_name(); }

handlers::WorkLimits OrbaxCheckpoint::limits() const {
  return {&workers_.executor(), memory_, &streams_};
}

void OrbaxCheckpoint::read_inside(const ReadRequest& request) const {
  const Array array = inside_array(*values_[request.tensor].inside, tensors_[request.tensor]);
  copy_elements(subview(array.view(), request.box), request.out);
}

void OrbaxCheckpoint::check_not_replaced() const {
  for (const auto& item : items_) item.item.folder->check_not_replaced();
}

// Runs f, which reads from the items. If an item has been replaced in the meantime, missing data
// and other errors are not damage.
template <class F>
auto OrbaxCheckpoint::guarded(F f) const {
  try {
    return f();
  } catch (const Error& e) {
    if (e.code() != Code::kUnavailable)
      for (const auto& item : items_) orbax::check_not_replaced(item);
    throw;
  }
}

void OrbaxCheckpoint::read(std::span<const ReadRequest> requests,
                           const ProgressFn& progress) const {
  std::vector<zarr::BoxRead> reads;
  reads.reserve(requests.size());
  std::deque<std::string> labels;  // used where a name alone does not identify the tensor
  for (const auto& request : requests) {
    const TensorInfo& t = tensor(request.tensor);
    if (!t.error.empty())
      throw Error(t.is_custom() ? Code::kUnimplemented : Code::kDataLoss,
                  label(request.tensor) + ": " + t.error);
    if (!t.is_array())
      throw Error(Code::kInvalidArgument,
                  "'" + label(request.tensor) + "' is not an array (kind: " + t.typestr + ")");
    with_context([&] { return label(request.tensor); }, [&] { check_destination(t, request); });
    if (values_[request.tensor].inside)
      read_inside(request);
    else
      reads.push_back({&*stored_[request.tensor], &request.box, &request.out,
                       t.item ? labels.emplace_back(label(request.tensor)) : t.name,
                       missing_[request.tensor]});
  }
  guarded([&] { handlers::read_arrays(reads, limits(), progress); });
  check_not_replaced();
}

std::string OrbaxCheckpoint::read_string(std::size_t index) const {
  const TensorInfo& t = tensor(index);
  if (!t.error.empty() && t.typestr == "string")
    throw Error(Code::kDataLoss, label(index) + ": " + t.error);
  if (t.is_string() && !t.shape.empty())
    throw Error(Code::kInvalidArgument,
                "'" + label(index) + "' is an array of strings of shape " + shape_text(t.shape));
  if (t.is_string() && stored_[index]) return std::move(read_strings(index).front());
  if (!values_[index].text)
    throw Error(Code::kInvalidArgument,
                "'" + label(index) + "' is not a string (kind: " + t.typestr + ")");
  return *values_[index].text;
}

std::vector<std::string> OrbaxCheckpoint::read_strings(std::size_t index) const {
  if (!tensor(index).is_string() || !stored_[index]) return {read_string(index)};
  auto strings = guarded([&] {
    return with_context(
        [&] { return label(index); },
        [&] { return handlers::read_strings(*stored_[index], missing_[index], memory_); });
  });
  check_not_replaced();
  return strings;
}

std::optional<Array> OrbaxCheckpoint::try_view(std::size_t index) const {
  const TensorInfo& t = tensor(index);
  if (!t.error.empty())
    throw Error(t.is_custom() ? Code::kUnimplemented : Code::kDataLoss,
                label(index) + ": " + t.error);
  if (!stored_[index] || t.is_string()) return std::nullopt;
  auto view = guarded([&] {
    return with_context([&] { return label(index); }, [&] { return stored_[index]->try_view(); });
  });
  check_not_replaced();
  return view;
}

std::string OrbaxCheckpoint::random_key_impl(std::size_t index) const {
  std::size_t first = 0;
  for (std::size_t i = 0; i < items_.size(); first += leaf_counts_[i++]) {
    if (index >= first + leaf_counts_[i]) continue;
    const auto it = items_[i].random_keys.find(tensors_[index].name);
    return it == items_[i].random_keys.end() ? "" : it->second;
  }
  return "";
}

std::optional<ZarrMetadata> OrbaxCheckpoint::zarr_metadata(std::size_t index) const {
  (void)tensor(index);  // throws if there is none
  return stored_[index] ? handlers::describe_zarr(stored_[index]->metadata()) : std::nullopt;
}

std::unique_ptr<Checkpoint> open_layout_to_verify(Layout layout, const OpenOptions& options) {
  Opened opened = open_items_in_use(layout, options);
  return make_checkpoint(std::move(layout), std::move(opened), options);
}

namespace {

Opened open_readable_items(const Layout& layout, const OpenOptions& options) {
  Opened opened = open_items_in_use(layout, options);
  if (opened.items.empty() && !opened.lost.empty()) throw Error(opened.lost.front().error);
  return opened;
}

}  // namespace

std::unique_ptr<Checkpoint> open_layout(Layout layout, const OpenOptions& options) {
  Opened opened = open_readable_items(layout, options);
  check_something_left(layout, opened);
  return make_checkpoint(std::move(layout), std::move(opened), options);
}

std::unique_ptr<Checkpoint> open_remains(Layout layout, const OpenOptions& options) {
  Opened opened = open_readable_items(layout, options);
  return make_checkpoint(std::move(layout), std::move(opened), options);
}

}  // namespace cairn::inline v0::orbax

namespace cairn::inline v0 {

bool is_orbax(const std::string& path, const StoreOptions& store) {
  if (!is_store_url(path) && !directory_exists(path)) return false;
  OpenOptions options;
  options.allow_uncommitted = true;
  options.store = store;
  const auto layout = try_call([&] { return orbax::try_find_layout(path, options); });
  // A folder that cannot be listed could be any kind.
  if (!layout.ok() && layout.error().code() == Code::kIo) throw Error(layout.error());
  // A root is also Orbax's if all its steps are incomplete, or if none can be selected.
  if (layout.ok()) return layout.value().has_value();
  return layout.error().code() == Code::kFailedPrecondition;
}

bool is_ocdbt_checkpoint(const std::string& path, const StoreOptions& store) {
  if (path.find('\0') != std::string::npos) return false;
  if (is_store_url(path)) {
    const std::string url = normal_path(path);
    const auto folder = try_call([&] { return open_folder(url, store); });
    if (!folder.ok() && folder.error().code() == Code::kNotFound) return false;
    return folder.value()->exists(orbax::join(url, orbax::kManifestFile));
  }
  const auto manifest = std::filesystem::path(path) / orbax::kManifestFile;
  std::error_code why;
  const bool is_there = std::filesystem::exists(manifest, why);
  if (why) fail_file_call(manifest.string(), "look it up", why.value(), Code::kIo);
  return is_there;
}

std::unique_ptr<Checkpoint> open_orbax(const std::string& path, const OpenOptions& options) {
  return orbax::open_remains(orbax::find_layout(path, options), options);
}

}  // namespace cairn::inline v0
