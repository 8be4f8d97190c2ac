// distributed_file.cc -- cuts tensors into chunks and lays the archives out.
#include <cairn/formats/pytorch/write/distributed_file.h>

#include <cairn/array/box.h>
#include <cairn/array/byte_count.h>
#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/pickle/pickle_writer.h>
#include <cairn/tree/leaf_value.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

// The folder of the members of an archive that is saved to a stream.
constexpr const char* kTop = "archive";

// The chunks of a box, in C order. Those at the end of a dimension are smaller.
class ChunkGrid {
 public:
  ChunkGrid(const Box& whole, const Shape& chunk)
      : whole_(whole), chunk_(chunk), offset_(chunk.size(), 0) {}

  [[nodiscard]] Box box() const {
    Box box = whole_;
    for (std::size_t i = 0; i < chunk_.size(); ++i) {
      box.origin[i] += offset_[i];
      box.shape[i] = std::min(chunk_[i], whole_.shape[i] - offset_[i]);
    }
    return box;
  }
  // Goes to the next chunk; false at the end.
  bool next() {
    for (std::size_t i = chunk_.size(); i-- > 0;) {
      offset_[i] += chunk_[i];
      if (offset_[i] < whole_.shape[i]) return true;
      offset_[i] = 0;
    }
    return false;
  }

 private:
  const Box& whole_;
  const Shape& chunk_;
  std::vector<std::int64_t> offset_;
};

// The weight of a tensor or chunk, in the line that processes share: that of a tensor is the sum of
// those of its chunks.
std::uint64_t weight_of(std::uint64_t nbytes) { return std::max<std::uint64_t>(1, nbytes); }

std::uint64_t weight_of_sources(std::span<const StateEntry> entries,
                                std::span<const TensorSource> sources) {
  std::uint64_t total = 0;
  for (const StateEntry& entry : entries) {
    const auto* leaf = entry.value->custom<SourceLeaf>();
    if (entry.is_tensor && leaf != nullptr && leaf->index < sources.size())
      total += weight_of(byte_count(sources[leaf->index].shape, sources[leaf->index].dtype));
  }
  return total;
}

// Copies a run of the elements of a box from the shards of this process.
void copy_run(const ShardedArray& array, const Box& box, const TensorPiece& piece) {
  const std::size_t size = dtype_size(array.dtype);
  MutableByteView out = piece.out;
  const auto begin = static_cast<std::int64_t>(piece.offset / size);
  for (Box part :
       boxes_of_run(box.shape, begin, begin + static_cast<std::int64_t>(out.size() / size))) {
    const std::size_t bytes = static_cast<std::size_t>(element_count(part.shape)) * size;
    const MutableArrayView view = make_view(out.first(bytes), array.dtype, part.shape);
    for (std::size_t i = 0; i < part.origin.size(); ++i) part.origin[i] += box.origin[i];
    copy_box(array, part, view);
    out = out.subspan(bytes);
  }
}

// Those of dicts inside the value at the path.
std::vector<DictKeyTypes> key_types_below(const std::vector<DictKeyTypes>& all,
                                          const KeyPath& path) {
  std::vector<DictKeyTypes> below;
  for (const DictKeyTypes& types : all) {
    const bool is_below =
        types.dict.size() >= path.size() &&
        std::equal(path.begin(), path.end(), types.dict.begin(),
                   [](const Key& key, const std::string& text) { return key.text == text; });
    if (!is_below) continue;
    DictKeyTypes& one = below.emplace_back(types);
    one.dict.erase(one.dict.begin(), one.dict.begin() + static_cast<std::ptrdiff_t>(path.size()));
  }
  return below;
}

}  // namespace

DistributedFile::DistributedFile(std::span<const StateEntry> entries,
                                 std::span<const TensorSource> sources,
                                 const std::vector<DictKeyTypes>& key_types,
                                 const ChunkRules& rules, WriterShare share)
    : entries_(entries),
      sources_(sources),
      key_types_(key_types),
      rules_(rules),
      share_(share),
      sources_line_(share.sources, weight_of_sources(entries, sources)),
      tensors_(entries.size()) {
  const auto add_all = [&](bool is_tensor, auto add) {
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].is_tensor == is_tensor)
        with_context([&] { return entries[i].name; }, [&] { add(i); });
  };
  add_all(false, [&](std::size_t i) { add_object(i); });
  add_all(true, [&](std::size_t i) { add_shards(i); });
  first_storage_.push_back(placements_.size());
}

DistributedFile::Elements DistributedFile::elements_of(const Tree& value) {
  if (const auto* leaf = value.custom<SourceLeaf>()) {
    if (leaf->index >= sources_.size()) invalid_argument("the source is out of range");
    const TensorSource& source = sources_[leaf->index];
    return {leaf->index, source.dtype, source.shape, source.cut, nullptr};
  }
  if (const auto* sharded = value.custom<ShardedArray>()) {
    if (!sharded->random_key_impl.empty())
      invalid_argument("a typed PRNG key cannot be written; write its key data");
    return {0, sharded->dtype, sharded->shape, 0, sharded};
  }
  const auto* scalar = std::get_if<NumpyScalar>(&value.value());
  Array array = scalar != nullptr ? array_of(*scalar) : *value.array();
  Elements elements{sources_.size() + arrays_.size(), array.dtype(), array.shape(), 0, nullptr};
  arrays_.push_back(std::move(array));
  return elements;
}

void DistributedFile::add_object(std::size_t entry) {
  if (!share_.has_values) return;
  PickledState state = pickle_object(entry);
  const std::vector<WrittenStorage> storages = state.storages;
  const std::size_t arrays = arrays_.size();
  std::ranges::move(state.arrays, std::back_inserter(arrays_));
  const PartArchive made = archive_of_object(std::move(state));
  add_part(entry, std::nullopt, made);
  for (std::size_t i = 0; i < storages.size(); ++i) {
    std::size_t source = storages[i].source;
    if (source >= sources_.size()) source += arrays;
    const DType dtype = source < sources_.size() ? sources_[source].dtype
                                                 : arrays_[source - sources_.size()].dtype();
    add_storage({source, std::nullopt, nullptr}, dtype, storages[i].nbytes, 0, made.begins[i]);
  }
}

void DistributedFile::add_shards(std::size_t entry) {
  const Elements elements = elements_of(*entries_[entry].value);
  if (const std::string why = tensor_obstacle(elements.dtype, elements.shape); !why.empty())
    invalid_argument(why + " cannot be written: PyTorch has no such tensors");
  tensors_[entry] = elements;
  if (elements.sharded == nullptr) return add_chunks(entry, Box::whole(elements.shape));
  const WritePlan plan =
      plan_pieces(*elements.sharded, {.replica_id = 0, .use_replica_parallel = false});
  for (const std::optional<Box>& piece : plan.pieces)
    if (piece) add_chunks(entry, *piece);
}

bool DistributedFile::is_mine(const Elements& elements, std::uint64_t nbytes) {
  if (elements.sharded != nullptr) return true;
  if (elements.source >= sources_.size()) return share_.has_values;
  return !sources_line_.next(weight_of(nbytes), 1).empty();
}

void DistributedFile::add_chunks(std::size_t entry, const Box& whole) {
  const Elements& elements = tensors_[entry];
  const Shape chunk = chunk_shape(elements, whole.shape);
  ChunkGrid grid(whole, chunk);
  do {
    const Box box = grid.box();
    if (!is_mine(elements, byte_count(box.shape, elements.dtype))) continue;
    const bool is_whole = box.shape == elements.shape;
    const PartArchive made = archive_of_chunk(entry, box);
    add_part(entry, box, made);
    const bool takes_all = is_whole && elements.sharded == nullptr;
    add_storage({elements.source, takes_all ? std::nullopt : std::optional(box), elements.sharded},
                elements.dtype, torch_nbytes(elements.dtype, box.shape),
                is_whole ? elements.cut : 0, made.begins.front());
  } while (grid.next());
}

void DistributedFile::add_part(std::size_t entry, std::optional<Box> box, const PartArchive& made) {
  first_storage_.push_back(placements_.size());
  parts_.push_back(
      {.entry = entry, .box = std::move(box), .offset = size_, .length = made.archive.size()});
  size_ += made.archive.size();
}

void DistributedFile::add_storage(const Stored& stored, DType dtype, std::uint64_t nbytes,
                                  std::uint64_t cut, std::uint64_t begin) {
  const bool packed = is_packed_type(dtype);
  placements_.push_back({.tensor = stored_.size(),
                         .offset = parts_.back().offset + begin,
                         .nbytes = packed ? 2 * nbytes : nbytes,
                         .element_size = dtype_size(dtype),
                         .cut = cut,
                         .packed = packed});
  stored_.push_back(stored);
}

Shape DistributedFile::chunk_shape(const Elements& elements, const Shape& whole) const {
  Shape chunk = whole;
  if (elements.sharded == nullptr && elements.source < rules_.shapes.size() &&
      !rules_.shapes[elements.source].empty())
    chunk = rules_.shapes[elements.source];
  else if (const std::uint64_t bytes = byte_count(chunk, elements.dtype);
           !chunk.empty() && bytes > rules_.chunk_bytes) {
    const std::uint64_t row = bytes / static_cast<std::uint64_t>(chunk[0]);
    chunk[0] = static_cast<std::int64_t>(std::max<std::uint64_t>(1, rules_.chunk_bytes / row));
  }
  // Two elements that share a byte stay together.
  if (is_packed_type(elements.dtype)) chunk.back() += chunk.back() % 2;
  for (std::int64_t& extent : chunk) extent = std::max<std::int64_t>(1, extent);
  return chunk;
}

PickledState DistributedFile::pickle_object(std::size_t entry) const {
  return pickle_state(*entries_[entry].value, sources_,
                      key_types_below(key_types_, entries_[entry].path));
}

DistributedFile::PartArchive DistributedFile::archive_of_object(PickledState state) {
  PartArchive made{TorchArchive(kTop), {}};
  made.archive.begin(std::move(state.pickle));
  for (const WrittenStorage& storage : state.storages)
    made.begins.push_back(made.archive.add_storage(storage.nbytes));
  made.archive.finish();
  return made;
}

DistributedFile::PartArchive DistributedFile::archive_of_chunk(std::size_t entry,
                                                               const Box& box) const {
  const DType dtype = tensors_[entry].dtype;
  pickle::PickleWriter out;
  write_tensor(out, dtype, box.shape, "0");
  PartArchive made{TorchArchive(kTop), {}};
  made.archive.begin(std::move(out).take());
  made.begins.push_back(made.archive.add_storage(torch_nbytes(dtype, box.shape)));
  made.archive.finish();
  return made;
}

DistributedFile::PartArchive DistributedFile::archive_of(const WrittenPart& part) const {
  return part.box ? archive_of_chunk(part.entry, *part.box)
                  : archive_of_object(pickle_object(part.entry));
}

Bytes DistributedFile::frame(std::size_t number, std::span<const std::uint32_t> checksums) const {
  // The part with the storage before the frame, and the one with the storage behind it.
  const auto part_of = [&](std::size_t storage) {
    const auto behind = std::ranges::upper_bound(first_storage_, storage);
    return static_cast<std::size_t>(behind - first_storage_.begin()) - 1;
  };
  std::size_t part = number == 0 ? 0 : part_of(number - 1);
  const std::size_t last = number == placements_.size() ? parts_.size() : part_of(number) + 1;
  Bytes out;
  for (; part < last; ++part) {
    const std::size_t first = first_storage_[part];
    const std::size_t count = first_storage_[part + 1] - first;
    const std::size_t local = number > first ? number - first : 0;
    if (local > count) continue;
    const Bytes bytes =
        archive_of(parts_[part]).archive.between(local, checksums.subspan(first, count));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  return out;
}

void DistributedFile::fetch(std::span<const TensorPiece> pieces, const FetchFn& fetch) const {
  std::vector<TensorPiece> of_sources, of_arrays;
  std::vector<ArrayView> views;
  for (const TensorPiece& piece : pieces) {
    const Stored& stored = stored_[piece.tensor];
    if (stored.sharded != nullptr) {
      copy_run(*stored.sharded, *stored.box, piece);
      continue;
    }
    const bool is_source = stored.source < sources_.size();
    TensorPiece& one = (is_source ? of_sources : of_arrays).emplace_back(piece);
    one.part = stored.box ? &*stored.box : nullptr;
    one.tensor = stored.source;
    if (is_source) continue;
    one.tensor = views.size();
    views.push_back(arrays_[stored.source - sources_.size()].view());
  }
  if (!of_sources.empty()) fetch(of_sources);
  if (!of_arrays.empty()) fetch_from(std::move(views))(of_arrays);
}

}  // namespace cairn::inline v0::pytorch
