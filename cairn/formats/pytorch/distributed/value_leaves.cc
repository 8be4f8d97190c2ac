#include <cairn/formats/pytorch/distributed/value_leaves.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/distributed/encoded_archive.h>
#include <cairn/formats/pytorch/tensors/place.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

// Memory for the leaves of all objects, in bytes; and what each byte that is stored of them adds.
constexpr std::uint64_t kObjectMemory = std::uint64_t{256} << 20U;
constexpr std::uint64_t kMostObjectMemory = std::uint64_t{2} << 30U;
constexpr std::uint64_t kObjectMemoryPerByte = 4;
constexpr std::uint64_t kLeastObjectMemory = std::uint64_t{64} << 10U;
constexpr std::uint64_t kStepMemory = 96;  // bytes of a step of a path, without its text
// Bytes that all objects may decode to.
constexpr std::uint64_t kDecodedObjects = std::uint64_t{1} << 30U;
constexpr std::uint64_t kDecodedObjectsPerByte = 16;
// Entries are not shared. A reader reads each as often as it is named.
constexpr std::uint64_t kMostOfFiles = 4;

RawLeaf new_leaf(const KeyPath& path, std::string typestr) {
  RawLeaf leaf;
  leaf.info.path = path;
  leaf.info.name = param_name(path);
  leaf.info.typestr = std::move(typestr);
  return leaf;
}

// A quantised tensor in one chunk as an object: a dict of its parts, which only its pickle knows.
std::optional<SavedValue> quantised_whole(const SavedValue& value) {
  const bool is_quantised = value.element && (value.element->name.starts_with("qint") ||
                                              value.element->name.starts_with("quint"));
  if (!is_quantised || value.chunks.size() != 1 || !value.chunks[0].entry ||
      value.chunks[0].box != Box::whole(value.shape))
    return std::nullopt;
  SavedValue whole = value;
  whole.entry = value.chunks[0].entry;
  return whole;
}

// Throws data_loss unless the parts are of the tensor that the metadata describes.
void check_parts(const SavedValue& value, const State& state) {
  if (!value.element) return;
  const auto is_integers = [](const StateLeaf& leaf) {
    const KeyPath& path = leaf.leaf.info.path;
    return path.size() == 1 && path[0].text == "int_repr";
  };
  const auto found = std::ranges::find_if(state.leaves, is_integers);
  if (found == state.leaves.end())
    throw Error(Code::kUnimplemented, "its chunk is not a quantised tensor");
  const TensorInfo& integers = found->leaf.info;
  if (integers.dtype != value.element->dtype || integers.shape != value.shape)
    data_loss(fmt::format("its chunk has {}{}, the metadata says torch.{}{}", integers.dtype_name,
                          shape_text(integers.shape), value.element->name,
                          shape_text(value.shape)));
}

// Whether the chunks are too few. Those that overlap are counted twice.
bool has_hole(const SavedValue& value) {
  const auto elements = [](const Shape& shape) {
    double count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<double>(extent);
    return count;
  };
  double found = 0;
  for (const SavedChunk& chunk : value.chunks)
    if (chunk.entry) found += elements(chunk.box.shape);
  return !value.element_name.empty() && found < elements(value.shape);
}

// The shape of the chunks, if all but those at the end have it.
void set_chunk_shape(TensorInfo& info, const std::vector<Box>& boxes) {
  if (boxes.empty() || info.shape.empty()) return;
  const Box& first = boxes.front();
  const bool is_grid = std::ranges::all_of(boxes, [&](const Box& box) {
    for (std::size_t d = 0; d < box.rank(); ++d)
      if (box.shape[d] > first.shape[d]) return false;
    return true;
  });
  if (is_grid && !first.empty()) info.chunk_shape = first.shape;
}

void add_new(const std::vector<std::string>& from, std::vector<std::string>& to) {
  for (const std::string& name : from)
    if (std::ranges::find(to, name) == to.end()) to.push_back(name);
}

// Only the first few: every entry may have other ones.
void add_transforms(const Transforms& from, std::vector<std::string>& to) {
  constexpr std::size_t kListedTransforms = 10;
  if (to.size() < kListedTransforms) add_new(from, to);
}

std::string below(const KeyPath& path, const std::string& name) {
  return name.empty() ? param_name(path) : param_name(path) + "." + name;
}

// Shows the item of a list of one in place of the list.
void open_list(pickle::Pickle& pickle) {
  const pickle::Value root = pickle.root();
  if (pickle.kind(root) == pickle::Kind::kList && pickle.items(root).size() == 1)
    pickle.set_root(pickle.items(root)[0]);
}

}  // namespace

ValueLeaves::ValueLeaves(const std::string& folder, const DataFiles& files,
                         const DistributedMetadata& metadata, LeafOptions options)
    : folder_(folder),
      files_(files),
      options_(options),
      bytes_left_(kMostOfFiles * files.size()),
      decoded_left_(kDecodedObjects + kDecodedObjectsPerByte * files.size()) {
  std::uint64_t of_objects = 0;
  for (const SavedValue& value : metadata.values)
    if (value.entry) of_objects += std::min(value.entry->length, kMostObjectMemory);
  memory_ = std::min(kObjectMemory + kObjectMemoryPerByte * std::min(of_objects, files.size()),
                     kMostObjectMemory);
}

bool ValueLeaves::is_left_out(const SavedValue& value) const {
  if (options_.allow_missing && options_.lacks_ranks && has_hole(value)) return true;
  const auto is_lost = [&](const std::optional<Entry>& entry) {
    return entry && !files_.is_there(entry->file);
  };
  return options_.allow_missing &&
         (is_lost(value.entry) || std::ranges::any_of(value.chunks, [&](const SavedChunk& chunk) {
            return is_lost(chunk.entry);
          }));
}

Tree ValueLeaves::add(const SavedValue& value, const KeyPath& path) {
  if (value.element_name.empty()) return add_object(value, path);
  if (const auto whole = quantised_whole(value)) {
    ++chunks;
    return add_object(*whole, path);
  }
  return add_leaf(tensor_leaf(value, path));
}

Tree ValueLeaves::add_none(const KeyPath& path) {
  RawLeaf leaf = new_leaf(path, "None");
  leaf.info.kind = LeafKind::kEmpty;
  return add_leaf(std::move(leaf));
}

Tree ValueLeaves::add_leaf(RawLeaf leaf) {
  contents.add(std::move(leaf));
  return Tree(static_cast<std::int64_t>(contents.tensors().size() - 1));
}

void ValueLeaves::note(const std::string& name, Code code, std::string message) {
  contents.notes.push_back({.severity = severity_of(code),
                            .tensor = name,
                            .file = folder_,
                            .message = std::move(message)});
}

Tree ValueLeaves::add_lost(const KeyPath& path, const Error& why) {
  RawLeaf leaf = new_leaf(path, "np.ndarray");
  set_lost(leaf, why);
  return add_leaf(std::move(leaf));
}

void ValueLeaves::set_lost(RawLeaf& leaf, const Error& why) {
  note(leaf.info.name, why.code(), why.message());
  leaf.info.kind = LeafKind::kUnknown;
  leaf.info.error = why.message();
  leaf.info.error_code = why.code();
  leaf.slices.emplace();
}

void ValueLeaves::check(const Entry& entry) {
  files_.check(entry);
  if (entry.length > bytes_left_) data_loss("the metadata names the same bytes again and again");
  bytes_left_ -= entry.length;
}

RawLeaf ValueLeaves::tensor_leaf(const SavedValue& value, const KeyPath& path) {
  RawLeaf leaf = new_leaf(path, "np.ndarray");
  leaf.info.shape = value.shape;
  leaf.slices.emplace();
  chunks += value.chunks.size();
  if (!value.element) {
    leaf.info.dtype_name = value.element_name;
    leaf.unreadable =
        fmt::format("its elements are {}, a type that Cairn does not know", value.element_name);
    note(leaf.info.name, Code::kUnimplemented, leaf.unreadable);
    return leaf;
  }
  leaf.info.dtype = value.element->dtype;
  leaf.info.dtype_name = value.element->dtype == DType::kOpaque
                             ? std::string(value.element->name)
                             : std::string(dtype_name(value.element->dtype));
  leaf.info.element_size = value.element->size;
  const auto filled = try_call([&] { return fill(leaf, value), true; });
  if (!filled) set_lost(leaf, filled.error());
  return leaf;
}

void ValueLeaves::fill(RawLeaf& leaf, const SavedValue& value) {
  TorchTensor whole;
  whole.element = *value.element;
  whole.shape = value.shape;
  leaf.info.nbytes = memory_of(whole);
  if (value.element->dtype == DType::kOpaque)
    leaf.unreadable = fmt::format("its elements are torch.{}, a type that Cairn does not have",
                                  value.element->name);
  std::vector<const SavedChunk*> stored;
  std::vector<Box> boxes;
  for (const SavedChunk& chunk : value.chunks) {
    if (!chunk.entry) continue;
    check(*chunk.entry);
    leaf.info.stored_nbytes += chunk.entry->length;
    add_transforms(chunk.entry->transforms, transforms);
    stored.push_back(&chunk);
    boxes.push_back(chunk.box);
  }
  set_chunk_shape(leaf.info, boxes);
  const Coverage coverage = cover(boxes, steps_);
  note_gaps(leaf.info, value, coverage.elements);
  for (const ChunkPart& part : coverage.parts)
    leaf.slices->push_back({.array = {},
                            .box = part.box,
                            .deferred = chunk_array(value, *stored[part.chunk], part.box)});
  for (const ChunkPart& part : coverage.doubles)
    add_double(leaf.info, value, *stored[part.chunk], part.box);
}

std::shared_ptr<const ChunkArray> ValueLeaves::chunk_array(const SavedValue& value,
                                                           const SavedChunk& chunk,
                                                           const Box& part) const {
  Box inside = part;
  for (std::size_t d = 0; d < inside.rank(); ++d) inside.origin[d] -= chunk.box.origin[d];
  return std::make_shared<ChunkArray>(files_.placed(*chunk.entry), *value.element, chunk.box.shape,
                                      std::move(inside), pool_);
}

void ValueLeaves::note_gaps(const TensorInfo& info, const SavedValue& value, std::int64_t covered) {
  const std::int64_t all = element_count(value.shape);
  if (covered == all) return;
  note(info.name, Code::kDataLoss,
       fmt::format("its chunks hold {} of its {} elements", covered, all));
}

void ValueLeaves::add_double(const TensorInfo& info, const SavedValue& value,
                             const SavedChunk& chunk, const Box& part) {
  const auto array = chunk_array(value, chunk, part);
  doubles.push_back({.tensor = contents.tensors().size(), .box = part, .place = array->place()});
  RawLeaf leaf;
  leaf.info = info;
  leaf.info.shape = part.shape;
  leaf.slices.emplace().push_back({.array = {}, .box = std::nullopt, .deferred = array});
  again.add(std::move(leaf));
}

Tree ValueLeaves::add_object(const SavedValue& value, const KeyPath& path) {
  auto found = try_call([&] { return object_state(value); });
  if (!found) {
    if (found.error().code() == Code::kIo || found.error().code() == Code::kUnavailable)
      throw Error(found.error());
    return add_lost(path, found.error());
  }
  return add_state(std::move(found).value(), path);
}

Tree ValueLeaves::add_state(StateFile file, const KeyPath& path) {
  add_new(file.unsafe_globals, unsafe_globals);
  State state = std::move(file.state);
  for (auto* names : {&state.renamed, &state.escaped})
    for (std::string& name : *names) name = below(path, name);
  add_new(state.renamed, renamed);
  add_new(state.escaped, escaped);
  add_new(state.opaque, opaque);
  if (!takes_paths(path, state)) {
    memory_ = 0;
    return add_lost(
        path, Error(Code::kUnimplemented, "its path is too long for the number of its leaves"));
  }
  const auto first = static_cast<std::int64_t>(contents.tensors().size());
  for (StateLeaf& leaf : state.leaves) {
    leaf.leaf.info.path.insert(leaf.leaf.info.path.begin(), path.begin(), path.end());
    leaf.leaf.info.name = param_name(leaf.leaf.info.path);
    contents.add(std::move(leaf.leaf));
  }
  for (DictKeyTypes& types : state.key_types) {
    std::vector<std::string> dict;
    for (const Key& key : path) dict.push_back(key.text);
    types.dict.insert(types.dict.begin(), dict.begin(), dict.end());
    key_types.push_back(std::move(types));
  }
  return map_leaves(state.structure, [&](const KeyPath& /*path*/, const Tree& node) {
    const auto* index = std::get_if<std::int64_t>(&node.value());
    return index == nullptr ? node : Tree(first + *index);
  });
}

bool ValueLeaves::takes_paths(const KeyPath& path, const State& state) {
  std::uint64_t bytes = 0;
  for (const Key& key : path) bytes += kStepMemory + 3 * key.text.size();
  const std::uint64_t times = state.leaves.size() + state.key_types.size() + 1;
  if (bytes > memory_ / times) return false;
  memory_ -= bytes * times;
  return true;
}

StateFile ValueLeaves::object_state(const SavedValue& value) {
  if (!value.entry) data_loss("the metadata names no file for it");
  check(*value.entry);
  add_transforms(value.entry->transforms, transforms);
  if (memory_ < kLeastObjectMemory)
    throw Error(Code::kUnimplemented,
                "the objects of the checkpoint take more memory than Cairn spends on them");
  const File& file = files_.file(value.entry->file);
  return with_context([&] { return fmt::format("{}, byte {}", file.path(), value.entry->offset); },
                      [&] {
                        StateFile found = state_in(files_.placed(*value.entry), file);
                        check_parts(value, found.state);
                        return found;
                      });
}

StateFile ValueLeaves::state_in(const Entry& placed, const File& file) {
  const bool is_encoded = !placed.transforms.empty();
  TorchFile torch;
  if (is_encoded) {
    torch = read_encoded_archive(file, placed, decoded_left_, pool_);
  } else {
    torch = read_archive_in(file, placed.offset, placed.length);
  }
  if (options_.has_lists && !torch.program) open_list(torch.pickle);
  // The storages of an encoded archive know their places.
  return is_encoded ? read_state_in(std::move(torch), 0, 0, memory_)
                    : read_state_in(std::move(torch), placed.file, placed.offset, memory_);
}

}  // namespace cairn::inline v0::pytorch
