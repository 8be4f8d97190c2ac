// reader.cc -- opens a folder of torch_checkpointing. With its metadata, tensors that ranks have
// divided become whole; without, each file is shown as it is.
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/distributed/nested_paths.h>
#include <cairn/formats/pytorch/file/opening_notes.h>
#include <cairn/formats/pytorch/file/pickled_file.h>
#include <cairn/formats/pytorch/file/state_checkpoint.h>
#include <cairn/formats/pytorch/torch_checkpointing/rank_files.h>
#include <cairn/formats/raw/coverage.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch::torch_checkpointing {
namespace {

constexpr const char* kMetadataFile = "metadata.pkl";
constexpr std::string_view kTorchEnding = ".pt";
constexpr std::uint64_t kMostMetadataBytes = std::uint64_t{1} << 30U;

using Names = std::set<std::string, std::less<>>;

// 3 of "model_3.pt"; nullopt for any other name.
std::optional<std::uint64_t> rank_in_name(std::string_view name) {
  if (!name.ends_with(kTorchEnding)) return std::nullopt;
  name.remove_suffix(kTorchEnding.size());
  const std::size_t line = name.rfind('_');
  if (line == std::string_view::npos || line == 0) return std::nullopt;
  const std::string_view digits = name.substr(line + 1);
  std::uint64_t rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size() &&
                         (digits == "0" || !digits.starts_with('0'));
  return is_number ? std::optional(rank) : std::nullopt;
}

// The files <item>_<rank>.pt of a folder without metadata, as items. Empty if any other .pt file is
// there, or if the items are not those of the same ranks, 0 and up.
std::vector<Item> items_by_name(const Names& names) {
  std::vector<Item> items;
  for (const std::string& name : names) {
    if (!name.ends_with(kTorchEnding)) continue;
    const auto rank = rank_in_name(name);
    if (!rank) return {};
    const std::string item = name.substr(0, name.rfind('_'));
    auto known = std::ranges::find(items, item, &Item::name);
    if (known == items.end()) known = items.insert(items.end(), Item{.name = item});
    known->files.push_back({.rank = *rank, .path = name});
  }
  for (Item& item : items) {
    std::ranges::sort(item.files, {}, &ItemFile::rank);
    if (item.files.size() != items.front().files.size() ||
        item.files.back().rank + 1 != item.files.size())
      return {};
  }
  return items;
}

SavedMetadata read_metadata(const File& file) {
  return with_context(
      [&] { return file.path(); },
      [&] {
        if (file.size() > kMostMetadataBytes)
          data_loss(fmt::format("it has {} bytes", file.size()));
        const pickle::Pickle pickle =
            pickle_at(0, file.size(),
                      [&](std::uint64_t at, MutableByteView out) { file.read_into(at, out); });
        if (pickle.end() != file.size())
          data_loss(fmt::format("its pickle ends at byte {} of {}", pickle.end(), file.size()));
        return parse_metadata(pickle);
      });
}

// The entry with the path or with one above it; end() if there is none.
template <class Map>
auto find_above(const Map& map, TextPath path) {
  auto found = map.end();
  for (; found == map.end() && !path.empty(); path.pop_back()) found = map.find(path);
  return found;
}

// Whether a leaf is an attribute of a tensor of the list that says where its parts lie.
bool is_place_of_parts(const TextPath& path,
                       const std::map<TextPath, const DividedTensor*>& tensors) {
  constexpr std::string_view kAttributes = ".__dict__";
  constexpr std::string_view kPlaces[] = {"global_shape", "global_offsets", "local_offsets",
                                          "local_sizes"};
  const auto attributes = std::ranges::find_if(
      path, [&](const std::string& key) { return key.ends_with(kAttributes); });
  if (attributes == path.end() || attributes + 1 == path.end() ||
      std::ranges::find(kPlaces, *(attributes + 1)) == std::end(kPlaces))
    return false;
  TextPath owner(path.begin(), attributes + 1);
  owner.back().resize(owner.back().size() - kAttributes.size());
  const auto tensor = tensors.find(owner);
  return tensor != tensors.end() && tensor->second->divisions.front().parts;
}

class FolderReader {
 public:
  FolderReader(const FileTree& tree, std::string folder, const OpenOptions& options)
      : tree_(tree),
        folder_(std::move(folder)),
        options_(options),
        workers_(options.resources.threads),
        opening_(info_, contents_.notes) {}

  std::unique_ptr<Checkpoint> checkpoint() && {
    const Names names = tree_.names_in(folder_);
    info_.format = "pytorch";
    info_.path = folder_;
    if (names.contains(kMetadataFile)) {
      contents_.indexes.push_back(tree_.open(folder_ + "/" + kMetadataFile));
      const SavedMetadata metadata = read_metadata(contents_.indexes.back());
      info_.layout = "torch_checkpointing folder";
      info_.facts.emplace_back("ranks", std::to_string(metadata.world_size));
      for (const Item& item : metadata.items)
        with_context([&] { return folder_ + ": " + item.name; }, [&] { add_whole(item); });
      has_other_ranks_ = metadata.world_size > 1;
      for (const std::string& name : names)  // of items that are not divided
        if (rank_in_name(name) && !used_.contains(name)) add_alone({.path = name});
    } else {
      info_.layout = "files of ranks, without metadata";
      for (const Item& item : items_by_name(names))
        for (const ItemFile& file : item.files) add_alone(file);
    }
    add_notes(names);
    make_tree();
    return std::make_unique<StateCheckpoint>(options_, std::move(info_), std::move(contents_),
                                             std::move(key_types_), unused());
  }

 private:
  RankFile read(const ItemFile& named) {
    auto [read, file] =
        read_rank_file(tree_, folder_, named, static_cast<std::uint32_t>(contents_.files.size()),
                       workers_.executor());
    used_.insert(named.path);
    for (const std::string& text : read.file.notes) opening_.warn(read.path, text);
    unsafe_globals_.insert(read.file.unsafe_globals.begin(), read.file.unsafe_globals.end());
    storages_.insert(storages_.end(), read.file.unused.begin(), read.file.unused.end());
    for (const StateLeaf& leaf : read.file.state.leaves)
      if (leaf.leaf.array.within)
        storages_.push_back({leaf.tensor->storage.key, leaf.leaf.array.within});
    contents_.files.push_back(std::move(file));
    return std::move(read);
  }

  // An item whose tensors are divided. Its other values, and the order, are those of the lowest
  // rank.
  void add_whole(const Item& item) {
    std::vector<RankFile> files;
    for (const ItemFile& named : item.files) files.push_back(read(named));
    std::map<TextPath, const DividedTensor*> tensors;
    for (const DividedTensor& tensor : item.tensors) tensors.emplace(tensor.path, &tensor);
    const auto add_tensor = [&](const DividedTensor& tensor) {
      with_context([&] { return fmt::format("{}", fmt::join(tensor.path, ".")); },
                   [&] {
                     add(state_path(item.name, tensor.path, files),
                         whole_tensor(tensor, files, steps_));
                   });
    };
    std::set<TextPath> added;
    if (!files.empty()) {
      for (const StateLeaf& leaf : files.front().file.state.leaves) {
        const TextPath path = texts_of(leaf.leaf.info.path);
        if (is_place_of_parts(path, tensors)) continue;
        const auto tensor = find_above(tensors, path);
        if (tensor == tensors.end())
          add(state_path(item.name, leaf.leaf.info.path), leaf.leaf);
        else if (added.insert(tensor->first).second)
          add_tensor(*tensor->second);
      }
      add_key_types(item.name, files.front().file, tensors);
    }
    for (const auto& [path, tensor] : tensors)
      if (!added.contains(path)) add_tensor(*tensor);
  }

  // A file of one rank. Of a DTensor it shows the part that the rank has.
  void add_alone(const ItemFile& named) {
    const RankFile file = read(named);
    const std::string name = named.path.substr(0, named.path.size() - kTorchEnding.size());
    std::map<TextPath, const RawLeaf*> parts;
    for (const auto& [path, part] : file.parts)
      if (part.leaf.info.path.size() > path.size()) parts.emplace(path, &part.leaf);
    has_parts_alone_ = has_parts_alone_ || !parts.empty();
    for (const StateLeaf& leaf : file.file.state.leaves) {
      const auto part = find_above(parts, texts_of(leaf.leaf.info.path));
      KeyPath path = leaf.leaf.info.path;
      if (part != parts.end()) path.resize(part->first.size());
      if (part == parts.end() || part->second->info.path == leaf.leaf.info.path)
        add(state_path(name, path), leaf.leaf);
    }
    add_key_types(name, file.file, parts);
  }

  template <class Map>
  void add_key_types(const std::string& name, const StateFile& file, const Map& tensors) {
    for (DictKeyTypes types : file.state.key_types) {
      if (find_above(tensors, types.dict) != tensors.end()) continue;
      types.dict.insert(types.dict.begin(), name);
      key_types_.push_back(std::move(types));
    }
    for (const auto& [from, to] :
         {std::pair(&file.state.renamed, &renamed_), std::pair(&file.state.escaped, &escaped_)})
      for (const std::string& text : *from) to->push_back(name + "." + text);
  }

  static StatePath state_path(const std::string& name, const KeyPath& keys) {
    StatePath path = {{.text = name}};
    for (const Key& key : keys)
      path.push_back({.text = key.text, .is_index = key.type == KeyType::kSequence});
    return path;
  }
  // The types of the keys are known where a file has the tensor as it was saved.
  static StatePath state_path(const std::string& item, const TextPath& tensor,
                              const std::vector<RankFile>& files) {
    StatePath path = {{.text = item}};
    const RankTensor* part = nullptr;
    for (const RankFile& file : files)
      if (part == nullptr && file.format == ItemFormat::kTorch) part = file.find(tensor);
    for (std::size_t i = 0; i < tensor.size(); ++i)
      path.push_back(
          {.text = tensor[i],
           .is_index = part != nullptr && part->leaf.info.path[i].type == KeyType::kSequence});
    return path;
  }

  void add(StatePath path, RawLeaf leaf) {
    std::string name;
    for (const PathStep& step : path) name += (name.empty() ? "" : ".") + step.text;
    names_.push_back(std::move(name));
    paths_.push_back(std::move(path));
    leaves_.push_back(std::move(leaf));
  }

  void make_tree() {
    const auto add_leaf = [&](RawLeaf leaf, const KeyPath& path) {
      leaf.info.path = path;
      leaf.info.name = param_name(path);
      if (leaf.info.is_custom()) opaque_.insert(leaf.info.typestr);
      contents_.add(std::move(leaf));
      return Tree(static_cast<std::int64_t>(contents_.tensors().size() - 1));
    };
    for (const RawLeaf& leaf : leaves_) note_shown(leaf);
    contents_.structure = nest(
        paths_, names_,
        [&](std::size_t i, const KeyPath& path) { return add_leaf(std::move(leaves_[i]), path); },
        [&](const KeyPath& path) {
          RawLeaf none;
          none.info.typestr = "None";
          none.info.kind = LeafKind::kEmpty;
          return add_leaf(std::move(none), path);
        });
    const auto is_gone = [&](const DictKeyTypes& types) {
      const Tree* node = &*contents_.structure;
      for (const std::string& key : types.dict) node = node == nullptr ? node : node->find(key);
      return node == nullptr || node->dict() == nullptr;
    };
    std::erase_if(key_types_, is_gone);
    if (!opaque_.empty())
      info_.facts.emplace_back("not read", listed_names({opaque_.begin(), opaque_.end()}));
  }

  void note_shown(const RawLeaf& leaf) {
    shown_.insert(leaf.array.within.get());
    if (leaf.slices)
      for (const RawSlice& slice : *leaf.slices) shown_.insert(slice.array.within.get());
  }

  void add_notes(const Names& names) {
    std::vector<std::string> unshown;
    if (has_other_ranks_) unshown.emplace_back("copies and other values of rank 1 and above");
    if (has_parts_alone_) unshown.emplace_back("meshes and placements of DTensors");
    for (const std::string& name : names)
      if (name != kMetadataFile && !used_.contains(name) && !tree_.is_folder(folder_ + "/" + name))
        unshown.push_back(name);
    if (!unshown.empty()) info_.facts.emplace_back("not shown", listed_names(unshown));
    if (name_of(folder_).starts_with("tmp_"))
      opening_.warn(folder_,
                    "its name is that of a save of torch_checkpointing that has not ended");
    opening_.note_globals(folder_, "its files", {unsafe_globals_.begin(), unsafe_globals_.end()});
    opening_.warn_of_texts(folder_, renamed_, escaped_);
  }

  [[nodiscard]] std::vector<UnusedStorage> unused() const {
    std::vector<UnusedStorage> found;
    std::set<const CommonBytes*> seen = shown_;
    for (const UnusedStorage& storage : storages_)
      if (seen.insert(storage.bytes.get()).second) found.push_back(storage);
    return found;
  }

  const FileTree& tree_;
  std::string folder_;
  const OpenOptions& options_;
  Workers workers_;
  CheckpointInfo info_;
  RawCheckpoint::Contents contents_;
  OpeningNotes opening_;
  // Parallel: the leaves, in the order in which they were found.
  std::vector<StatePath> paths_;
  std::vector<std::string> names_;
  std::vector<RawLeaf> leaves_;
  std::vector<DictKeyTypes> key_types_;
  std::vector<std::string> renamed_, escaped_;
  std::set<std::string> opaque_, unsafe_globals_;
  Names used_;  // files
  bool has_other_ranks_ = false;
  bool has_parts_alone_ = false;         // parts of tensors that are shown as they are
  std::vector<UnusedStorage> storages_;  // of all files
  std::set<const CommonBytes*> shown_;   // bytes of leaves
  std::uint64_t steps_ = kCoverSteps;
};

}  // namespace
}  // namespace cairn::inline v0::pytorch::torch_checkpointing

namespace cairn::inline v0 {

bool is_torch_checkpointing(const FileTree& tree, const std::string& folder) {
  namespace format = pytorch::torch_checkpointing;
  const auto names = tree.names_in(folder);
  if (!names.contains(format::kMetadataFile)) return !format::items_by_name(names).empty();
  const auto probe = try_look(tree.is_local(), [&] {
    const File file = tree.open(folder + "/" + format::kMetadataFile);
    Bytes first(std::min<std::uint64_t>(file.size(), 2));
    file.read_into(0, first);
    return looks_like_pickle(first);
  });
  return probe.ok() && probe.value();
}

std::unique_ptr<Checkpoint> open_torch_checkpointing(const FileTree& tree,
                                                     const std::string& folder,
                                                     const OpenOptions& options) {
  return pytorch::torch_checkpointing::FolderReader(
             tree, std::string(without_final_slashes(folder)), options)
      .checkpoint();
}

}  // namespace cairn::inline v0
