// reader.cc -- opens the folder of a Distributed Checkpoint. Its metadata alone says which tensors
// there are; a chunk is opened when it is read. Objects are read at once: only their pickles say
// what they are.
#include <cairn/base/errors.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/distributed/chunk_array.h>
#include <cairn/formats/pytorch/distributed/metadata_files.h>
#include <cairn/formats/pytorch/distributed/nested_paths.h>
#include <cairn/formats/pytorch/file/opening_notes.h>
#include <cairn/formats/pytorch/file/state_file.h>
#include <cairn/formats/pytorch/tensors/place.h>
#include <cairn/formats/raw/coverage.h>
#include <cairn/formats/raw/doubled_checkpoint.h>
#include <cairn/io/tree/read_ahead.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

using pytorch::ChunkArray;
using pytorch::Entry;
using pytorch::SavedChunk;
using pytorch::SavedValue;

// Memory for the leaves of all objects, in bytes; and what each byte that is stored of them adds.
constexpr std::uint64_t kObjectMemory = std::uint64_t{256} << 20U;
constexpr std::uint64_t kMostObjectMemory = std::uint64_t{2} << 30U;
constexpr std::uint64_t kObjectMemoryPerByte = 4;
constexpr std::uint64_t kLeastObjectMemory = std::uint64_t{64} << 10U;
constexpr std::uint64_t kStepMemory = 96;  // bytes of a step of a path, without its text
// Entries are not shared. A reader reads each as often as it is named.
constexpr std::uint64_t kMostOfFiles = 4;

class DistributedCheckpoint final : public DoubledCheckpoint {
 public:
  DistributedCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents,
                        std::vector<DictKeyTypes> key_types, std::vector<DoubledPart> doubles,
                        std::unique_ptr<RawCheckpoint> again)
      : DoubledCheckpoint(options, std::move(info), std::move(contents), std::move(doubles),
                          std::move(again)),
        key_types_(std::move(key_types)) {}
  [[nodiscard]] std::vector<DictKeyTypes> key_types() const override { return key_types_; }

 private:
  std::vector<DictKeyTypes> key_types_;
};

// The files of the folder. A file that is missing leaves a gap in the numbers.
class DataFiles {
 public:
  DataFiles(const FileTree& tree, std::string folder, std::vector<std::string> names)
      : tree_(tree), folder_(std::move(folder)), names_(std::move(names)) {
    for (const std::string& name : names_) {
      auto file = tree_.try_open(path_of(name));
      numbers_.push_back(file ? std::optional(static_cast<std::uint32_t>(files_.size()))
                              : std::nullopt);
      if (file) files_.push_back(with_read_ahead(*std::move(file)));
    }
  }

  [[nodiscard]] std::string path(std::uint32_t name) const { return path_of(names_[name]); }
  [[nodiscard]] std::size_t count() const { return names_.size(); }
  [[nodiscard]] bool is_there(std::uint32_t name) const { return numbers_[name].has_value(); }
  [[nodiscard]] const File& file(std::uint32_t name) const { return files_[*numbers_[name]]; }

  // The entry with the number of its file in files().
  [[nodiscard]] Entry placed(Entry entry) const {
    entry.file = *numbers_[entry.file];
    return entry;
  }

  // Throws data_loss unless the file is there and long enough.
  void check(const Entry& entry) const {
    if (!is_there(entry.file)) data_loss(path(entry.file) + ": the file is missing");
    const std::uint64_t size = file(entry.file).size();
    if (entry.offset > size || entry.length > size - entry.offset)
      data_loss(fmt::format("{}: has {} bytes; the metadata names bytes {} to {}", path(entry.file),
                            size, entry.offset, entry.offset + entry.length));
  }

  // Of all files together, in bytes.
  [[nodiscard]] std::uint64_t size() const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 50U;
    std::uint64_t sum = 0;
    for (const File& file : files_) sum += std::min(file.size(), kMost);
    return sum;
  }
  [[nodiscard]] bool is_named(const std::string& name) const {
    return std::ranges::find(names_, name) != names_.end();
  }

  [[nodiscard]] std::vector<File> reopened() const {
    std::vector<File> files;
    for (std::uint32_t i = 0; i < names_.size(); ++i)
      if (is_there(i)) files.push_back(with_read_ahead(tree_.open(path(i))));
    return files;
  }
  [[nodiscard]] std::vector<File> take() && { return std::move(files_); }

 private:
  [[nodiscard]] std::string path_of(const std::string& name) const { return folder_ + "/" + name; }

  const FileTree& tree_;
  std::string folder_;
  std::vector<std::string> names_;
  std::vector<std::optional<std::uint32_t>> numbers_;  // parallel to names_
  std::vector<File> files_;
};

// Makes the leaves of all values.
class Leaves {
 public:
  Leaves(const std::string& folder, const DataFiles& files, const pytorch::FolderMetadata& read,
         bool allow_missing)
      : folder_(folder),
        files_(files),
        lacks_ranks_(!read.missing.empty()),
        allow_missing_(allow_missing),
        bytes_left_(kMostOfFiles * files.size()) {
    std::uint64_t of_objects = 0;
    for (const SavedValue& value : read.metadata.values)
      if (value.entry) of_objects += std::min(value.entry->length, kMostObjectMemory);
    memory_ = std::min(kObjectMemory + kObjectMemoryPerByte * std::min(of_objects, files.size()),
                       kMostObjectMemory);
  }

  // Whether the value is left out, because a file or a rank of it is missing and that is allowed.
  [[nodiscard]] bool is_left_out(const SavedValue& value) const {
    if (allow_missing_ && lacks_ranks_ && has_hole(value)) return true;
    const auto is_lost = [&](const std::optional<Entry>& entry) {
      return entry && !files_.is_there(entry->file);
    };
    return allow_missing_ &&
           (is_lost(value.entry) || std::ranges::any_of(value.chunks, [&](const SavedChunk& chunk) {
              return is_lost(chunk.entry);
            }));
  }

  // Whether the chunks are too few. Those that overlap are counted twice.
  static bool has_hole(const SavedValue& value) {
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

  Tree add(const SavedValue& value, const KeyPath& path) {
    if (value.element_name.empty()) return add_object(value, path);
    if (const auto whole = quantised_whole(value)) {
      ++chunks;
      return add_object(*whole, path);
    }
    return add_leaf(tensor_leaf(value, path));
  }

  // An item of a list that PyTorch has not stored.
  Tree add_none(const KeyPath& path) {
    RawLeaf leaf = new_leaf(path, "None");
    leaf.info.kind = LeafKind::kEmpty;
    return add_leaf(std::move(leaf));
  }

  RawCheckpoint::Contents contents;
  std::vector<DictKeyTypes> key_types;
  std::vector<std::string> opaque;
  std::vector<std::string> renamed, escaped;  // as in pytorch::State
  std::vector<std::string> unsafe_globals;    // of the pickles of objects
  std::vector<DoubledPart> doubles;
  RawCheckpoint::Contents again;  // the leaves of `doubles`
  std::size_t chunks = 0;

 private:
  static RawLeaf new_leaf(const KeyPath& path, std::string typestr) {
    RawLeaf leaf;
    leaf.info.path = path;
    leaf.info.name = param_name(path);
    leaf.info.typestr = std::move(typestr);
    return leaf;
  }

  Tree add_leaf(RawLeaf leaf) {
    contents.add(std::move(leaf));
    return Tree(static_cast<std::int64_t>(contents.tensors().size() - 1));
  }

  // For verify: what has no slices is not looked at there.
  void note(const std::string& name, Code code, std::string message) {
    contents.notes.push_back({.severity = severity_of(code),
                              .tensor = name,
                              .file = folder_,
                              .message = std::move(message)});
  }

  // A leaf that cannot be read, and why.
  Tree add_lost(const KeyPath& path, const Error& why) {
    RawLeaf leaf = new_leaf(path, "np.ndarray");
    set_lost(leaf, why);
    return add_leaf(std::move(leaf));
  }
  void set_lost(RawLeaf& leaf, const Error& why) {
    note(leaf.info.name, why.code(), why.message());
    leaf.info.kind = LeafKind::kUnknown;
    leaf.info.error = why.message();
    leaf.info.error_code = why.code();
    leaf.slices.emplace();
  }

  // Throws data_loss unless the entry is there, and if the entries are many times the files.
  void check(const Entry& entry) {
    files_.check(entry);
    if (entry.length > bytes_left_) data_loss("the metadata names the same bytes again and again");
    bytes_left_ -= entry.length;
  }

  // ---- tensors ----

  RawLeaf tensor_leaf(const SavedValue& value, const KeyPath& path) {
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

  void fill(RawLeaf& leaf, const SavedValue& value) {
    pytorch::TorchTensor whole;
    whole.element = *value.element;
    whole.shape = value.shape;
    leaf.info.nbytes = pytorch::memory_of(whole);
    if (value.element->dtype == DType::kOpaque)
      leaf.unreadable = fmt::format("its elements are torch.{}, a type that Cairn does not have",
                                    value.element->name);
    std::vector<const SavedChunk*> stored;
    std::vector<Box> boxes;
    for (const SavedChunk& chunk : value.chunks) {
      if (!chunk.entry) continue;
      check(*chunk.entry);
      leaf.info.stored_nbytes += chunk.entry->length;
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

  [[nodiscard]] std::shared_ptr<const ChunkArray> chunk_array(const SavedValue& value,
                                                              const SavedChunk& chunk,
                                                              const Box& part) const {
    Box inside = part;
    for (std::size_t d = 0; d < inside.rank(); ++d) inside.origin[d] -= chunk.box.origin[d];
    return std::make_shared<ChunkArray>(files_.placed(*chunk.entry), *value.element,
                                        chunk.box.shape, std::move(inside));
  }

  // The shape of the chunks, if all but those at the end have it.
  static void set_chunk_shape(TensorInfo& info, const std::vector<Box>& boxes) {
    if (boxes.empty() || info.shape.empty()) return;
    const Box& first = boxes.front();
    const bool is_grid = std::ranges::all_of(boxes, [&](const Box& box) {
      for (std::size_t d = 0; d < box.rank(); ++d)
        if (box.shape[d] > first.shape[d]) return false;
      return true;
    });
    if (is_grid && !first.empty()) info.chunk_shape = first.shape;
  }

  void note_gaps(const TensorInfo& info, const SavedValue& value, std::int64_t covered) {
    const std::int64_t all = element_count(value.shape);
    if (covered == all) return;
    note(info.name, Code::kDataLoss,
         fmt::format("its chunks hold {} of its {} elements", covered, all));
  }

  void add_double(const TensorInfo& info, const SavedValue& value, const SavedChunk& chunk,
                  const Box& part) {
    const auto array = chunk_array(value, chunk, part);
    doubles.push_back({.tensor = contents.tensors().size(), .box = part, .place = array->place()});
    RawLeaf leaf;
    leaf.info = info;
    leaf.info.shape = part.shape;
    leaf.slices.emplace().push_back({.array = {}, .box = std::nullopt, .deferred = array});
    again.add(std::move(leaf));
  }

  // ---- objects ----

  // A quantised tensor in one chunk as an object: a dict of its parts, which only its pickle knows.
  static std::optional<SavedValue> quantised_whole(const SavedValue& value) {
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
  static void check_parts(const SavedValue& value, const pytorch::State& state) {
    if (!value.element) return;
    const auto is_integers = [](const pytorch::StateLeaf& leaf) {
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

  Tree add_object(const SavedValue& value, const KeyPath& path) {
    auto found = try_call([&] { return object_state(value); });
    if (!found) {
      if (found.error().code() == Code::kIo || found.error().code() == Code::kUnavailable)
        throw Error(found.error());
      return add_lost(path, found.error());
    }
    add_new(found.value().unsafe_globals, unsafe_globals);
    pytorch::State state = std::move(found).value().state;
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
    for (pytorch::StateLeaf& leaf : state.leaves) {
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

  // Takes the memory for the path of the object in the paths of its leaves.
  bool takes_paths(const KeyPath& path, const pytorch::State& state) {
    std::uint64_t bytes = 0;
    for (const Key& key : path) bytes += kStepMemory + 3 * key.text.size();
    const std::uint64_t times = state.leaves.size() + state.key_types.size() + 1;
    if (bytes > memory_ / times) return false;
    memory_ -= bytes * times;
    return true;
  }

  static void add_new(const std::vector<std::string>& from, std::vector<std::string>& to) {
    for (const std::string& name : from)
      if (std::ranges::find(to, name) == to.end()) to.push_back(name);
  }
  static std::string below(const KeyPath& path, const std::string& name) {
    return name.empty() ? param_name(path) : param_name(path) + "." + name;
  }

  pytorch::StateFile object_state(const SavedValue& value) {
    if (!value.entry) data_loss("the metadata names no file for it");
    check(*value.entry);
    if (memory_ < kLeastObjectMemory)
      throw Error(Code::kUnimplemented,
                  "the objects of the checkpoint take more memory than Cairn spends on them");
    if (!value.entry->transforms.empty())
      throw Error(Code::kUnimplemented,
                  fmt::format("its bytes are transformed ({}), which Cairn does not read",
                              value.entry->transforms));
    const File& file = files_.file(value.entry->file);
    return with_context(
        [&] { return fmt::format("{}, byte {}", file.path(), value.entry->offset); },
        [&] {
          pytorch::StateFile found = pytorch::read_state_in(
              pytorch::read_archive_in(file, value.entry->offset, value.entry->length),
              files_.placed(*value.entry).file, value.entry->offset, memory_);
          check_parts(value, found.state);
          return found;
        });
  }

  const std::string& folder_;
  const DataFiles& files_;
  bool lacks_ranks_;  // the metadata of some
  bool allow_missing_;
  std::uint64_t steps_ = kCoverSteps;
  std::uint64_t bytes_left_;  // of entries, however often they are named
  std::uint64_t memory_;      // for the leaves of objects
};

// What its pickles are to those who unpickle them, as PyTorch does with all but the chunks, and
// what is not shown as it is.
void add_warnings(const std::string& folder, const pytorch::FolderMetadata& read, Leaves& leaves,
                  CheckpointInfo& info) {
  pytorch::OpeningNotes opening(info, leaves.contents.notes);
  opening.note_globals(read.files.front().path(), "this file", read.metadata.unsafe_globals);
  opening.note_globals(folder, "its objects", leaves.unsafe_globals);
  opening.warn_of_texts(folder, leaves.renamed, leaves.escaped);
}

// Lists the files that the metadata names and that are not there.
void add_missing_files(const DataFiles& files, const pytorch::DistributedMetadata& metadata,
                       const std::string& record, const OpenOptions& options,
                       CheckpointInfo& info) {
  std::map<std::uint32_t, std::size_t> lost;  // values with bytes in the file
  for (const SavedValue& value : metadata.values) {
    std::vector<std::uint32_t> of_value;
    if (value.entry) of_value.push_back(value.entry->file);
    for (const SavedChunk& chunk : value.chunks)
      if (chunk.entry) of_value.push_back(chunk.entry->file);
    std::ranges::sort(of_value);
    of_value.erase(std::unique(of_value.begin(), of_value.end()), of_value.end());
    for (const std::uint32_t file : of_value)
      if (!files.is_there(file)) ++lost[file];
  }
  for (const auto& [file, values] : lost) {
    std::string text = fmt::format("{}: the file is missing; the metadata names it for {} value{}",
                                   files.path(file), values, values == 1 ? "" : "s");
    info.warnings.push_back(text);
    info.missing.push_back({"", files.path(file), record, std::move(text), !options.allow_missing});
  }
}

}  // namespace

bool is_distributed(const FileTree& tree, const std::string& folder) {
  return pytorch::has_distributed_metadata(tree, folder, tree.names_in(folder));
}

bool is_unfinished_distributed(const FileTree& tree, const std::string& folder) {
  return std::ranges::any_of(tree.names_in(folder), [](const std::string& name) {
    return pytorch::is_distributed_data(name);
  });
}

std::unique_ptr<Checkpoint> open_distributed(const FileTree& tree, const std::string& folder,
                                             const OpenOptions& options) {
  const pytorch::FolderNames in_folder = tree.names_in(folder);
  pytorch::FolderMetadata read = pytorch::read_folder_metadata(tree, folder, in_folder);
  pytorch::DistributedMetadata& metadata = read.metadata;
  DataFiles files(tree, folder, metadata.files);
  Leaves leaves(folder, files, read, options.allow_missing);

  CheckpointInfo info{.format = "pytorch", .layout = "PyTorch Distributed Checkpoint"};
  info.path = folder;
  info.allow_missing = options.allow_missing;
  for (MissingPart& part : read.missing) {
    info.warnings.push_back(part.text);
    leaves.contents.notes.push_back({.severity = Severity::kDamage,
                                     .file = part.path,
                                     .message = "the file is missing; there are later ranks"});
    info.missing.push_back(std::move(part));
  }
  add_missing_files(files, metadata, read.files.front().path(), options, info);

  std::vector<pytorch::StatePath> paths;
  std::vector<std::string> names;
  std::vector<const SavedValue*> values;
  for (const SavedValue& value : metadata.values) {
    if (leaves.is_left_out(value)) continue;
    const auto path = metadata.paths.find(value.name);
    paths.push_back(path == metadata.paths.end() ? pytorch::StatePath{{.text = value.name}}
                                                 : path->second);
    names.push_back(value.name);
    values.push_back(&value);
  }
  if (values.empty() && !metadata.values.empty())
    data_loss(folder + ": none of its files is there");
  leaves.contents.structure = pytorch::nest(
      paths, names,
      [&](std::size_t i, const KeyPath& path) { return leaves.add(*values[i], path); },
      [&](const KeyPath& path) { return leaves.add_none(path); });

  info.facts.emplace_back("files", std::to_string(files.count()));
  info.facts.emplace_back("chunks", std::to_string(leaves.chunks));
  if (read.ranks > 0) info.facts.emplace_back("ranks", std::to_string(read.ranks));
  if (!leaves.opaque.empty()) info.facts.emplace_back("not read", listed_names(leaves.opaque));
  add_warnings(folder, read, leaves, info);
  for (const std::string& name : in_folder)
    if (pytorch::is_distributed_data(name) && !files.is_named(name))
      leaves.contents.notes.push_back({.severity = Severity::kNote,
                                       .file = folder + "/" + name,
                                       .message = "the metadata does not name this file"});

  std::unique_ptr<RawCheckpoint> again;
  if (!leaves.doubles.empty()) {
    leaves.again.files = files.reopened();
    again = std::make_unique<RawCheckpoint>(options, info, std::move(leaves.again));
  }
  leaves.contents.files = std::move(files).take();
  leaves.contents.indexes = std::move(read.files);
  return std::make_unique<DistributedCheckpoint>(
      options, std::move(info), std::move(leaves.contents), std::move(leaves.key_types),
      std::move(leaves.doubles), std::move(again));
}

}  // namespace cairn::inline v0
