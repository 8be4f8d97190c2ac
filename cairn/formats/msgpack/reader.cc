// reader.cc -- opens a flax or Orbax msgpack file as a checkpoint. Opening parses names and lengths
// only; values are read later from their places in the file.
#include <cairn/base/byte_order.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/io/file_image.h>
#include <cairn/io/tree/read_ahead.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/msgpack.h>
#include <cairn/tree/msgpack/array_specs.h>
#include <cairn/tree/msgpack/msgpack.h>
#include <cairn/tree/msgpack/numpy_types.h>

#include <algorithm>
#include <map>

namespace cairn::inline v0 {
namespace {

LeafKind leaf_kind(const MsgpackLeaf& leaf) {
  if (leaf.kind == MsgpackKind::kString) return LeafKind::kString;
  return leaf.dtype_name.empty() ? LeafKind::kEmpty : LeafKind::kArray;
}

RawLeaf make_leaf(MsgpackLeaf from, ByteView file) {
  RawLeaf leaf;
  leaf.unreadable = why_unreadable(from);
  leaf.info.nbytes = leaf.info.stored_nbytes = from.nbytes();
  leaf.info.name = param_name(from.path);
  leaf.info.path = std::move(from.path);
  leaf.info.kind = leaf_kind(from);
  leaf.info.typestr = kind_name(from.kind);
  leaf.info.dtype = from.dtype;
  leaf.info.dtype_name = std::move(from.dtype_name);
  leaf.info.element_size = from.element_size;
  leaf.info.shape = std::move(from.shape);
  // msgpack stores numbers big-endian and in varying widths, so the leaf owns the decoded value.
  if (from.kind == MsgpackKind::kScalar || from.kind == MsgpackKind::kComplex ||
      from.kind == MsgpackKind::kTimestamp) {
    leaf.array.own.assign(from.value.begin(),
                          from.value.begin() + static_cast<std::ptrdiff_t>(leaf.info.nbytes));
    leaf.array.big_endian = kBigEndianMachine;
  }
  for (const ByteView piece : from.pieces)
    leaf.array.runs.push_back(
        {0, static_cast<std::uint64_t>(piece.data() - file.data()), piece.size()});
  return leaf;
}

// Replaces the leaves by their numbers, in place: a copy of a million nodes takes 100 MB.
void number_leaves(Tree& tree, std::int64_t& next) {
  if (auto* dict = std::get_if<Tree::Dict>(&tree.value())) {
    for (auto& [name, child] : *dict) number_leaves(child, next);
  } else if (auto* list = std::get_if<Tree::List>(&tree.value())) {
    for (Tree& child : *list) number_leaves(child, next);
  } else if (auto* tuple = std::get_if<Tree::Tuple>(&tree.value())) {
    for (Tree& child : tuple->items) number_leaves(child, next);
  } else {
    tree = Tree(next++);
  }
}

// A leaf that is lost.
RawLeaf make_lost_leaf(KeyPath path, const std::string& why) {
  RawLeaf leaf = lost_leaf(param_name(path), Error(Code::kDataLoss, why));
  leaf.info.path = std::move(path);
  return leaf;
}

enum class Damage : std::uint8_t { kError, kLeftOut };

std::unique_ptr<Checkpoint> open_file(const FileTree& tree, const std::string& path,
                                      const OpenOptions& options, Damage damage) {
  std::vector<File> files;
  files.push_back(with_read_ahead(tree.open(path)));
  FileImage image(files.front());
  const ByteView bytes = image.bytes();
  std::map<std::string, std::pair<KeyPath, std::string>> lost;  // (path, reason) by path
  MsgpackInput input{.load = [&](ByteView part) { image.load(part); },
                     .stored = files.front().allocated()};
  if (damage == Damage::kLeftOut)
    input.lost = [&](const KeyPath& at, const std::string& why) {
      lost.try_emplace(path_text(at), at, why);
    };
  RawCheckpoint::Contents contents;
  const auto read = [&] {
    Tree parsed = parse_msgpack(bytes, input);
    if (!take_array_specs(parsed).empty())
      throw Error(Code::kInvalidArgument,
                  "is the msgpack file of a T5X checkpoint, whose arrays are in "
                  "folders beside it; open the folder of this file");
    list_msgpack_leaves(parsed, std::min<std::uint64_t>(bytes.size(), *input.stored),
                        [&](MsgpackLeaf leaf) {
                          // a lost item of a list, whose place is kept
                          const auto at = lost.find(path_text(leaf.path));
                          if (at == lost.end())
                            return contents.add(make_leaf(std::move(leaf), bytes));
                          contents.add(make_lost_leaf(std::move(leaf.path), at->second.second));
                          lost.erase(at);
                        });
    std::int64_t next = 0;
    number_leaves(parsed, next);
    contents.structure = std::move(parsed);
  };
  explain_foreign(files.front(), [&] { with_context([&] { return path; }, read); });
  for (auto& [text, leaf] : lost)
    if (auto& [at, why] = leaf; at.empty())
      contents.notes.push_back({.severity = Severity::kDamage, .file = path, .message = why});
    else
      contents.add(make_lost_leaf(std::move(at), why));
  contents.files = std::move(files);
  CheckpointInfo info{.format = "msgpack", .layout = "flax msgpack file", .path = path};
  return std::make_unique<RawCheckpoint>(options, std::move(info), std::move(contents));
}

}  // namespace

std::unique_ptr<Checkpoint> open_msgpack(const std::string& path, const OpenOptions& options) {
  const std::string place = normal_path(path);
  return open_msgpack(tree_around(place, options.store), place, options);
}

std::unique_ptr<Checkpoint> open_msgpack(const FileTree& tree, const std::string& path,
                                         const OpenOptions& options) {
  return open_file(tree, path, options, Damage::kError);
}

std::unique_ptr<Checkpoint> salvage_msgpack(const FileTree& tree, const std::string& path,
                                            const OpenOptions& options) {
  return open_file(tree, path, options, Damage::kLeftOut);
}

}  // namespace cairn::inline v0
