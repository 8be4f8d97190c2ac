// bundle_index.cc -- the messages of a TensorFlow index, and the keys of slices.
//
//   BundleHeaderProto   1 num_shards   2 endianness
//                       3 VersionDef {1 producer, 2 min_consumer, 3 bad_consumers}
//   BundleEntryProto    1 dtype   2 TensorShapeProto {2 Dim {1 size, 2 name}, 3 unknown_rank}
//                       3 shard_id   4 offset   5 size   6 crc32c
//                       7 TensorSliceProto {1 Extent {1 start, 2 length}}
#include <cairn/formats/tensorflow/index/bundle_index.h>

#include <cairn/base/errors.h>
#include <cairn/base/memory/name_budget.h>
#include <cairn/formats/tensorflow/index/proto_wire.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace cairn::inline v0 {
namespace {

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

}  // namespace cairn::inline v0
