// reader.cc -- opens a file of torch.save as a checkpoint. Nothing of it is executed: its pickle is
// parsed to plain values, and the tensors among them become leaves.
#include <cairn/base/errors.h>
#include <cairn/base/executor.h>
#include <cairn/base/text.h>
#include <cairn/formats/files/foreign_content.h>
#include <cairn/formats/files/open_in_tree.h>
#include <cairn/formats/pytorch/file/torch_file.h>
#include <cairn/formats/pytorch/pickle/safe_globals.h>
#include <cairn/formats/pytorch/tensors/place.h>
#include <cairn/formats/pytorch/tensors/state_walk.h>
#include <cairn/formats/raw/raw_checkpoint.h>
#include <cairn/io/tree/read_ahead.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/pytorch.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// Bytes that views may show in addition to those of the storages. PyTorch makes views of any size
// of a few bytes; a reader copies their elements.
constexpr std::uint64_t kMoreThanStored = std::uint64_t{256} << 20U;
constexpr std::size_t kMostListed = 10;  // names in a fact

class PytorchCheckpoint final : public RawCheckpoint {
 public:
  PytorchCheckpoint(const OpenOptions& options, CheckpointInfo info, Contents contents,
                    std::vector<DictKeyTypes> key_types)
      : RawCheckpoint(options, std::move(info), std::move(contents)),
        key_types_(std::move(key_types)) {}
  [[nodiscard]] std::vector<DictKeyTypes> key_types() const override { return key_types_; }

 private:
  std::vector<DictKeyTypes> key_types_;
};

// The first names of a list, and how many there are.
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMostListed); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostListed) text += fmt::format(" and {} more", names.size() - kMostListed);
  return text;
}

// Finds the elements of all tensors in their storages.
class Placing {
 public:
  Placing(pytorch::TorchFile& file, std::vector<pytorch::StateLeaf>& leaves) : leaves_(leaves) {
    for (pytorch::StateLeaf& leaf : leaves_)
      leaf.leaf.array.is_protected = file.is_pickle_protected;
    std::uint64_t stored = 0;
    for (auto& [key, array] : file.storages) {
      stored += array.stored_bytes();
      storages_[key] = {.bytes = std::make_shared<CommonBytes>(std::move(array)),
                        .big_endian = file.big_endian};
    }
    left_ = 4 * stored + kMoreThanStored;
    std::map<std::string_view, std::size_t> users;
    for (const pytorch::StateLeaf& leaf : leaves_)
      if (leaf.tensor) ++users[leaf.tensor->storage.key];
    for (auto& [key, storage] : storages_) storage.has_one_user = users[key] == 1;
  }

  void place_all() {
    for (pytorch::StateLeaf& leaf : leaves_) {
      if (!leaf.tensor) continue;
      const auto placed = try_call([&] {
        place(leaf);
        return true;
      });
      if (!placed) set_broken(leaf.leaf, placed.error());
    }
  }

  // "a = b, c = d": leaves that show the same elements.
  [[nodiscard]] std::vector<std::string> ties() const {
    std::vector<std::string> texts;
    std::map<Elements, const std::string*> first;
    for (const pytorch::StateLeaf& leaf : leaves_) {
      if (!leaf.tensor || leaf.leaf.info.nbytes == 0) continue;
      const pytorch::TorchTensor& tensor = *leaf.tensor;
      const auto [known, is_new] =
          first.emplace(Elements{tensor.storage.key, tensor.storage.first + tensor.offset,
                                 tensor.shape, tensor.strides},
                        &leaf.leaf.info.name);
      if (!is_new) texts.push_back(leaf.leaf.info.name + " = " + *known->second);
    }
    return texts;
  }

 private:
  using Elements = std::tuple<std::string, std::uint64_t, Shape, std::vector<std::int64_t>>;

  void place(pytorch::StateLeaf& leaf) {
    const pytorch::TorchTensor& tensor = *leaf.tensor;
    const auto storage = storages_.find(tensor.storage.key);
    if (storage == storages_.end())
      data_loss(fmt::format("its storage \"{}\" is missing", tensor.storage.key));
    const bool is_protected = leaf.leaf.array.is_protected;
    leaf.leaf.array = pytorch::place_tensor(tensor, storage->second);
    leaf.leaf.array.is_protected = is_protected;
    if (leaf.leaf.info.nbytes > left_)
      throw Error(Code::kUnimplemented,
                  "the views of the file show its storages so often that all of them together take "
                  "more than 4 times its size and 256 MiB");
    left_ -= leaf.leaf.info.nbytes;
    leaf.leaf.info.stored_nbytes =
        std::min(leaf.leaf.info.nbytes, storage->second.bytes->all().stored_bytes());
  }

  static void set_broken(RawLeaf& leaf, const Error& e) {
    leaf.array = {};
    leaf.unreadable.clear();
    if (e.code() == Code::kUnimplemented) {
      leaf.unreadable = e.message();
      return;
    }
    leaf.info.kind = LeafKind::kUnknown;
    leaf.info.error = e.message();
    leaf.info.error_code = e.code();
  }

  std::vector<pytorch::StateLeaf>& leaves_;
  std::map<std::string, pytorch::StorageBytes, std::less<>> storages_;
  std::uint64_t left_ = 0;  // bytes that leaves may still take
};

// The globals that PyTorch's restricted unpickler refuses.
std::vector<std::string> unsafe_globals(const pickle::Pickle& p) {
  std::vector<std::string> names;
  for (const pickle::Value global : p.globals())
    if (!pickle::is_safe_global(p.module_of(global), p.name_of(global)))
      names.push_back(pytorch::global_text(p, global));
  return names;
}

void add_facts(const pytorch::TorchFile& file, const pytorch::State& state,
               const std::vector<std::string>& ties, CheckpointInfo& info) {
  info.layout = file.layout;
  info.revision = file.revision;
  info.facts.emplace_back("storages", std::to_string(file.storages.size()));
  if (!ties.empty()) info.facts.emplace_back("tied", listed(ties));
  if (!state.opaque.empty()) info.facts.emplace_back("not read", listed(state.opaque));
}

}  // namespace

std::unique_ptr<Checkpoint> open_pytorch(const FileTree& tree, const std::string& path,
                                         const OpenOptions& options) {
  File file = with_read_ahead(tree.open(path));
  CheckpointInfo info{.format = "pytorch", .path = path};
  const Workers workers(options.resources.threads);
  RawCheckpoint::Contents contents;
  pytorch::State state;
  explain_foreign(
      file,
      [&] {
        with_context([&] { return path; },
                     [&] {
                       pytorch::TorchFile torch =
                           pytorch::read_torch_file(file, workers.executor());
                       state = pytorch::walk_state(torch.pickle, torch.pickle.root());
                       Placing placing(torch, state.leaves);
                       placing.place_all();
                       add_facts(torch, state, placing.ties(), info);
                       if (const auto unsafe = unsafe_globals(torch.pickle); !unsafe.empty())
                         contents.notes.push_back(
                             {.severity = Severity::kNote,
                              .file = path,
                              .message = "to unpickle this file may run any code: it imports " +
                                         listed(unsafe)});
                     });
      },
      ForeignKind::kPytorch);
  contents.files.push_back(std::move(file));
  contents.reserve(state.leaves.size());
  for (pytorch::StateLeaf& leaf : state.leaves) contents.add(std::move(leaf.leaf));
  contents.structure = std::move(state.structure);
  return std::make_unique<PytorchCheckpoint>(options, std::move(info), std::move(contents),
                                             std::move(state.key_types));
}

std::unique_ptr<Checkpoint> open_pytorch(const std::string& path, const OpenOptions& options) {
  const std::string place = normal_path(path);
  return open_pytorch(tree_around(place, options.store), place, options);
}

}  // namespace cairn::inline v0
