// reader.cc -- opens a file of torch.save, or a model in several, as a checkpoint. Nothing of it is
// executed: its pickle is parsed to plain values, and the tensors among them become leaves.
#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/files/weight_map.h>
#include <cairn/formats/pytorch/file/opening_notes.h>
#include <cairn/formats/pytorch/file/state_checkpoint.h>
#include <cairn/formats/pytorch/file/state_file.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/io/tree/read_ahead.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/pytorch.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

pytorch::StateFile read_state(const File& file, Executor& executor, std::uint32_t number,
                              ZipReading reading) {
  return explain_foreign(
      file,
      [&] {
        return with_context(
            [&] { return file.path(); },
            [&] { return pytorch::read_state_file(file, executor, number, reading); });
      },
      ForeignKind::kPytorch);
}

// What its pickle is to those who unpickle it, and what is not shown as it is.
void add_warnings(const File& file, const pytorch::StateFile& read, CheckpointInfo& info,
                  std::vector<Finding>& notes) {
  pytorch::OpeningNotes opening(info, notes);
  opening.note_globals(file.path(), "this file", read.unsafe_globals);
  for (const std::string& text : read.notes) opening.warn(file.path(), text);
  opening.warn_of_texts(file.path(), read.state.renamed, read.state.escaped);
}

void add_ties(const pytorch::StateFile& read, CheckpointInfo& info) {
  std::vector<std::string> texts;
  for (const auto& [leaf, earlier] : read.ties)
    texts.push_back(read.state.leaves[leaf].leaf.info.name + " = " +
                    read.state.leaves[earlier].leaf.info.name);
  if (!texts.empty()) info.facts.emplace_back("tied", listed_names(texts));
}

std::unique_ptr<Checkpoint> open_file(File file, const OpenOptions& options, ZipReading reading) {
  const Workers workers(options.resources.threads);
  pytorch::StateFile read = read_state(file, workers.executor(), 0, reading);
  CheckpointInfo info{.format = "pytorch", .layout = read.layout, .path = file.path()};
  info.revision = std::move(read.revision);
  info.facts.emplace_back("storages", std::to_string(read.storages));
  add_ties(read, info);
  if (!read.state.opaque.empty())
    info.facts.emplace_back("not read", listed_names(read.state.opaque));
  RawCheckpoint::Contents contents;
  add_warnings(file, read, info, contents.notes);
  contents.files.push_back(std::move(file));
  contents.reserve(read.state.leaves.size());
  for (pytorch::StateLeaf& leaf : read.state.leaves) contents.add(std::move(leaf.leaf));
  contents.structure = std::move(read.state.structure);
  contents.ties = std::move(read.ties);
  return std::make_unique<pytorch::StateCheckpoint>(options, std::move(info), std::move(contents),
                                                    std::move(read.state.key_types),
                                                    std::move(read.unused));
}

// The files of a set, and the tensors that the index lists.
class FilesOfModel {
 public:
  FilesOfModel(const FileTree& tree, File index, const OpenOptions& options, ZipReading reading)
      : tree_(tree),
        reading_(reading),
        path_(index.path()),
        options_(options),
        workers_(options.resources.threads),
        map_(with_context(
            [&] { return path_; },
            [&] { return parse_weight_map(as_text(read_text(index, kMaxIndexBytes))); })) {
    contents_.indexes.push_back(std::move(index));
    for (const auto& [name, listed] : map_.files) add(name, listed);
  }

  std::unique_ptr<Checkpoint> checkpoint() && {
    info_.format = "pytorch";
    info_.layout = fmt::format("PyTorch model of {} files", map_.files.size());
    info_.path = path_;
    info_.custom_metadata = map_.metadata;
    info_.allow_missing = options_.allow_missing;
    if (contents_.tensors().empty() && !map_.files.empty())
      data_loss(path_ + ": none of its files is there");
    return std::make_unique<pytorch::StateCheckpoint>(
        options_, std::move(info_), std::move(contents_), std::vector<DictKeyTypes>(),
        std::move(unused_));
  }

 private:
  void add(const std::string& name, const std::vector<std::string>& listed) {
    const std::string path = std::string(folder_prefix(path_)) + name;
    auto opened = try_call([&] { return with_read_ahead(tree_.open(path)); });
    if (!opened) return add_missing(path, listed, opened.error());
    File file = std::move(opened).value();
    auto read = try_call([&] {
      return read_state(file, workers_.executor(),
                        static_cast<std::uint32_t>(contents_.files.size()), reading_);
    });
    if (!read) {
      if (read.error().code() == Code::kUnavailable || read.error().code() == Code::kIo)
        throw Error(read.error());
      for (const std::string& tensor : listed) add_lost(tensor, read.error());
      return;
    }
    pytorch::StateFile found = std::move(read).value();
    add_warnings(file, found, info_, contents_.notes);
    add_leaves(path, listed, found);
    std::ranges::move(found.unused, std::back_inserter(unused_));
    contents_.files.push_back(std::move(file));
  }

  // A tensor in another file than the index says is not read: nobody can tell which one is right.
  void add_leaves(const std::string& path, const std::vector<std::string>& listed,
                  pytorch::StateFile& read) {
    std::set<std::string_view> wanted(listed.begin(), listed.end());
    for (pytorch::StateLeaf& leaf : read.state.leaves) {
      if (wanted.erase(leaf.leaf.info.name) > 0)
        contents_.add(std::move(leaf.leaf));
      else
        contents_.notes.push_back({.severity = Severity::kNote,
                                   .tensor = leaf.leaf.info.name,
                                   .file = path,
                                   .message = "is in this file, but the index does not list it"});
    }
    for (const std::string_view tensor : wanted)
      add_lost(std::string(tensor),
               Error(Code::kDataLoss,
                     path + ": the tensor is not in this file, although the index says so"));
  }

  void add_missing(const std::string& path, const std::vector<std::string>& listed,
                   const Error& error) {
    if (error.code() != Code::kNotFound) throw Error(error);
    std::string text = fmt::format("{}: {}: the file is missing; the index lists {} tensor{} in it",
                                   path_, path, listed.size(), listed.size() == 1 ? "" : "s");
    info_.warnings.push_back(text);
    info_.missing.push_back({"", path, path_, std::move(text), !options_.allow_missing});
    if (options_.allow_missing) return;
    for (const std::string& tensor : listed)
      add_lost(tensor, Error(Code::kDataLoss, path + ": the file is missing"));
  }

  void add_lost(const std::string& name, const Error& why) {
    contents_.notes.push_back({.severity = severity_of(why.code()),
                               .tensor = name,
                               .file = path_,
                               .message = why.message()});
    contents_.add(lost_leaf(name, why));
  }

  FileTree tree_;
  ZipReading reading_;
  std::string path_;
  const OpenOptions& options_;
  Workers workers_;
  WeightMap map_;
  CheckpointInfo info_;
  RawCheckpoint::Contents contents_;
  std::vector<pytorch::UnusedStorage> unused_;
};

}  // namespace

std::optional<std::string> find_pytorch_model(const FileTree& tree, const std::string& folder) {
  const std::string file = folder + "/pytorch_model.bin", index = file + ".index.json";
  const auto is_there = [&](const std::string& path) {
    return tree.exists(path) && !tree.is_folder(path);
  };
  if (is_there(file) && is_there(index))
    invalid_argument(folder +
                     ": holds two models, pytorch_model.bin and pytorch_model.bin.index.json; open "
                     "one of them by its path");
  if (is_there(file)) return file;
  if (is_there(index)) return index;
  return std::nullopt;
}

std::unique_ptr<Checkpoint> open_pytorch(const FileTree& tree, const std::string& path,
                                         const OpenOptions& options, ZipReading reading) {
  File file = with_read_ahead(tree.open(path));
  Bytes first(std::min<std::uint64_t>(file.size(), kProbeBytes));
  file.read_into(0, first);
  if (begins_as_json_object(first))
    return FilesOfModel(tree, std::move(file), options, reading).checkpoint();
  return open_file(std::move(file), options, reading);
}

std::unique_ptr<Checkpoint> open_pytorch(const std::string& path, const OpenOptions& options) {
  const std::string place = normal_path(path);
  return open_pytorch(tree_around(place, options.store), place, options);
}

}  // namespace cairn::inline v0
