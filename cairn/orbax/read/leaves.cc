// leaves.cc -- makes the leaves of a pytree from what the writing version of Orbax recorded.
#include <cairn/orbax/read/leaves.h>

#include <cairn/base/byte_order.h>
#include <cairn/io/file_image.h>
#include <cairn/orbax/layout/metadata.h>
#include <cairn/orbax/read/custom_metadata.h>
#include <cairn/tree/msgpack/array_specs.h>
#include <cairn/tree/msgpack/msgpack.h>
#include <cairn/tree/msgpack/numpy_types.h>
#include <cairn/tree/name_table.h>
#include <cairn/tree/names.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cairn::inline v0::orbax {
namespace {

TensorInfo make_tensor(KeyPath path, std::string typestr, LeafKind kind) {
  TensorInfo tensor;
  tensor.kind = kind;
  tensor.name = param_name(path);
  tensor.path = std::move(path);
  tensor.typestr = std::move(typestr);
  return tensor;
}

void add_leaf(PytreeItem& out, TensorInfo tensor, LeafValue value = {}) {
  out.tensors.push_back(std::move(tensor));
  out.values.push_back(std::move(value));
}

// What `_METADATA` says of a leaf. Arrays are unknown until they are opened. A type that Cairn does
// not know is that of a custom handler, even if nothing is stored: an empty node has a known type.
LeafKind kind_of(const LeafMetadata& leaf) {
  if (leaf.value_type == "string") return LeafKind::kString;
  if (leaf.value_type == "placeholder") return LeafKind::kPlaceholder;
  const bool empty = is_empty_node_type(leaf.value_type) ||
                     (leaf.skip_deserialize && !is_custom_kind(leaf.value_type));
  return empty ? LeafKind::kEmpty : LeafKind::kUnknown;
}

std::vector<TensorInfo> make_recorded_tensors(std::vector<LeafMetadata> leaves) {
  std::vector<TensorInfo> tensors;
  tensors.reserve(leaves.size());
  for (auto& leaf : leaves) {
    const LeafKind kind = kind_of(leaf);
    tensors.push_back(make_tensor(std::move(leaf.path), std::move(leaf.value_type), kind));
    if (tensors.back().is_string()) tensors.back().dtype_name = "string";
  }
  return tensors;
}

std::string text_of(const MsgpackLeaf& leaf) {
  std::string text;
  for (const auto piece : leaf.pieces) text += as_text(piece);
  return text;
}

// Adds a leaf whose value is in the aggregate file.
void add_inside_leaf(PytreeItem& out, const MsgpackLeaf& leaf,
                     const std::shared_ptr<const void>& file) {
  TensorInfo tensor = make_tensor(leaf.path, std::string(kind_name(leaf.kind)), LeafKind::kEmpty);
  LeafValue value;
  value.is_aggregated = true;
  tensor.nbytes = leaf.nbytes();
  if (leaf.kind == MsgpackKind::kString) {
    tensor.kind = LeafKind::kString;
    tensor.dtype_name = "string";
    value.text = std::make_shared<const std::string>(text_of(leaf));
  } else if (!leaf.dtype_name.empty()) {
    tensor.kind = LeafKind::kArray;
    tensor.dtype = leaf.dtype;
    tensor.dtype_name = leaf.dtype_name;
    tensor.element_size = leaf.element_size;
    tensor.shape = leaf.shape;
    tensor.error = why_unreadable(leaf);
    if (!tensor.error.empty()) tensor.error_code = Code::kUnimplemented;
    value.inside =
        std::make_shared<const InsideValue>(InsideValue{.file = file, .pieces = leaf.pieces});
    if (leaf.pieces.empty() && tensor.nbytes > 0) {  // a native msgpack number
      const auto number = std::make_shared<const Bytes>(
          leaf.value.begin(), leaf.value.begin() + static_cast<std::ptrdiff_t>(tensor.nbytes));
      value.inside = std::make_shared<const InsideValue>(
          InsideValue{.file = number, .pieces = {*number}, .is_little_endian = !kBigEndianMachine});
    }
  }
  add_leaf(out, std::move(tensor), std::move(value));
}

bool is_stored_elsewhere(const MsgpackLeaf& leaf) {
  if (leaf.kind != MsgpackKind::kString) return false;
  const std::string text = text_of(leaf);
  return text.starts_with(kArrayPlaceholder) || text.starts_with("AGGREGATED://");
}

void note_array_folders(PytreeItem& out, std::vector<StoredElsewhere> arrays) {
  for (StoredElsewhere& array : arrays) {
    const auto [known, added] = out.array_folders.emplace(param_name(array.path), array.folder);
    if (!added && known->second != array.folder)
      throw Error(Code::kUnimplemented, leaf_text(array.path) + ": the name '" + known->first +
                                            "' belongs to two arrays, in '" + known->second +
                                            "' and '" + array.folder +
                                            "'; they cannot be told apart");
  }
}

// Returns the positions of the tensors that have the names of the leaves.
std::vector<std::optional<std::size_t>> recorded_positions(const PytreeItem& item,
                                                           std::span<const MsgpackLeaf> leaves) {
  const NameTable names(item.tensors);
  std::vector<std::optional<std::size_t>> positions;
  positions.reserve(leaves.size());
  for (const MsgpackLeaf& leaf : leaves) positions.push_back(names.find(param_name(leaf.path)));
  return positions;
}

KeyPath split_name(const std::string& name, char separator) {
  KeyPath path;
  if (name.empty()) return path;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find(separator, start), name.size());
    path.push_back({name.substr(start, end - start), KeyType::kDict});
    start = end + 1;
  }
  return path;
}

// Returns true if the names cannot form a tree: "a" is a leaf and "a.b" lies below it.
bool any_inside_another(const std::vector<std::string>& names, char separator) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    for (std::size_t at = name.find(separator); at != std::string::npos;
         at = name.find(separator, at + 1))
      if (std::binary_search(names.begin(), names.end(), name.substr(0, at))) return true;
    return !name.empty() && std::binary_search(names.begin(), names.end(), "");
  });
}

// Zarr groups nest with '/'; Orbax joins the keys of a tree with '.'.
char separator_of(const PytreeItem& out, const std::vector<std::string>& names) {
  const bool nested = std::any_of(names.begin(), names.end(), [](const auto& name) {
    return name.find('/') != std::string::npos;
  });
  const bool grouped = std::any_of(out.keys.begin(), out.keys.end(), [](const auto& entry) {
    return entry.key == ".zgroup" || entry.key == "zarr.json";
  });
  return out.storage == ArrayStorage::kFolders && (nested || grouped) ? '/' : '.';
}

}  // namespace

void read_tree_metadata(PytreeItem& out, const std::string& file, std::size_t threads) {
  constexpr std::size_t kMany = 1000;
  const Buffer text = out.item.folder->read_text(file, kMaxMetadataFile);
  std::future<std::vector<TensorInfo>> tensors;
  out.metadata = parse_tree_metadata(as_text(text), [&](std::vector<LeafMetadata> leaves) {
    out.write_shapes.clear();
    out.skipped.clear();
    for (auto& leaf : leaves) {
      out.write_shapes.push_back(std::move(leaf.write_shape));
      out.skipped.push_back(leaf.skip_deserialize);
    }
    const auto policy = threads == 1 || leaves.size() < kMany
                            ? std::launch::deferred
                            : std::launch::async | std::launch::deferred;
    tensors = std::async(policy, make_recorded_tensors, std::move(leaves));
  });
  out.tensors = tensors.get();
  out.values.resize(out.tensors.size());
  out.recorded = out.tensors.size();
}

void add_aggregate_leaves(PytreeItem& out, const File& file) {
  const auto image = std::make_shared<FileImage>(file);
  image->load_all();
  const bool recorded_tree = out.structure == Structure::kTreeMetadata;
  const MsgpackInput input{.load = {}, .stored = file.allocated(), .integer_keys = false};
  Tree parsed = parse_msgpack(image->bytes(), input);
  std::vector<StoredElsewhere> beside = take_array_specs(parsed);
  if (!recorded_tree) note_array_folders(out, std::move(beside));
  std::vector<MsgpackLeaf> leaves;
  list_msgpack_leaves(parsed, std::min<std::uint64_t>(image->bytes().size(), *input.stored),
                      [&](MsgpackLeaf leaf) { leaves.push_back(std::move(leaf)); });
  out.has_aggregated_values = std::any_of(leaves.begin(), leaves.end(), [](const auto& leaf) {
    return !is_stored_elsewhere(leaf) && !is_empty_node_type(kind_name(leaf.kind));
  });
  if (recorded_tree && !out.has_aggregated_values) return;
  const auto recorded = recorded_positions(out, leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const MsgpackLeaf& leaf = leaves[i];
    const std::optional<std::size_t> known = recorded[i];
    if (is_stored_elsewhere(leaf)) {
      if (known) continue;
      // The saved type is not recorded; arrays can always be read as host arrays.
      add_leaf(out, make_tensor(leaf.path, "np.ndarray", LeafKind::kUnknown));
      continue;
    }
    add_inside_leaf(out, leaf, image);
    if (!known) continue;
    // this path distinguishes lists from dicts
    out.tensors.back().path = out.tensors[*known].path;
    std::swap(out.tensors[*known], out.tensors.back());
    std::swap(out.values[*known], out.values.back());
    out.tensors.pop_back();
    out.values.pop_back();
  }
}

void add_named_leaves(PytreeItem& out, const std::string& metadata_key) {
  auto names = handlers::find_array_names(out.arrays, out.keys);
  if (!metadata_key.empty()) {
    std::vector<std::string> all;
    const auto more = find_custom_names(out, metadata_key);
    std::set_union(names.begin(), names.end(), more.begin(), more.end(), std::back_inserter(all));
    names = std::move(all);
  }
  const char separator = separator_of(out, names);
  const bool flat = any_inside_another(names, separator);
  for (auto& name : names) {
    TensorInfo tensor =
        make_tensor(flat ? KeyPath{{name, KeyType::kDict}} : split_name(name, separator),
                    "np.ndarray", LeafKind::kUnknown);
    tensor.name = std::move(name);
    add_leaf(out, std::move(tensor));
  }
}

}  // namespace cairn::inline v0::orbax
