#include <cairn/formats/pytorch/deepspeed/state_tree.h>

#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/pytorch/file/opening_notes.h>
#include <cairn/formats/pytorch/file/state_checkpoint.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace cairn::inline v0::pytorch::deepspeed {
namespace {

// Whether one of the hidden paths is `path` or above it.
bool is_hidden(const TextPath& path, const HiddenPaths& hidden) {
  TextPath above;
  return std::ranges::any_of(path, [&](const std::string& key) {
    above.push_back(key);
    return hidden.contains(above);
  });
}

std::string below(const std::string& key, const std::string& name) {
  return name.empty() ? key : key + "." + name;
}

}  // namespace

Tree StateTree::add_leaf(KeyPath path, RawLeaf leaf) {
  leaf.info.path = std::move(path);
  leaf.info.name = param_name(leaf.info.path);
  if (leaf.slices)
    for (const RawSlice& slice : *leaf.slices) shown_.insert(slice.array.within.get());
  else
    shown_.insert(leaf.array.within.get());
  contents_.add(std::move(leaf));
  return Tree(static_cast<std::int64_t>(contents_.tensors().size() - 1));
}

void StateTree::add(const std::string& state, const std::string& parameter, RawLeaf leaf) {
  const auto [known, is_new] = states_.emplace(state, root_.size());
  if (is_new) root_.emplace_back(state, Tree(Tree::Dict()));
  Tree tree = add_leaf({{state, KeyType::kDict}, {parameter, KeyType::kDict}}, std::move(leaf));
  std::get<Tree::Dict>(root_[known->second].second.value())
      .emplace_back(parameter, std::move(tree));
}

// The tree without what is hidden. A dict of which all is hidden becomes a dict without members.
Tree StateTree::shown_part(const Tree& tree, TextPath& path, const HiddenPaths& hidden,
                           std::vector<StateLeaf>& leaves) {
  const auto shown_items = [&](const Tree::List& items) {
    Tree::List shown;
    for (std::size_t i = 0; i < items.size(); ++i) {
      path.push_back(std::to_string(i));
      shown.push_back(shown_part(items[i], path, hidden, leaves));
      path.pop_back();
    }
    return shown;
  };
  if (const Tree::List* list = tree.list()) return Tree(shown_items(*list));
  if (const Tree::Tuple* tuple = tree.tuple()) return Tree(Tree::Tuple{shown_items(tuple->items)});
  if (const Tree::Dict* dict = tree.dict()) {
    Tree::Dict shown;
    for (const auto& [key, value] : *dict) {
      path.push_back(key);
      if (!hidden.contains(path)) {
        Tree child = shown_part(value, path, hidden, leaves);
        const bool is_all_hidden = child.dict() != nullptr && child.dict()->empty();
        if (!is_all_hidden) shown.emplace_back(key, std::move(child));
      }
      path.pop_back();
    }
    return Tree(std::move(shown));
  }
  RawLeaf& leaf = leaves[static_cast<std::size_t>(std::get<std::int64_t>(tree.value()))].leaf;
  if (leaf.info.is_custom()) opaque_.insert(leaf.info.typestr);
  KeyPath whole = {{root_.back().first, KeyType::kDict}};
  whole.insert(whole.end(), leaf.info.path.begin(), leaf.info.path.end());
  return add_leaf(std::move(whole), std::move(leaf));
}

void StateTree::add_rest(const std::string& key, StateFile file, const HiddenPaths& hidden) {
  root_.emplace_back(key, Tree());
  TextPath path;
  root_.back().second = shown_part(file.state.structure, path, hidden, file.state.leaves);
  for (DictKeyTypes& types : file.state.key_types) {
    if (is_hidden(types.dict, hidden)) continue;
    types.dict.insert(types.dict.begin(), key);
    key_types_.push_back(std::move(types));
  }
  for (const auto& [from, to] :
       {std::pair(&file.state.renamed, &renamed_), std::pair(&file.state.escaped, &escaped_)})
    for (const std::string& name : *from) to->push_back(below(key, name));
}

void StateTree::add_file(const File& file, const StateFile& read) {
  OpeningNotes opening(info_, contents_.notes);
  for (const std::string& text : read.notes) opening.warn(file.path(), text);
  unsafe_globals_.insert(read.unsafe_globals.begin(), read.unsafe_globals.end());
  for (const auto& [subject, text] : read.revision)
    info_.revision.emplace_back(std::string(name_of(file.path())) + ": " + subject, text);
  storages_.insert(storages_.end(), read.unused.begin(), read.unused.end());
  for (const StateLeaf& leaf : read.state.leaves)
    if (leaf.leaf.array.within)
      storages_.push_back({leaf.tensor->storage.key, leaf.leaf.array.within});
}

std::vector<UnusedStorage> StateTree::unused() const {
  std::vector<UnusedStorage> found;
  std::set<const CommonBytes*> seen = shown_;
  for (const UnusedStorage& storage : storages_)
    if (seen.insert(storage.bytes.get()).second) found.push_back(storage);
  return found;
}

std::unique_ptr<Checkpoint> StateTree::checkpoint(const OpenOptions& options,
                                                  std::vector<File> files) && {
  OpeningNotes opening(info_, contents_.notes);
  opening.note_globals(info_.path, "its files", {unsafe_globals_.begin(), unsafe_globals_.end()});
  opening.warn_of_texts(info_.path, renamed_, escaped_);
  if (!opaque_.empty())
    info_.facts.emplace_back("not read", listed_names({opaque_.begin(), opaque_.end()}));
  contents_.structure = Tree(std::move(root_));
  contents_.files = std::move(files);
  std::vector<UnusedStorage> rest = unused();
  return std::make_unique<StateCheckpoint>(options, std::move(info_), std::move(contents_),
                                           std::move(key_types_), std::move(rest));
}

}  // namespace cairn::inline v0::pytorch::deepspeed
