// array.cc -- opens arrays, and maps arrays that are stored raw.
#include <cairn/zarr/read/array.h>

#include <cairn/array/box.h>
#include <cairn/error.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/read/decode.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

// Reads from a stored value. The code reads the index and its checksum with this function instead
// of from the mapped value: another program may truncate the file at any time.
using ReadValueFn = std::function<void(std::uint64_t offset, MutableByteView out)>;

// Returns the part of `value` that holds the elements, if they are stored raw. `at` is the offset
// of `value` in the stored value. Throws data_loss for a damaged value.
std::optional<ByteView> raw_elements(const CodecChain& chain, ByteView value, std::uint64_t at,
                                     const ReadValueFn& read) {
  if (!chain.order.empty()) return std::nullopt;
  if (chain.raw()) {
    if (value.size() == chain.nbytes) return value;
    throw Error(Code::kDataLoss, "chunk has " + std::to_string(value.size()) + " bytes, expected " +
                                     std::to_string(chain.nbytes));
  }
  if (!chain.shard || chain.shard->chunk_shape != chain.shape) return std::nullopt;
  const ShardIndexRange range = shard_index_range(*chain.shard, value.size());
  Bytes encoded(range.length);
  read(at + range.offset, encoded);
  const auto index = decode_shard_index(*chain.shard, encoded, value.size());
  if (index[0].absent()) return std::nullopt;
  return raw_elements(chain.shard->codecs, value.subspan(index[0].offset, index[0].nbytes),
                      at + index[0].offset, read);
}

void check_stored_bools(std::uint64_t at, std::uint64_t length, const ReadValueFn& read) {
  constexpr std::uint64_t kBlock = std::uint64_t{1} << 20U;
  Bytes block(std::min(kBlock, length));
  for (std::uint64_t done = 0; done < length; done += kBlock) {
    const MutableByteView part = MutableByteView(block).first(std::min(kBlock, length - done));
    read(at + done, part);
    check_bools(DType::kBool, part);
  }
}

// Returns whether a value of this chain can hold its elements raw. Cheap; true only for chains that
// raw_elements accepts.
bool may_be_raw(const CodecChain& chain) {
  if (!chain.order.empty()) return false;
  if (!chain.shard) return chain.raw();
  return chain.shard->chunk_shape == chain.shape && may_be_raw(chain.shard->codecs);
}

}  // namespace

// Like TensorStore, adds '/' only if the path does not end in one, and takes "/" as "".
void ZarrArray::put_key_prefix(std::string_view name, std::string& key) {
  key = name == "/" ? "" : name;
  if (!key.empty() && key.back() != '/') key += '/';
}

std::string ZarrArray::key_prefix(std::string_view name) {
  constexpr std::size_t kRest = 16;  // callers append ".zarray" or a chunk's short key
  std::string key;
  key.reserve(name.size() + kRest);
  put_key_prefix(name, key);
  return key;
}

std::string ZarrArray::metadata_key(std::string_view name, int zarr_format) {
  std::string key = key_prefix(name);
  key += zarr_format == 3 ? "zarr.json" : ".zarray";
  return key;
}

ZarrArray ZarrArray::open(StorePtr store, std::string name, int zarr_format, MetadataCache* cache) {
  for (const int format : {2, 3}) {
    if (zarr_format != 0 && zarr_format != format) continue;
    const std::string key = metadata_key(name, format);
    const auto value = store->read_at_most(key, kMaxMetadataBytes);
    if (!value) continue;
    auto metadata = with_context([&] { return store->describe(key); },
                                 [&]() -> std::shared_ptr<const ArrayMetadata> {
                                   const std::string_view text = as_text(*value);
                                   if (cache) return cache->parse(format, text);
                                   return std::make_shared<const ArrayMetadata>(
                                       format == 3 ? parse_zarr_json(text) : parse_zarray(text));
                                 });
    return {std::move(store), std::move(name), std::move(metadata)};
  }
  throw Error(Code::kNotFound, "no Zarr array at " +
                                   store->describe(metadata_key(name, zarr_format == 3 ? 3 : 2)) +
                                   (zarr_format == 0 ? " (or zarr.json)" : ""));
}

ZarrArray::ZarrArray(StorePtr store, std::string name,
                     std::shared_ptr<const ArrayMetadata> metadata)
    : store_(std::move(store)), name_(std::move(name)), metadata_(std::move(metadata)) {}

std::string ZarrArray::chunk_key(std::span<const std::int64_t> chunk) const {
  std::string key = key_prefix(name_);
  key += metadata_->keys.key(chunk);
  return key;
}

void ZarrArray::read(const Box& box, const MutableArrayView& out, MissingChunk missing,
                     const ReadContext& context) const {
  const BoxRead read{.array = this, .box = &box, .out = &out, .label = name_, .missing = missing};
  read_boxes(std::span(&read, 1), context);
}

std::optional<Array> ZarrArray::try_view() const {
  const ArrayMetadata& metadata = *metadata_;
  if (Box::whole(metadata.shape).empty())
    return Array::allocate(metadata.dtype, metadata.element_size, metadata.shape);
  if (metadata.chunk_shape != metadata.shape || !may_be_raw(metadata.codecs)) return std::nullopt;
  const std::string key = chunk_key(std::vector<std::int64_t>(metadata.shape.size(), 0));
  const auto value = store_->map(key);
  if (!value) return std::nullopt;
  const ReadValueFn read = [&](std::uint64_t offset, MutableByteView out) {
    if (!store_->read_into(key, offset, out))
      throw Error(Code::kDataLoss, "the chunk was removed while Cairn read it");
  };
  return with_context([&] { return store_->describe(key); },
                      [&]() -> std::optional<Array> {
                        const auto elements = raw_elements(metadata.codecs, value->bytes, 0, read);
                        if (!elements) return std::nullopt;
                        if (metadata.dtype == DType::kBool)
                          check_stored_bools(
                              static_cast<std::uint64_t>(elements->data() - value->bytes.data()),
                              elements->size(), read);
                        return Array(metadata.dtype, metadata.element_size, metadata.shape,
                                     value->owner, elements->data());
                      });
}

}  // namespace cairn::inline v0::zarr
