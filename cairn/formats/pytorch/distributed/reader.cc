// reader.cc -- opens the folder of a Distributed Checkpoint, with what Megatron-Core adds to it.
#include <cairn/base/errors.h>
#include <cairn/formats/files/listed_names.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/distributed/data_files.h>
#include <cairn/formats/pytorch/distributed/metadata_files.h>
#include <cairn/formats/pytorch/distributed/nested_paths.h>
#include <cairn/formats/pytorch/distributed/value_leaves.h>
#include <cairn/formats/pytorch/file/opening_notes.h>
#include <cairn/formats/pytorch/file/read_states.h>
#include <cairn/formats/pytorch/megatron/folder.h>
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
#include <variant>
#include <vector>

namespace cairn::inline v0 {
namespace {

namespace megatron = pytorch::megatron;
using pytorch::DataFiles;
using pytorch::SavedChunk;
using pytorch::SavedValue;
using pytorch::ValueLeaves;

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

class DistributedReader {
 public:
  // The arguments must outlive the object.
  DistributedReader(const FileTree& tree, const std::string& folder, const OpenOptions& options)
      : tree_(tree),
        folder_(folder),
        options_(options),
        names_(tree.names_in(folder)),
        config_(megatron::find_config(tree, folder, names_)),
        read_(metadata()),
        files_(tree, folder, read_.metadata.files),
        leaves_(folder, files_, read_.metadata,
                {.lacks_ranks = !read_.missing.empty(),
                 .allow_missing = options.allow_missing,
                 .has_lists = config_.has_value()}) {}

  std::unique_ptr<Checkpoint> checkpoint() && {
    info_.format = "pytorch";
    info_.layout =
        config_ ? "Megatron-Core torch_dist checkpoint" : "PyTorch Distributed Checkpoint";
    info_.path = folder_;
    info_.allow_missing = options_.allow_missing;
    add_missing_ranks();
    add_missing_files(files_, read_.metadata, read_.files.front().path(), options_, info_);
    open_common();
    make_tree();
    add_facts();
    add_notes();

    std::unique_ptr<RawCheckpoint> again;
    if (!leaves_.doubles.empty()) {
      leaves_.again.files = files_.reopened();
      again = std::make_unique<RawCheckpoint>(options_, info_, std::move(leaves_.again));
    }
    leaves_.contents.files = std::move(files_).take();
    if (common_) leaves_.contents.files.push_back(*std::move(common_));
    leaves_.contents.indexes = std::move(read_.files);
    return std::make_unique<DistributedCheckpoint>(
        options_, std::move(info_), std::move(leaves_.contents), std::move(leaves_.key_types),
        std::move(leaves_.doubles), std::move(again));
  }

 private:
  pytorch::FolderMetadata metadata() {
    if (config_) megatron::check_supported(*config_, folder_);
    if (config_ && !pytorch::has_distributed_metadata(tree_, folder_, names_))
      data_loss(
          fmt::format("{0}/.metadata: the file is missing; {0}/{1} says that the save of this "
                      "Megatron-Core checkpoint ended",
                      folder_, megatron::kConfigFile));
    return pytorch::read_folder_metadata(tree_, folder_, names_);
  }

  void add_missing(MissingPart part, const char* why) {
    info_.warnings.push_back(part.text);
    leaves_.contents.notes.push_back(
        {.severity = Severity::kDamage, .file = part.path, .message = why});
    info_.missing.push_back(std::move(part));
  }

  void add_missing_ranks() {
    for (MissingPart& part : read_.missing)
      add_missing(std::move(part), "the file is missing; there are later ranks");
  }

  // Opens the file of Megatron-Core with what is the same on all ranks.
  void open_common() {
    if (!config_) return;
    const std::string path = fmt::format("{}/{}", folder_, megatron::kCommonFile);
    if (auto file = tree_.try_open(path)) {
      common_ = with_read_ahead(*std::move(file));
      return;
    }
    const std::string record = fmt::format("{}/{}", folder_, megatron::kConfigFile);
    add_missing({.item = "",
                 .path = path,
                 .record = record,
                 .text = fmt::format("{}: the file is missing; {} names it (common_backend)", path,
                                     record)},
                "the file is missing; metadata.json names it");
  }

  void make_tree() {
    std::vector<pytorch::StatePath> paths;
    std::vector<std::string> names;
    std::vector<const SavedValue*> values;
    bool has_common = false;  // a value has the name under which the file of all ranks is shown
    for (const SavedValue& value : read_.metadata.values) {
      has_common = has_common || value.name == kCommon;
      if (leaves_.is_left_out(value)) continue;
      paths.push_back(path_of(value));
      names.push_back(value.name);
      values.push_back(&value);
    }
    if (values.empty() && !read_.metadata.values.empty())
      data_loss(folder_ + ": none of its files is there");
    if (common_) {
      names.emplace_back(has_common ? megatron::kCommonFile : kCommon);
      paths.push_back({{.text = names.back()}});
    }
    leaves_.contents.structure = pytorch::nest(
        paths, names,
        [&](std::size_t i, const KeyPath& path) {
          return i < values.size() ? leaves_.add(*values[i], path) : add_common(path);
        },
        [&](const KeyPath& path) { return leaves_.add_none(path); });
  }

  [[nodiscard]] pytorch::StatePath path_of(const SavedValue& value) const {
    if (const auto path = read_.metadata.paths.find(value.name); path != read_.metadata.paths.end())
      return path->second;
    const bool is_object = value.element_name.empty();
    if (const auto parts =
            config_ && is_object ? megatron::split_object_name(value.name) : std::nullopt)
      return {{.text = parts->first}, {.text = parts->second}};
    return {{.text = value.name}};
  }

  Tree add_common(const KeyPath& path) {
    const Workers workers(options_.resources.threads);
    auto read =
        pytorch::read_states(*common_, files_.next_number(), workers.executor(),
                             [](const pickle::Pickle& /*pickle*/) { return std::monostate(); });
    pytorch::OpeningNotes opening(info_, leaves_.contents.notes);
    opening.note_globals(common_->path(), "this file", read.file.unsafe_globals);
    for (const std::string& text : read.file.notes) opening.warn(common_->path(), text);
    read.file.unsafe_globals.clear();
    return leaves_.add_state(std::move(read.file), path);
  }

  void add_facts() {
    const auto add = [&](const char* name, std::string text) {
      info_.facts.emplace_back(name, std::move(text));
    };
    add("files", std::to_string(files_.count()));
    add("chunks", std::to_string(leaves_.chunks));
    if (read_.ranks > 0) add("ranks", std::to_string(read_.ranks));
    if (!leaves_.transforms.empty()) add("transforms", listed_names(leaves_.transforms));
    if (!leaves_.opaque.empty()) add("not read", listed_names(leaves_.opaque));
  }

  // What its pickles are to those who unpickle them, as PyTorch does with all but the chunks; what
  // is not shown as it is; what else is in the folder.
  void add_notes() {
    pytorch::OpeningNotes opening(info_, leaves_.contents.notes);
    opening.note_globals(read_.files.front().path(), "this file", read_.metadata.unsafe_globals);
    opening.note_globals(folder_, "its objects", leaves_.unsafe_globals);
    opening.warn_of_texts(folder_, leaves_.renamed, leaves_.escaped);
    if (!read_.metadata.flattened.empty())
      opening.warn(
          folder_,
          "Megatron-Core flattened the parts that the ranks have of these tensors; they are "
          "shown as they are stored, not in their shapes: " +
              listed_names(read_.metadata.flattened));
    if (!config_ && names_.contains(megatron::kCommonFile))
      opening.warn(folder_,
                   "has common.pt, but no metadata.json of Megatron-Core, which is written last: "
                   "the save has not ended; common.pt is not shown");
    for (const std::string& name : names_)
      if (pytorch::is_distributed_data(name) && !files_.is_named(name))
        opening.note(folder_ + "/" + name, "the metadata does not name this file");
  }

  // The key of what common.pt holds.
  static constexpr const char* kCommon = "common";

  const FileTree& tree_;
  const std::string& folder_;
  const OpenOptions& options_;
  pytorch::FolderNames names_;
  std::optional<megatron::Config> config_;  // nullopt: not of Megatron-Core
  pytorch::FolderMetadata read_;
  DataFiles files_;
  ValueLeaves leaves_;
  CheckpointInfo info_;
  std::optional<File> common_;  // its number is the one behind those of files_
};

}  // namespace

bool is_distributed(const FileTree& tree, const std::string& folder) {
  return pytorch::has_distributed_metadata(tree, folder, tree.names_in(folder));
}

bool is_unfinished_distributed(const FileTree& tree, const std::string& folder) {
  const pytorch::FolderNames names = tree.names_in(folder);
  return std::ranges::any_of(names, pytorch::is_distributed_data) ||
         megatron::find_config(tree, folder, names).has_value();
}

bool is_common_file(const FileTree& tree, const std::string& folder, const std::string& name) {
  return name == megatron::kCommonFile &&
         megatron::find_config(tree, folder, tree.names_in(folder)).has_value();
}

std::unique_ptr<Checkpoint> open_distributed(const FileTree& tree, const std::string& folder,
                                             const OpenOptions& options) {
  return DistributedReader(tree, folder, options).checkpoint();
}

}  // namespace cairn::inline v0
