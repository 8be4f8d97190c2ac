#include <cairn/formats/pytorch/file/state_file.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/file/torch_file.h>
#include <cairn/formats/pytorch/pickle/safe_globals.h>
#include <cairn/formats/pytorch/tensors/place.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

// Bytes that views may show in addition to those of the storages. PyTorch makes views of any size
// of a few bytes; a reader copies their elements.
constexpr std::uint64_t kMoreThanStored = std::uint64_t{256} << 20U;
// Bytes that are read for views whose elements lie far apart: as often as this all storages, and
// this many more.
constexpr std::uint64_t kMostReads = 64;
constexpr std::uint64_t kMoreReads = std::uint64_t{2} << 30U;

// Finds the elements of all tensors in their storages.
class Placing {
 public:
  Placing(TorchFile& file, std::vector<StateLeaf>& leaves) : leaves_(leaves) {
    for (StateLeaf& leaf : leaves_) leaf.leaf.array.is_protected = file.is_pickle_protected;
    std::uint64_t stored = 0;
    for (auto& [key, array] : file.storages) {
      stored += array.stored_bytes();
      storages_[key] = {.bytes = std::make_shared<CommonBytes>(std::move(array)),
                        .big_endian = file.big_endian};
    }
    left_ = 4 * stored + kMoreThanStored;
    reads_left_ = static_cast<double>(kMostReads) * static_cast<double>(stored) + kMoreReads;
    std::map<std::string_view, std::size_t> users;
    for (const StateLeaf& leaf : leaves_)
      if (leaf.tensor) ++users[leaf.tensor->storage.key];
    for (auto& [key, storage] : storages_) storage.has_one_user = users[key] == 1;
  }

  void place_all() {
    for (StateLeaf& leaf : leaves_) {
      if (!leaf.tensor) continue;
      const auto placed = try_call([&] {
        place(leaf);
        return true;
      });
      if (!placed) set_broken(leaf.leaf, placed.error());
    }
  }

  [[nodiscard]] std::vector<UnusedStorage> unused() const {
    std::set<std::string_view> shown;
    for (const StateLeaf& leaf : leaves_)
      if (leaf.tensor) shown.insert(leaf.tensor->storage.key);
    std::vector<UnusedStorage> storages;
    for (const auto& [key, storage] : storages_)
      if (!shown.contains(key)) storages.push_back({key, storage.bytes});
    return storages;
  }

  // (leaf, earlier leaf) pairs of leaves that show the same elements.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> ties() const {
    std::vector<std::pair<std::size_t, std::size_t>> found;
    std::map<Elements, std::size_t> first;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const StateLeaf& leaf = leaves_[i];
      if (!leaf.tensor || leaf.leaf.info.nbytes == 0 || !leaf.leaf.info.is_described()) continue;
      const TorchTensor& tensor = *leaf.tensor;
      const auto [known, is_new] =
          first.emplace(Elements{tensor.storage.key, tensor.storage.first + tensor.offset,
                                 tensor.shape, tensor.strides, leaf.leaf.info.dtype,
                                 std::pair(tensor.conjugated, tensor.negated)},
                        i);
      if (!is_new) found.emplace_back(i, known->second);
    }
    return found;
  }

 private:
  using Elements = std::tuple<std::string, std::uint64_t, Shape, std::vector<std::int64_t>, DType,
                              std::pair<bool, bool>>;

  void place(StateLeaf& leaf) {
    const TorchTensor& tensor = *leaf.tensor;
    const auto storage = storages_.find(tensor.storage.key);
    if (storage == storages_.end())
      data_loss(fmt::format("its storage \"{}\" is missing", tensor.storage.key));
    const bool is_protected = leaf.leaf.array.is_protected;
    leaf.leaf.array = place_tensor(tensor, storage->second);
    leaf.leaf.array.is_protected = is_protected;
    charge(leaf.leaf.info.nbytes, tensor, storage->second);
    leaf.leaf.info.stored_nbytes =
        std::min(leaf.leaf.info.nbytes, storage->second.bytes->all().stored_bytes());
  }

  void charge(std::uint64_t nbytes, const TorchTensor& tensor, const StorageBytes& storage) {
    // A deflated storage may be decoded from its front for each view.
    const RawArray& all = storage.bytes->all();
    if (all.stream && !storage.has_one_user) nbytes = std::max(nbytes, all.stored_bytes());
    if (nbytes > left_)
      throw Error(Code::kUnimplemented,
                  "the views of the file show its storages so often that all of them together take "
                  "more than 4 times its size and 256 MiB");
    const double reads = bytes_read_for(tensor, storage);
    if (reads > (all.stream ? static_cast<double>(left_) : reads_left_))
      throw Error(Code::kUnimplemented,
                  "the elements of this view lie so far apart, and overlap so much, that reading "
                  "it takes a read for each of them");
    left_ -= nbytes;
    reads_left_ -= reads;
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

  std::vector<StateLeaf>& leaves_;
  std::map<std::string, StorageBytes, std::less<>> storages_;
  std::uint64_t left_ = 0;  // bytes that leaves may still take
  double reads_left_ = 0;   // bytes that may still be read for them
};

// The globals that PyTorch's restricted unpickler refuses.
std::vector<std::string> unsafe_globals(const pickle::Pickle& p) {
  std::vector<std::string> names;
  for (const pickle::Value global : p.globals())
    if (!pickle::is_safe_global(p.module_of(global), p.name_of(global)))
      names.push_back(global_text(p, global));
  return names;
}

}  // namespace

StateFile read_state_file(const File& file, Executor& executor, std::uint32_t number,
                          ZipReading reading) {
  TorchFile torch = read_torch_file(file, executor, reading);
  std::uint64_t memory = walk_memory(torch.pickle);
  return read_state_in(std::move(torch), number, 0, memory);
}

StateFile read_state_in(TorchFile torch, std::uint32_t number, std::uint64_t begin,
                        std::uint64_t& memory) {
  for (auto& [key, array] : torch.storages) {
    // A stream reads from the beginning of the first of the reader's files.
    if (array.stream && number + begin > 0)
      throw Error(Code::kUnimplemented,
                  "storage \"" + key + "\" is deflated, in a file of a set of files");
    for (RawRun& run : array.runs) {
      run.file = number;
      run.offset += begin;
    }
  }
  const auto size_of = [&](std::string_view key) -> std::optional<std::uint64_t> {
    const auto storage = torch.storages.find(std::string(key));
    if (storage == torch.storages.end()) return std::nullopt;
    return storage->second.stored_bytes();
  };
  StateFile out{.state = torch.program ? exported_state(*torch.program, size_of)
                                       : walk_state(torch.pickle, torch.pickle.root(), memory),
                .layout = torch.layout,
                .storages = torch.storages.size()};
  Placing placing(torch, out.state.leaves);
  placing.place_all();
  out.ties = placing.ties();
  out.unused = placing.unused();
  out.notes = std::move(torch.notes);
  out.unsafe_globals = unsafe_globals(torch.pickle);
  out.revision = std::move(torch.revision);
  return out;
}

void share_storages(StateFile& file) {
  for (StateLeaf& leaf : file.state.leaves) {
    RawArray& array = leaf.leaf.array;
    if (array.within || (array.runs.empty() && !array.stream)) continue;
    RawArray bytes;
    bytes.runs = array.runs;
    bytes.stream = array.stream;
    bytes.checksum = array.checksum;
    array.checksum.reset();
    array.within = std::make_shared<CommonBytes>(std::move(bytes));
  }
}

}  // namespace cairn::inline v0::pytorch
