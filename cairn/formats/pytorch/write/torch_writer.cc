// torch_writer.cc -- writes a tree as one file of torch.save.
#include <cairn/base/errors.h>
#include <cairn/base/text.h>
#include <cairn/formats/output/framed_file.h>
#include <cairn/formats/output/write_to_place.h>
#include <cairn/formats/pytorch/write/state_pickler.h>
#include <cairn/formats/pytorch/write/torch_archive.h>
#include <cairn/pytorch.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace cairn::inline v0 {
namespace {

using pytorch::PickledState;
using pytorch::TorchArchive;

// The folder of the members: the file's name without its last extension, as PyTorch names it, which
// takes "archive" for names that are not ASCII.
std::string top_folder(const std::string& path) {
  const std::string name(name_of(path));
  const std::string stem = name.substr(0, name.rfind('.'));
  const bool is_ascii =
      std::ranges::all_of(stem, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  return stem.empty() || !is_ascii ? "archive" : stem;
}

// Fetches the sources, and the arrays that the tree holds.
class StateFetcher {
 public:
  StateFetcher(std::size_t sources, const FetchFn& fetch, const std::vector<Array>& arrays)
      : sources_(sources), fetch_(fetch) {
    std::vector<ArrayView> views;
    views.reserve(arrays.size());
    for (const Array& array : arrays) views.push_back(array.view());
    fetch_array_ = fetch_from(std::move(views));
  }

  void fetch(std::span<const TensorPiece> pieces) {
    of_sources_.clear();
    of_arrays_.clear();
    for (const TensorPiece& piece : pieces) {
      const bool is_source = piece.tensor < sources_;
      TensorPiece& one = (is_source ? of_sources_ : of_arrays_).emplace_back(piece);
      if (!is_source) one.tensor -= sources_;
    }
    if (!of_sources_.empty()) fetch_(of_sources_);
    if (!of_arrays_.empty()) fetch_array_(of_arrays_);
  }

 private:
  std::size_t sources_;
  const FetchFn& fetch_;
  FetchFn fetch_array_;
  std::vector<TensorPiece> of_sources_, of_arrays_;
};

// The archive of a whole state.
class StateFile final : public FramedFile {
 public:
  StateFile(const std::string& path, PickledState& state, std::span<const TensorSource> sources)
      : archive_(top_folder(path)) {
    archive_.begin(std::move(state.pickle));
    for (const pytorch::WrittenStorage& storage : state.storages) {
      const bool is_source = storage.source < sources.size();
      const DType dtype = is_source ? sources[storage.source].dtype
                                    : state.arrays[storage.source - sources.size()].dtype();
      const bool packed = pytorch::is_packed_type(dtype);
      placements_.push_back({.tensor = storage.source,
                             .offset = archive_.add_storage(storage.nbytes),
                             .nbytes = packed ? 2 * storage.nbytes : storage.nbytes,
                             .element_size = dtype_size(dtype),
                             .cut = is_source ? sources[storage.source].cut : 0,
                             .packed = packed});
    }
    archive_.finish();
  }

  [[nodiscard]] std::span<const Placement> tensors() const override { return placements_; }
  [[nodiscard]] std::uint64_t size() const override { return archive_.size(); }
  [[nodiscard]] bool frames_need_next() const override { return false; }
  [[nodiscard]] Bytes frame(std::size_t number,
                            std::span<const std::uint32_t> checksums) const override {
    return archive_.between(number, checksums);
  }

 private:
  TorchArchive archive_;
  std::vector<Placement> placements_;
};

}  // namespace

void write_torch(const std::string& path, const Tree& tree, const TorchWriteOptions& options) {
  write_torch(path, tree, {}, {}, options);
}

void write_torch(const std::string& path, const Tree& tree, std::span<const TensorSource> sources,
                 const FetchFn& fetch, const TorchWriteOptions& options) {
  write_torch(OutputPlace(path, options.store), tree, sources, fetch, options);
}

void write_torch(const OutputPlace& place, const Tree& tree, std::span<const TensorSource> sources,
                 const FetchFn& fetch, const TorchWriteOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  PickledState state;
  std::optional<StateFile> layout;
  group.step("write: plan", distributed::StepKind::kControl, [&] {
    state = pytorch::pickle_state(tree, sources, options.key_types);
    layout.emplace(place.path(), state, sources);
  });
  StateFetcher fetcher(sources.size(), fetch, state.arrays);
  const FetchFn fetch_all = [&](std::span<const TensorPiece> pieces) { fetcher.fetch(pieces); };
  write_framed_file(group, place, *layout, fetch_all,
                    {.if_exists = options.if_exists,
                     .resources = options.resources,
                     .progress = options.progress});
}

}  // namespace cairn::inline v0
