// distributed_file.cc -- cuts tensors into chunks and lays the archives out.
#include <cairn/formats/pytorch/write/distributed_file.h>

#include <cairn/array/byte_count.h>
#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/pickle/pickle_writer.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree/leaf_value.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

// The folder of the members of an archive that is saved to a stream.
constexpr const char* kTop = "archive";

// The boxes of the grid, in C order. Chunks at the end of a dimension are smaller.
class ChunkGrid {
 public:
  ChunkGrid(const Shape& shape, const Shape& chunk)
      : shape_(shape), chunk_(chunk), origin_(shape.size(), 0) {}

  [[nodiscard]] Box box() const {
    Box box{.origin = origin_, .shape = shape_};
    for (std::size_t i = 0; i < shape_.size(); ++i)
      box.shape[i] = std::min(chunk_[i], shape_[i] - origin_[i]);
    return box;
  }
  // Goes to the next box; false at the end.
  bool next() {
    for (std::size_t i = shape_.size(); i-- > 0;) {
      origin_[i] += chunk_[i];
      if (origin_[i] < shape_[i]) return true;
      origin_[i] = 0;
    }
    return false;
  }

 private:
  const Shape& shape_;
  const Shape& chunk_;
  std::vector<std::int64_t> origin_;
};

// Those of dicts inside the value at the path.
std::vector<DictKeyTypes> key_types_below(const std::vector<DictKeyTypes>& all,
                                          const KeyPath& path) {
  std::vector<DictKeyTypes> below;
  for (const DictKeyTypes& types : all) {
    const bool is_below = types.dict.size() >= path.size() &&
                          std::equal(path.begin(), path.end(), types.dict.begin(),
                                     [](const Key& key, const std::string& text) {
                                       return key.text == text;
                                     });
    if (!is_below) continue;
    DictKeyTypes& one = below.emplace_back(types);
    one.dict.erase(one.dict.begin(),
                   one.dict.begin() + static_cast<std::ptrdiff_t>(path.size()));
  }
  return below;
}

}  // namespace

DistributedFile::DistributedFile(std::span<const StateEntry> entries,
                                 std::span<const TensorSource> sources,
                                 const std::vector<DictKeyTypes>& key_types,
                                 const ChunkRules& rules)
    : entries_(entries),
      sources_(sources),
      key_types_(key_types),
      rules_(rules),
      tensors_(entries.size()) {
  const auto add_all = [&](bool is_tensor, auto add) {
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].is_tensor == is_tensor)
        with_context([&] { return entries[i].name; }, [&] { add(i); });
  };
  add_all(false, [&](std::size_t i) { add_object(i); });
  add_all(true, [&](std::size_t i) { add_chunks(i); });
  first_storage_.push_back(placements_.size());
}

DistributedFile::Elements DistributedFile::elements_of(const Tree& value) {
  if (const auto* leaf = value.custom<SourceLeaf>()) {
    const TensorSource& source = sources_[leaf->index];
    return {leaf->index, source.dtype, source.shape, source.cut};
  }
  Array array;
  if (const auto* scalar = std::get_if<NumpyScalar>(&value.value()))
    array = array_of(*scalar);
  else if (const auto* sharded = value.custom<ShardedArray>())
    array = gather_shards(*sharded);
  else
    array = *value.array();
  Elements elements{sources_.size() + arrays_.size(), array.dtype(), array.shape(), 0};
  arrays_.push_back(std::move(array));
  return elements;
}

void DistributedFile::add_object(std::size_t entry) {
  PickledState state = pickle_object(entry);
  const std::vector<Storage> storages = state.storages;
  const std::size_t arrays = arrays_.size();
  std::ranges::move(state.arrays, std::back_inserter(arrays_));
  const PartArchive made = archive_of_object(std::move(state));
  add_part(entry, std::nullopt, made);
  for (std::size_t i = 0; i < storages.size(); ++i) {
    std::size_t source = storages[i].source;
    if (source >= sources_.size()) source += arrays;
    const DType dtype = source < sources_.size() ? sources_[source].dtype
                                                 : arrays_[source - sources_.size()].dtype();
    add_storage({source, std::nullopt}, dtype, storages[i].nbytes, 0, made.begins[i]);
  }
}

void DistributedFile::add_chunks(std::size_t entry) {
  const Elements elements = elements_of(*entries_[entry].value);
  if (const std::string why = tensor_obstacle(elements.dtype, elements.shape); !why.empty())
    invalid_argument(why + " cannot be written: PyTorch has no such tensors");
  tensors_[entry] = elements;
  const Shape chunk = chunk_shape(elements);
  ChunkGrid grid(elements.shape, chunk);
  do {
    const Box box = grid.box();
    const bool is_whole = box.shape == elements.shape;
    const PartArchive made = archive_of_chunk(entry, box);
    add_part(entry, box, made);
    add_storage({elements.source, is_whole ? std::nullopt : std::optional(box)}, elements.dtype,
                stored_bytes(elements.dtype, box.shape), is_whole ? elements.cut : 0,
                made.begins.front());
  } while (grid.next());
}

void DistributedFile::add_part(std::size_t entry, std::optional<Box> box,
                               const PartArchive& made) {
  first_storage_.push_back(placements_.size());
  parts_.push_back({.entry = entry,
                    .box = std::move(box),
                    .offset = size_,
                    .length = made.archive.size()});
  size_ += made.archive.size();
}

void DistributedFile::add_storage(const Stored& stored, DType dtype, std::uint64_t nbytes,
                                  std::uint64_t cut, std::uint64_t begin) {
  const bool packed = is_packed(dtype);
  placements_.push_back({.tensor = stored_.size(),
                         .offset = parts_.back().offset + begin,
                         .nbytes = packed ? 2 * nbytes : nbytes,
                         .element_size = dtype_size(dtype),
                         .cut = cut,
                         .packed = packed});
  stored_.push_back(stored);
}

Shape DistributedFile::chunk_shape(const Elements& elements) const {
  Shape chunk = elements.shape;
  if (elements.source < rules_.shapes.size() && !rules_.shapes[elements.source].empty())
    chunk = rules_.shapes[elements.source];
  else if (const std::uint64_t bytes = byte_count(chunk, elements.dtype);
           !chunk.empty() && bytes > rules_.chunk_bytes) {
    const std::uint64_t row = bytes / static_cast<std::uint64_t>(chunk[0]);
    chunk[0] = static_cast<std::int64_t>(std::max<std::uint64_t>(1, rules_.chunk_bytes / row));
  }
  // Two elements that share a byte stay together.
  if (is_packed(elements.dtype)) chunk.back() += chunk.back() % 2;
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
  for (const Storage& storage : state.storages)
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
  made.begins.push_back(made.archive.add_storage(stored_bytes(dtype, box.shape)));
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
