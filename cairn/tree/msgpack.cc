// msgpack.cc -- one pass over the bytes; nothing is copied but names, and nothing is believed before it is there.
#include <cairn/base/byte_io.h>
#include <cairn/base/utf8.h>
#include <cairn/tree/msgpack.h>
#include <cairn/tree/msgpack_head.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace cairn {
namespace {

using Type = MsgpackType;
using Head = MsgpackHead;

constexpr int kMaxDepth = 256;
constexpr std::string_view kChunkMarker = "__msgpack_chunked_array__";
// A hostile file could name a deep path for each of millions of one-byte leaves: what paths and leaves take is bounded
// by a multiple of the file's size, which honest files stay far below.
constexpr std::uint64_t kFreeBytes = std::uint64_t{64} << 20U;
constexpr std::uint64_t kBytesPerByte = 64;

enum : std::uint8_t { kExtArray = 1, kExtComplex = 2, kExtNumpyScalar = 3, kExtTuple = 4 };

[[noreturn]] void damaged(const std::string& what) { throw Error(Code::kDataLoss, what); }

// An integer >= 0, as shapes hold them.
std::int64_t to_extent(const Head& head) {
  if (head.type != Type::kUint || head.length > static_cast<std::uint64_t>(INT64_MAX))
    damaged("an extent of a shape is no integer from 0 to 2^63 - 1");
  return static_cast<std::int64_t>(head.length);
}

template <class T>
void set_scalar(MsgpackLeaf& leaf, DType dtype, T value) {
  leaf.dtype = dtype;
  leaf.dtype_name = dtype_name(dtype);
  leaf.element_size = sizeof(T);
  std::memcpy(leaf.value.data(), &value, sizeof(T));
}

// Elements of a shape; what overflows 2^63 - 1 cannot be in a file.
std::uint64_t count_elements(const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const auto n : shape)
    if (__builtin_mul_overflow(count, n, &count)) damaged(fmt::format("a shape {} overflows 64 bits", shape_text(shape)));
  return static_cast<std::uint64_t>(count);
}

void set_opaque_size(MsgpackLeaf& leaf, std::uint64_t nbytes) {
  // A type we do not know: its elements are as large as the bytes say.
  const auto count = count_elements(leaf.shape);
  if (count == 0 ? nbytes != 0 : nbytes % count != 0)
    damaged(fmt::format("{} bytes for {} elements of type {}", nbytes, count, leaf.dtype_name));
  leaf.element_size = count == 0 ? 0 : nbytes / count;
}

void set_element_type(MsgpackLeaf& leaf, std::string_view name, std::uint64_t nbytes) {
  if (!valid_utf8(name)) damaged("the dtype name is not UTF-8");
  leaf.dtype_name = name;
  const auto dtype = dtype_from_name(name);
  leaf.dtype = dtype.value_or(DType::kOpaque);
  if (!dtype) return set_opaque_size(leaf, nbytes);
  leaf.element_size = dtype_size(*dtype);
  const auto count = count_elements(leaf.shape);
  // Divided, because the product of what a hostile file says may wrap.
  if (nbytes % leaf.element_size != 0 || nbytes / leaf.element_size != count)
    damaged(fmt::format("{} bytes for an array of shape {} of {}", nbytes, shape_text(leaf.shape), name));
}

class Decoder {
 public:
  explicit Decoder(ByteView bytes) : budget_(kFreeBytes + kBytesPerByte * bytes.size()), in_(bytes) {}

  std::vector<MsgpackLeaf> run() {
    in([&] { return path_.empty() ? std::string("the root") : path_text(path_); }, [&] { value(in_, Place::kDict); });
    in_.finish();
    return std::move(leaves_);
  }

 private:
  // Chunked arrays are put together only where a chain of maps leads to them: below lists and tuples nobody makes them.
  enum class Place : std::uint8_t { kDict, kSequence };

  void value(ByteReader& in, Place place) {
    const Head head = read_msgpack_head(in);
    switch (head.type) {
      case Type::kNil:
        add(MsgpackKind::kNone);
        return;
      case Type::kBool:
        set_scalar(add(MsgpackKind::kScalar), DType::kBool, head.truth);
        return;
      case Type::kInt:
        set_scalar(add(MsgpackKind::kScalar), DType::kInt64, head.integer);
        return;
      case Type::kUint:
        set_scalar(add(MsgpackKind::kScalar), head.length > INT64_MAX ? DType::kUint64 : DType::kInt64, head.length);
        return;
      case Type::kFloat:
        set_scalar(add(MsgpackKind::kScalar), DType::kFloat64, head.number);
        return;
      case Type::kText:
        text_leaf(in, head.length);
        return;
      case Type::kBin:
        bin_leaf(in, head.length);
        return;
      case Type::kArray:
        sequence(in, head.length, MsgpackKind::kEmptyList);
        return;
      case Type::kMap:
        map(in, head.length, place);
        return;
      case Type::kExt:
        extension(head.ext, in.take(head.length));
        return;
    }
  }

  MsgpackLeaf& add(MsgpackKind kind) {
    std::uint64_t cost = sizeof(MsgpackLeaf);
    for (const Key& key : path_) cost += sizeof(Key) + key.text.size();
    if (cost > budget_) damaged("far more leaves and names than a file of this size can hold honestly");
    budget_ -= cost;
    return leaves_.emplace_back(MsgpackLeaf{.path = path_, .kind = kind});
  }

  void text_leaf(ByteReader& in, std::uint64_t length) {
    const ByteView text = in.take(length);
    if (!valid_utf8(as_text(text))) damaged("a text is not UTF-8");
    MsgpackLeaf& leaf = add(MsgpackKind::kString);
    leaf.dtype_name = "string";
    leaf.pieces.push_back(text);
  }

  void bin_leaf(ByteReader& in, std::uint64_t length) {
    const ByteView bytes = in.take(length);
    MsgpackLeaf& leaf = add(MsgpackKind::kBytes);
    leaf.dtype = DType::kUint8;
    leaf.dtype_name = dtype_name(DType::kUint8);
    leaf.element_size = 1;
    leaf.shape = {static_cast<std::int64_t>(length)};
    leaf.pieces.push_back(bytes);
  }

  // Goes one level down with `key`, does `f`, and comes back up; an error on the way leaves the path for the message.
  template <class F>
  void below(Key key, F f) {
    if (path_.size() >= kMaxDepth) damaged(fmt::format("nested deeper than {} levels", kMaxDepth));
    path_.push_back(std::move(key));
    f();
    path_.pop_back();
  }

  void sequence(ByteReader& in, std::uint64_t n, MsgpackKind empty) {
    if (n > in.remaining()) damaged(fmt::format("an array of {} elements, but {} bytes are left", n, in.remaining()));
    if (n == 0) add(empty);
    for (std::uint64_t i = 0; i < n; ++i) below({std::to_string(i), KeyType::kSequence}, [&] { value(in, Place::kSequence); });
  }

  static std::string read_key(ByteReader& in) {
    const Head head = read_msgpack_head(in);
    if (head.type == Type::kUint) return std::to_string(head.length);
    if (head.type == Type::kInt) return std::to_string(head.integer);
    if (head.type != Type::kText && head.type != Type::kBin) damaged("a key is neither a text nor an integer");
    const std::string_view text = in.text(head.length);
    if (!valid_utf8(text)) damaged("a key is not UTF-8");
    return std::string(text);
  }

  void map(ByteReader& in, std::uint64_t n, Place place) {
    if (n > in.remaining() / 2) damaged(fmt::format("a map of {} pairs, but {} bytes are left", n, in.remaining()));
    if (n == 0) add(MsgpackKind::kEmptyDict);
    const std::size_t first_leaf = leaves_.size();
    std::vector<std::string> keys;
    for (std::uint64_t i = 0; i < n; ++i) {
      keys.push_back(read_key(in));
      below({keys.back(), KeyType::kDict}, [&] { value(in, place); });
    }
    std::sort(keys.begin(), keys.end());
    if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
      damaged(fmt::format("the key \"{}\" appears twice", *twice));
    if (place == Place::kDict && std::binary_search(keys.begin(), keys.end(), kChunkMarker)) join_chunks(first_leaf);
  }

  void extension(int code, ByteView content) {
    ByteReader in(content);
    switch (code) {
      case kExtArray:
        array(in, MsgpackKind::kArray);
        break;
      case kExtNumpyScalar:
        array(in, MsgpackKind::kNumpyScalar);
        break;
      case kExtComplex:
        complex(in);
        break;
      case kExtTuple:
        tuple(in);
        break;
      default:
        throw Error(Code::kUnimplemented, fmt::format("msgpack extension type {} is none of flax's or Orbax's", code));
    }
    in.finish();
  }

  static void expect_array(ByteReader& in, std::uint64_t n, std::string_view what) {
    const Head head = read_msgpack_head(in);
    if (head.type != Type::kArray || head.length != n) damaged(fmt::format("{} is not a msgpack array of {}", what, n));
  }

  void array(ByteReader& in, MsgpackKind kind) {
    expect_array(in, 3, "an ndarray");
    MsgpackLeaf& leaf = add(kind);
    const Head shape = read_msgpack_head(in);
    if (shape.type != Type::kArray || shape.length > in.remaining()) damaged("the shape of an ndarray is not an array of integers");
    for (std::uint64_t d = 0; d < shape.length; ++d) leaf.shape.push_back(to_extent(read_msgpack_head(in)));
    const Head name = read_msgpack_head(in);
    if (name.type != Type::kText && name.type != Type::kBin) damaged("the dtype of an ndarray is not a name");
    const std::string_view dtype = in.text(name.length);
    const Head data = read_msgpack_head(in);
    if (data.type != Type::kBin && data.type != Type::kText) damaged("the values of an ndarray are not bytes");
    leaf.pieces.push_back(in.take(data.length));
    set_element_type(leaf, dtype, data.length);
    if (kind == MsgpackKind::kNumpyScalar && !leaf.shape.empty()) damaged("a NumPy scalar has a shape");
  }

  static double read_real(ByteReader& in) {
    const Head head = read_msgpack_head(in);
    if (head.type == Type::kFloat) return head.number;
    if (head.type == Type::kUint) return static_cast<double>(head.length);
    if (head.type == Type::kInt) return static_cast<double>(head.integer);
    damaged("part of a complex number is not a number");
  }

  void complex(ByteReader& in) {
    expect_array(in, 2, "a complex number");
    const double real = read_real(in);
    const double imaginary = read_real(in);
    set_scalar(add(MsgpackKind::kComplex), DType::kComplex128, std::array{real, imaginary});
  }

  void tuple(ByteReader& in) {
    const Head head = read_msgpack_head(in);
    if (head.type != Type::kArray) damaged("a tuple is not a msgpack array");
    sequence(in, head.length, MsgpackKind::kEmptyTuple);
  }

  // The leaves from `first` on are those of a chunked array's map: they become one.
  void join_chunks(std::size_t first) {
    MsgpackLeaf joined{.path = path_, .kind = MsgpackKind::kArray};
    const std::size_t level = path_.size();
    std::vector<std::pair<std::string_view, const MsgpackLeaf*>> extents, chunks;
    for (std::size_t i = first; i < leaves_.size(); ++i) {
      const MsgpackLeaf& leaf = leaves_[i];
      const std::string& part = leaf.path[level].text;
      if (part == kChunkMarker) continue;
      if (part != "shape" && part != "chunks") damaged(fmt::format("a chunked array has an unknown member \"{}\"", part));
      if (leaf.kind == MsgpackKind::kEmptyDict && leaf.path.size() == level + 1) continue;
      if (leaf.path.size() != level + 2) damaged("a chunked array is not made of extents and ndarrays");
      (part == "shape" ? extents : chunks).emplace_back(leaf.path[level + 1].text, &leaf);
    }
    sort_numbered(extents);
    sort_numbered(chunks);
    for (const auto& extent : extents) joined.shape.push_back(scalar_extent(*extent.second));
    join_pieces(joined, chunks);
    leaves_.resize(first);
    leaves_.push_back(std::move(joined));
  }

  using Numbered = std::vector<std::pair<std::string_view, const MsgpackLeaf*>>;

  // Members must be named "0", "1", ... without a gap.
  static void sort_numbered(Numbered& members) {
    std::sort(members.begin(), members.end(),
              [](const auto& a, const auto& b) { return std::pair(a.first.size(), a.first) < std::pair(b.first.size(), b.first); });
    for (std::size_t i = 0; i < members.size(); ++i)
      if (members[i].first != std::to_string(i)) damaged(fmt::format("part {} of a chunked array is missing", i));
  }

  static std::int64_t scalar_extent(const MsgpackLeaf& leaf) {
    std::int64_t extent = -1;
    if (leaf.kind == MsgpackKind::kScalar && leaf.dtype == DType::kInt64) std::memcpy(&extent, leaf.value.data(), sizeof extent);
    if (extent < 0) damaged("an extent of a chunked array is no integer from 0 to 2^63 - 1");
    return extent;
  }

  static void join_pieces(MsgpackLeaf& joined, const Numbered& chunks) {
    if (chunks.empty()) damaged("a chunked array without chunks");
    std::uint64_t nbytes = 0;
    for (const auto& [name, chunk] : chunks) {
      if (chunk->kind != MsgpackKind::kArray || chunk->shape.size() != 1) damaged(fmt::format("chunk {} is no flat ndarray", name));
      if (chunk->dtype_name != chunks.front().second->dtype_name) damaged(fmt::format("chunk {} has another dtype than chunk 0", name));
      joined.pieces.insert(joined.pieces.end(), chunk->pieces.begin(), chunk->pieces.end());
      nbytes += chunk->nbytes();
    }
    set_element_type(joined, chunks.front().second->dtype_name, nbytes);
  }

  std::uint64_t budget_;
  ByteReader in_;
  KeyPath path_;
  std::vector<MsgpackLeaf> leaves_;
};

// One contiguous array: shared if it lies well, else copied.
Array to_array(const MsgpackLeaf& leaf, const std::shared_ptr<const void>& owner) {
  const std::size_t unit = leaf.dtype == DType::kOpaque       ? 1
                           : leaf.dtype == DType::kComplex128 ? 8
                                                              : std::min<std::size_t>(leaf.element_size, 8);
  if (leaf.pieces.size() == 1 && reinterpret_cast<std::uintptr_t>(leaf.pieces[0].data()) % std::max<std::size_t>(unit, 1) == 0)
    return Array(leaf.dtype, leaf.element_size, leaf.shape, owner, leaf.pieces[0].data());
  Array array = Array::allocate(leaf.dtype, leaf.element_size, leaf.shape);
  std::byte* to = array.mutable_view().data;
  if (leaf.kind == MsgpackKind::kComplex) std::memcpy(to, leaf.value.data(), leaf.element_size);
  for (const ByteView piece : leaf.pieces) {
    if (!piece.empty()) std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  return array;
}

template <class T>
T scalar_value(const MsgpackLeaf& leaf) {
  T value;
  std::memcpy(&value, leaf.value.data(), sizeof value);
  return value;
}

Tree::Value to_value(const MsgpackLeaf& leaf, const std::shared_ptr<const void>& owner) {
  switch (leaf.kind) {
    case MsgpackKind::kNone:
      return EmptyNode::kNone;
    case MsgpackKind::kEmptyDict:
      return EmptyNode::kDict;
    case MsgpackKind::kEmptyList:
      return EmptyNode::kList;
    case MsgpackKind::kEmptyTuple:
      return EmptyNode::kTuple;
    case MsgpackKind::kString:
      return std::string(as_text(leaf.pieces[0]));
    case MsgpackKind::kScalar:
      if (leaf.dtype == DType::kBool) return scalar_value<bool>(leaf);
      if (leaf.dtype == DType::kInt64) return scalar_value<std::int64_t>(leaf);
      if (leaf.dtype == DType::kUint64) return scalar_value<std::uint64_t>(leaf);
      return scalar_value<double>(leaf);
    case MsgpackKind::kArray:
    case MsgpackKind::kNumpyScalar:
    case MsgpackKind::kComplex:
    case MsgpackKind::kBytes:
      break;
  }
  return to_array(leaf, owner);
}

}  // namespace

std::string_view kind_name(MsgpackKind kind) {
  constexpr std::array<std::string_view, 10> kNames = {"np.ndarray", "scalar", "scalar", "scalar", "string",
                                                       "bytes",      "None",   "Dict",   "List",   "Tuple"};  // in the enum's order
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t MsgpackLeaf::nbytes() const {
  if (kind == MsgpackKind::kScalar || kind == MsgpackKind::kComplex) return element_size;
  return std::accumulate(pieces.begin(), pieces.end(), std::uint64_t{0},
                         [](std::uint64_t sum, ByteView piece) { return sum + piece.size(); });
}

std::vector<MsgpackLeaf> decode_msgpack(ByteView bytes) { return Decoder(bytes).run(); }

Tree msgpack_tree(ByteView bytes, const std::shared_ptr<const void>& owner) {
  std::vector<TreeEntry> entries;
  for (MsgpackLeaf& leaf : decode_msgpack(bytes)) {
    Tree value(to_value(leaf, owner));
    entries.push_back({std::move(leaf.path), std::move(value)});
  }
  return unflatten(std::move(entries));
}

}  // namespace cairn
