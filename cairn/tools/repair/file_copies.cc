#include <cairn/tools/repair/file_copies.h>

#include <cairn/base/text.h>
#include <cairn/formats/detect.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/files/output_names.h>
#include <cairn/formats/safetensors/model_folder.h>
#include <cairn/formats/safetensors/salvage.h>
#include <cairn/io/temporary_name.h>
#include <cairn/kvstore/folders/resolve.h>

#include <algorithm>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kSafetensors = ".safetensors";

class FileCopies {
 public:
  FileCopies(std::string path, const OpenOptions& options, FoundCopies& found)
      : path_(std::move(path)),
        options_(options),
        found_(found),
        tree_(tree_around(path_, options.store)) {}

  void add_all() {
    if (is_tensorflow(tree_, path_)) return add_tensorflow();
    if (tree_.is_folder(path_)) {
      note_distributed();
      return add_model(path_, "");
    }
    if (is_index_name(path_)) return add_model(parent_of(path_), path_);
    const auto format = try_call([&] { return detect_file(tree_, path_); });
    if (format && format.value()) add_file(*format.value());
  }

 private:
  // Adds a copy that is opened if the checkpoint as it is does not suffice.
  template <class F>
  void add(std::string text, F open) {
    found_.others.push_back([text = std::move(text), open = std::move(open)] {
      LeafCopy copy{.checkpoint = nullptr, .text = text, .prefix = ""};
      copy.checkpoint = open(copy.notes);
      return std::vector{std::move(copy)};
    });
  }

  void add_file(Format format) {
    const auto salvage = [tree = tree_, path = path_, options = file_options()](auto open) {
      return [=](std::vector<std::string>& /*notes*/) {
        return std::shared_ptr<const Checkpoint>(open(tree, path, options));
      };
    };
    switch (format) {
      case Format::kSafetensors:
        return add_safetensors(path_, {path_}, "", "the file without its end");
      case Format::kNpz:
        return add("the archive without its directory",
                   salvage([](const auto& tree, const auto& path, const auto& options) {
                     return open_npz(tree, path, options, ZipReading::kLocalHeaders);
                   }));
      case Format::kPytorch:
        return add("the archive without its directory",
                   salvage([](const auto& tree, const auto& path, const auto& options) {
                     return open_pytorch(tree, path, options, ZipReading::kLocalHeaders);
                   }));
      case Format::kMsgpack:
        return add("the file without its damaged objects",
                   salvage([](const auto& tree, const auto& path, const auto& options) {
                     return salvage_msgpack(tree, path, options);
                   }));
      default:
        return;
    }
  }

  // A checkpoint that opens has all that its index names.
  void add_tensorflow() {
    if (!found_.why_closed || found_.why_closed->code() != Code::kDataLoss) return;
    found_.others.emplace_back([tree = tree_, path = path_, options = options_] {
      TensorflowRemains remains = salvage_tensorflow(tree, path, options);
      LeafCopy copy{.checkpoint = std::move(remains.checkpoint),
                    .text = "the whole blocks of the index",
                    .prefix = ""};
      copy.is_found = remains.assumes_order;
      copy.lacks_names = remains.lacks_names;
      copy.notes = std::move(remains.notes);
      std::vector<LeafCopy> copies;
      copies.push_back(std::move(copy));
      return copies;
    });
  }

  // What cannot be rebuilt.
  void note_distributed() {
    const auto names = try_call([&] { return tree_.names_in(path_); });
    if (!found_.opened.empty() || !names) return;
    const auto count = std::ranges::count_if(
        names.value(), [](const std::string& name) { return name.ends_with(".distcp"); });
    if (count > 0)
      found_.notes.push_back(
          path_ +
          "/.metadata: only this file has the names, shapes and places of the tensors; the "
          ".distcp files have their values without names, so nothing can be rebuilt");
  }

  [[nodiscard]] OpenOptions file_options() const {
    OpenOptions options = options_;
    options.step.reset();
    options.item.reset();
    return options;
  }

  void add_safetensors(const std::string& path, const std::vector<std::string>& files,
                       const std::string& index, std::string text) {
    add(std::move(text),
        [=, tree = tree_, options = file_options()](std::vector<std::string>& notes) {
          return std::shared_ptr<const Checkpoint>(
              salvage_safetensors(tree, path, files, index, options, notes));
        });
  }

  // The safetensors files of a folder. With an index, only those that have names of its set.
  void add_model(const std::string& folder, std::string index) {
    const auto names = try_call([&] { return tree_.names_in(folder); });
    if (!names) return;
    std::vector<std::string> files;
    for (const std::string& name : names.value()) {
      if (index.empty() && name == "model.safetensors.index.json") index = folder + "/" + name;
      if (name.ends_with(kSafetensors) && !is_temporary_name(name)) files.push_back(name);
    }
    if (!index.empty()) {
      std::string_view stem = name_of(index);
      stem.remove_suffix(std::string_view(".safetensors.index.json").size());
      std::erase_if(files,
                    [&](const std::string& name) { return !is_safetensors_shard(name, stem); });
    }
    if (files.empty()) return;
    for (std::string& file : files) file = folder + "/" + file;
    add_safetensors(folder, files, index, "the files without their index");
  }

  std::string path_;
  const OpenOptions& options_;
  FoundCopies& found_;
  FileTree tree_;
};

}  // namespace

void add_file_copies(const std::string& path, const OpenOptions& options, FoundCopies& found) {
  FileCopies(path, options, found).add_all();
}

}  // namespace cairn::inline v0
