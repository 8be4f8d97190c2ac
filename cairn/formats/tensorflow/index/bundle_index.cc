// bundle_index.cc -- the messages of a TensorFlow index, the keys of slices, and the checks of a
// whole index.
//
//   BundleHeaderProto   1 num_shards   2 endianness
//                       3 VersionDef {1 producer, 2 min_consumer, 3 bad_consumers}
//   BundleEntryProto    1 dtype   2 TensorShapeProto {2 Dim {1 size, 2 name}, 3 unknown_rank}
//                       3 shard_id   4 offset   5 size   6 crc32c
//                       7 TensorSliceProto {1 Extent {1 start, 2 length}}
#include <cairn/formats/tensorflow/index/bundle_index.h>

#include <cairn/array/box.h>
#include <cairn/base/errors.h>
#include <cairn/base/memory/name_budget.h>
#include <cairn/formats/tensorflow/index/proto_wire.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace cairn::inline v0 {
namespace {

// the version of the checkpoint format that this reader implements
constexpr std::int64_t kVersion = 1;
constexpr std::int64_t kMaxShards = 1'000'000;

std::int32_t small(std::int64_t value, const char* what) {
  if (value < std::numeric_limits<std::int32_t>::min() ||
      value > std::numeric_limits<std::int32_t>::max())
    data_loss(std::string(what) + " is " + std::to_string(value));
  return static_cast<std::int32_t>(value);
}

Shape parse_shape(ByteView bytes) {
  Shape shape;
  for (ProtoReader in(bytes); in.next();) {
    if (in.number() == 3 && in.integer() != 0)
      throw Error(Code::kUnimplemented, "its rank is not known");
    if (in.number() != 2) continue;
    std::int64_t& extent = shape.emplace_back(0);
    for (ProtoReader dim(in.message()); dim.next();)
      if (dim.number() == 1) extent = dim.integer();
  }
  return shape;
}

TensorSlice parse_slice(ByteView bytes) {
  TensorSlice slice;
  for (ProtoReader in(bytes); in.next();) {
    if (in.number() != 1) continue;
    SliceExtent& extent = slice.emplace_back();
    for (ProtoReader field(in.message()); field.next();) {
      if (field.number() == 1) extent.start = field.integer();
      if (field.number() == 2) extent.length = field.integer();
    }
  }
  return slice;
}

// ---- ordered code: bytes whose order is the order of the values ----
void put_number(std::string& out, std::uint64_t value) {
  std::string digits;
  for (; value != 0; value >>= 8U) digits.insert(digits.begin(), static_cast<char>(value));
  out += static_cast<char>(digits.size());
  out += digits;
}

void put_text(std::string& out, std::string_view text) {
  for (const char c : text) {
    out += c;
    if (c == '\0') out += '\xff';
    if (c == '\xff') out += '\0';
  }
  out += std::string_view("\0\1", 2);
}

void put_signed(std::string& out, std::int64_t value) {
  // As few bytes as hold the value plus one prefix bit for each byte.
  constexpr unsigned kMost = 10;
  unsigned size = 1;
  while (
      size < kMost && 7 * size - 1 < 63 &&
      (value < -(std::int64_t{1} << (7 * size - 1)) || value >= std::int64_t{1} << (7 * size - 1)))
    ++size;
  std::array<std::uint8_t, kMost> bytes{};
  for (unsigned i = 0; i < size; ++i)
    bytes[size - 1 - i] = static_cast<std::uint8_t>(value >> std::min(8 * i, 63U));
  for (unsigned bit = 0; bit < size; ++bit)
    bytes[bit / 8] ^= static_cast<std::uint8_t>(0x80U >> bit % 8);
  for (unsigned i = 0; i < size; ++i) out += static_cast<char>(bytes[i]);
}

// ---- checks ----
void check_version(const BundleHeader& header) {
  if (header.shards < 1 || header.shards > kMaxShards)
    data_loss("the header has an invalid number of data files: " + std::to_string(header.shards));
  if (header.producer < 0)
    data_loss("the header has the invalid version " + std::to_string(header.producer));
  const auto& bad = header.bad_consumers;
  if (header.min_consumer > kVersion || std::find(bad.begin(), bad.end(), kVersion) != bad.end())
    throw Error(Code::kUnimplemented,
                "this checkpoint needs a reader of version " + std::to_string(header.min_consumer) +
                    (header.min_consumer > kVersion ? "" : ", but not one of version 1") +
                    "; this reader has version 1");
}

std::int64_t checked_count(const Shape& shape) {
  if (shape.size() > kMaxBundleRank)
    data_loss("it has " + std::to_string(shape.size()) + " dimensions");
  for (const std::int64_t extent : shape)
    if (extent < 0) data_loss("its shape is " + shape_text(shape));
  try {
    return element_count(shape);
  } catch (const Error&) {
    data_loss("its shape " + shape_text(shape) + " has more than 2^63-1 elements");
  }
}

const BundleType& checked_type(const BundleEntry& entry) {
  const BundleType* type = bundle_type(entry.dtype);
  if (type == nullptr)
    data_loss("it is of type " + std::to_string(entry.dtype) + ", which cannot be stored");
  return *type;
}

// Checks where the bytes of an entry without slices are.
void check_bytes(const BundleEntry& entry, const BundleHeader& header) {
  if (entry.shard < 0 || entry.shard >= header.shards)
    data_loss("it lies in data file " + std::to_string(entry.shard) + " of " +
              std::to_string(header.shards));
  if (entry.offset < 0 || entry.size < 0 ||
      entry.offset > std::numeric_limits<std::int64_t>::max() - entry.size)
    data_loss("it lies at byte " + std::to_string(entry.offset) + ", " +
              std::to_string(entry.size) + " bytes long");
  const BundleType& type = checked_type(entry);
  const std::int64_t count = checked_count(entry.shape);
  std::int64_t expect = 0;
  if (type.size != 0 &&
      (__builtin_mul_overflow(count, static_cast<std::int64_t>(type.size), &expect) ||
       expect != entry.size))
    data_loss("it has " + std::to_string(entry.size) + " bytes, which does not match " +
              shape_text(entry.shape) + " elements of " + std::string(type.name));
  // Each string has a length of at least one byte; a checksum of the lengths follows.
  if (entry.dtype == kBundleString &&
      (entry.size < 4 || entry.size - 4 < count || (count == 0 && entry.size != 4)))
    data_loss("it has " + std::to_string(entry.size) + " bytes, too few for " +
              std::to_string(count) + " strings");
}

Box box_of(const TensorSlice& slice, const Shape& shape) {
  const auto refuse = [&](const char* why) {
    data_loss("its slice " + slice_text(slice) + " " + why + " " + shape_text(shape));
  };
  if (slice.size() != shape.size()) refuse("does not match the rank of");
  Box box = Box::whole(shape);
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!slice[d].length) {
      if (slice[d].start != 0) refuse("has a nonzero start in a whole dimension of");
      continue;
    }
    if (slice[d].start < 0 || *slice[d].length <= 0 || slice[d].start > shape[d] ||
        *slice[d].length > shape[d] - slice[d].start)
      refuse("is not inside");
    box.origin[d] = slice[d].start;
    box.shape[d] = *slice[d].length;
  }
  return box;
}

// The axis along which the boxes have the most distinct origins. All boxes have this rank, which is
// not 0.
std::size_t longest_cut(const std::vector<const Box*>& boxes, std::size_t rank) {
  std::size_t axis = 0, most = 0;
  std::vector<std::int64_t> begins(boxes.size());
  for (std::size_t d = 0; d < rank; ++d) {
    std::transform(boxes.begin(), boxes.end(), begins.begin(),
                   [&](const Box* box) { return box->origin[d]; });
    std::sort(begins.begin(), begins.end());
    const auto distinct =
        static_cast<std::size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (distinct > most) axis = d, most = distinct;
  }
  return axis;
}

// Throws if two parts share an element. Sweeps over the boxes along the axis that separates most of
// them and compares each with those that it begins within.
void check_disjoint(const std::vector<BundlePart>& parts) {
  std::vector<const Box*> boxes;
  boxes.reserve(parts.size());
  for (const BundlePart& part : parts) boxes.push_back(&part.box);
  const auto overlap = [](const Box& a, const Box& b) {
    data_loss("its slices " + box_text(a) + " and " + box_text(b) + " overlap");
  };
  const std::size_t rank = boxes.front()->rank();
  if (rank == 0 && boxes.size() > 1) overlap(*boxes[0], *boxes[1]);
  if (rank == 0 || boxes.size() == 1) return;
  const std::size_t axis = longest_cut(boxes, rank);
  std::sort(boxes.begin(), boxes.end(),
            [&](const Box* a, const Box* b) { return a->origin[axis] < b->origin[axis]; });
  std::vector<const Box*> open;  // boxes that may reach the next one
  for (const Box* box : boxes) {
    std::erase_if(open, [&](const Box* before) {
      return before->origin[axis] + before->shape[axis] <= box->origin[axis];
    });
    for (const Box* before : open)
      if (intersect(*before, *box)) overlap(*before, *box);
    open.push_back(box);
  }
}

// Sorted by key.
using Entries = decltype(BundleTable::entries);

const BundleEntry* find_entry(const Entries& entries, std::string_view key) {
  const auto it =
      std::lower_bound(entries.begin(), entries.end(), key,
                       [](const auto& entry, std::string_view k) { return entry.first < k; });
  return it == entries.end() || it->first != key ? nullptr : &it->second;
}

// Finds the parts of a tensor in slices and records their entries in `used`.
std::vector<BundlePart> parts_of(const std::string& name, const BundleEntry& whole,
                                 const Entries& entries, std::vector<const BundleEntry*>& used) {
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(checked_count(whole.shape),
                             static_cast<std::int64_t>(checked_type(whole).size), &bytes))
    data_loss("its shape " + shape_text(whole.shape) + " has more than 2^63-1 bytes");
  std::vector<BundlePart> parts;
  for (const TensorSlice& slice : whole.slices) {
    const Box box = box_of(slice, whole.shape);
    const BundleEntry* found = find_entry(entries, slice_key(name, slice));
    if (found == nullptr) data_loss("there is no entry for its slice " + slice_text(slice));
    const BundleEntry& entry = *found;
    if (!entry.slices.empty() || entry.dtype != whole.dtype || entry.shape != box.shape)
      data_loss("the entry of its slice " + slice_text(slice) + " belongs to another tensor");
    used.push_back(&entry);
    parts.push_back({box, entry});
  }
  check_disjoint(parts);
  return parts;
}

}  // namespace

std::string slice_text(const TensorSlice& slice) {
  std::string text;
  for (const SliceExtent& extent : slice) {
    if (!text.empty()) text += ':';
    text +=
        extent.length ? std::to_string(extent.start) + "," + std::to_string(*extent.length) : "-";
  }
  return text;
}

BundleHeader parse_bundle_header(ByteView bytes) {
  BundleHeader header{.shards = 0};
  for (ProtoReader in(bytes); in.next();) {
    if (in.number() == 1) header.shards = small(in.integer(), "the number of data files");
    if (in.number() == 2) {
      if (in.integer() != 0 && in.integer() != 1)
        data_loss("unknown byte order " + std::to_string(in.integer()));
      header.big_endian = in.integer() == 1;
    }
    if (in.number() != 3) continue;
    for (ProtoReader version(in.message()); version.next();) {
      if (version.number() == 1) header.producer = small(version.integer(), "the version");
      if (version.number() == 2)
        header.min_consumer = small(version.integer(), "the least version of a reader");
      if (version.number() == 3)
        version.integers([&](std::int64_t bad) {
          header.bad_consumers.push_back(small(bad, "a version of readers"));
        });
    }
  }
  return header;
}

BundleEntry parse_bundle_entry(ByteView bytes) {
  BundleEntry entry;
  for (ProtoReader in(bytes); in.next();) {
    switch (in.number()) {
      case 1:
        entry.dtype = small(in.integer(), "the type");
        break;
      case 2:
        entry.shape = parse_shape(in.message());
        break;
      case 3:
        entry.shard = small(in.integer(), "the data file");
        break;
      case 4:
        entry.offset = in.integer();
        break;
      case 5:
        entry.size = in.integer();
        break;
      case 6:
        entry.crc32c = in.fixed32();
        break;
      case 7:
        entry.slices.push_back(parse_slice(in.message()));
        break;
      default:
        break;
    }
  }
  return entry;
}

Bytes encode_bundle_header(const BundleHeader& header) {
  ProtoWriter version;
  version.integer(1, header.producer).integer(2, header.min_consumer);
  if (!header.bad_consumers.empty()) {
    ByteWriter packed;
    for (const std::int32_t bad : header.bad_consumers)
      packed.varint(static_cast<std::uint64_t>(std::int64_t{bad}));
    version.message(3, packed.view());
  }
  ProtoWriter out;
  out.integer(1, header.shards).integer(2, header.big_endian ? 1 : 0).message(3, version.view());
  return std::move(out).take();
}

Bytes encode_bundle_entry(const BundleEntry& entry) {
  ProtoWriter shape;
  for (const std::int64_t extent : entry.shape)
    shape.message(2, ProtoWriter().integer(1, extent).view());
  ProtoWriter out;
  out.integer(1, entry.dtype)
      .message(2, shape.view())
      .integer(3, entry.shard)
      .integer(4, entry.offset)
      .integer(5, entry.size);
  out.fixed32(6, entry.crc32c);
  for (const TensorSlice& slice : entry.slices) {
    ProtoWriter extents;
    for (const SliceExtent& extent : slice) {
      ProtoWriter one;
      one.integer(1, extent.start);
      if (extent.length) one.present(2, *extent.length);
      extents.message(1, one.view());
    }
    out.message(7, extents.view());
  }
  return std::move(out).take();
}

std::string slice_key(std::string_view name, const TensorSlice& slice) {
  std::string key;
  put_number(key, 0);
  put_text(key, name);
  put_number(key, slice.size());
  for (const SliceExtent& extent : slice) {
    put_signed(key, extent.start);
    put_signed(key, extent.length.value_or(-1));
  }
  return key;
}

const BundleType* bundle_type(std::int32_t number) {
  static constexpr std::array<BundleType, 34> kTypes = {{
      {},  // 0 is not a type
      {"float", DType::kFloat32, 4, 4},
      {"double", DType::kFloat64, 8, 8},
      {"int32", DType::kInt32, 4, 4},
      {"uint8", DType::kUint8, 1, 1},
      {"int16", DType::kInt16, 2, 2},
      {"int8", DType::kInt8, 1, 1},
      {"string", {}, 0, 1},
      {"complex64", DType::kComplex64, 8, 4},
      {"int64", DType::kInt64, 8, 8},
      {"bool", DType::kBool, 1, 1},
      {"qint8", {}, 1, 1},
      {"quint8", {}, 1, 1},
      {"qint32", {}, 4, 4},
      {"bfloat16", DType::kBfloat16, 2, 2},
      {"qint16", {}, 2, 2},
      {"quint16", {}, 2, 2},
      {"uint16", DType::kUint16, 2, 2},
      {"complex128", DType::kComplex128, 16, 8},
      {"half", DType::kFloat16, 2, 2},
      {},  // 20 is a resource, which cannot be stored
      {"variant", {}, 0, 0},
      {"uint32", DType::kUint32, 4, 4},
      {"uint64", DType::kUint64, 8, 8},
      {"float8_e5m2", DType::kFloat8E5m2, 1, 1},
      {"float8_e4m3fn", DType::kFloat8E4m3fn, 1, 1},
      {"float8_e4m3fnuz", DType::kFloat8E4m3fnuz, 1, 1},
      {"float8_e4m3b11fnuz", DType::kFloat8E4m3b11fnuz, 1, 1},
      {"float8_e5m2fnuz", DType::kFloat8E5m2fnuz, 1, 1},
      {"int4", DType::kInt4, 1, 1},
      {"uint4", DType::kUint4, 1, 1},
      {"int2", DType::kInt2, 1, 1},
      {"uint2", DType::kUint2, 1, 1},
      {"float4_e2m1fn", DType::kFloat4E2m1fn, 1, 1},
  }};
  if (number < 1 || static_cast<std::size_t>(number) >= kTypes.size()) return nullptr;
  const BundleType& type = kTypes[static_cast<std::size_t>(number)];
  return type.name.empty() ? nullptr : &type;
}

BundleTable read_bundle_table(std::uint64_t size, const SstableReadFn& read) {
  BundleTable table;
  bool has_header = false;
  std::uint64_t names = 0;
  read_sstable(size, read, [&](std::string_view key, ByteView value) {
    if (key.empty()) {
      table.header =
          with_context([] { return "the header"; }, [&] { return parse_bundle_header(value); });
      has_header = true;
      return;
    }
    check_name_budget(names += key.size(), size);
    if (!has_header) data_loss("there is no header: the first key is '" + std::string(key) + "'");
    with_context([&] { return "tensor '" + std::string(key) + "'"; },
                 [&] { table.entries.emplace_back(key, parse_bundle_entry(value)); });
  });
  if (!has_header) data_loss("there is no header");
  return table;
}

BundleIndex check_bundle_table(BundleTable table) {
  check_version(table.header);
  BundleIndex index;
  index.header = std::move(table.header);
  Entries& entries = table.entries;
  // Slices have entries of their own, which sort first. So the sliced tensors are assembled before
  // it is known which entries are tensors.
  std::vector<const BundleEntry*> used;
  std::vector<std::vector<BundlePart>> sliced;
  for (const auto& [key, entry] : entries) {
    const std::string& name = key;
    const BundleEntry& of = entry;
    with_context([&] { return "tensor '" + name + "'"; },
                 [&] {
                   if (of.slices.empty()) return check_bytes(of, index.header);
                   sliced.push_back(parts_of(name, of, entries, used));
                 });
  }
  std::sort(used.begin(), used.end());
  if (std::adjacent_find(used.begin(), used.end()) != used.end())
    data_loss("a slice belongs to two tensors");
  index.tensors.reserve(entries.size() - used.size());
  auto parts = sliced.begin();
  for (auto& [key, entry] : entries) {
    if (std::binary_search(used.begin(), used.end(), &entry)) continue;
    const bool is_sliced = !entry.slices.empty();
    index.tensors.push_back({std::move(key), std::move(entry),
                             is_sliced ? std::move(*parts++) : std::vector<BundlePart>()});
  }
  return index;
}

}  // namespace cairn::inline v0
