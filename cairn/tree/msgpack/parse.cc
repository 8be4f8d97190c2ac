// parse.cc -- parses the bytes in one pass. It copies only names, and checks every length against
// the bytes that remain.
#include <cairn/base/byte_io.h>
#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>
#include <cairn/tree/depth.h>
#include <cairn/tree/msgpack/head.h>
#include <cairn/tree/msgpack/msgpack.h>
#include <cairn/tree/msgpack/numpy_types.h>
#include <cairn/tree/names.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace cairn::inline v0 {
namespace {

using Type = MsgpackType;
using Head = MsgpackHead;

// Nodes may take at most a multiple of the input's size; checkpoints stay far below it.
constexpr std::uint64_t kFreeBytes = std::uint64_t{64} << 20U;
constexpr std::uint64_t kBytesPerByte = 160;
constexpr std::size_t kMostDimensions = 64;  // of an array of NumPy

// An integer from 0 to 2^63 - 1, as shapes have them.
std::int64_t to_extent(const Head& head) {
  if (head.type != Type::kUint || head.length > static_cast<std::uint64_t>(INT64_MAX))
    data_loss("an extent of a shape is not an integer from 0 to 2^63 - 1");
  return static_cast<std::int64_t>(head.length);
}

// The kinds of msgpack's timestamps, by their number of bytes.
constexpr std::size_t kTimestamp32 = 4, kTimestamp64 = 8, kTimestamp96 = 12;
constexpr std::uint64_t kMostNanoseconds = 999'999'999;

// The number of elements of a shape. A file cannot hold more than 2^63 - 1.
std::uint64_t count_elements(const Shape& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const auto n : shape)
    if (__builtin_mul_overflow(count, n, &count))
      data_loss(fmt::format("a shape {} overflows 64 bits", shape_text(shape)));
  return static_cast<std::uint64_t>(count);
}

void set_opaque_size(MsgpackLeaf& leaf, std::uint64_t nbytes) {
  // The type is unknown: derive the size of its elements from the number of bytes.
  const auto count = count_elements(leaf.shape);
  if (count == 0 ? nbytes != 0 : nbytes % count != 0)
    data_loss(
        fmt::format("{} bytes do not hold {} elements of type {}", nbytes, count, leaf.dtype_name));
  leaf.element_size = count == 0 ? 0 : nbytes / count;
}

void set_element_type(MsgpackLeaf& leaf, std::string_view name, std::uint64_t nbytes) {
  if (!valid_utf8(name)) data_loss("the dtype name is not UTF-8");
  if (name.empty()) data_loss("the dtype of an ndarray has no name");
  if (leaf.shape.size() > kMostDimensions)
    data_loss(fmt::format("an ndarray has {} dimensions; NumPy has at most {}", leaf.shape.size(),
                          kMostDimensions));
  leaf.dtype_name = name;
  const auto dtype = dtype_from_name(name);
  leaf.dtype = dtype.value_or(DType::kOpaque);
  const auto size = dtype ? dtype_size(*dtype) : size_in_numpy(name);
  if (!size) return set_opaque_size(leaf, nbytes);
  leaf.element_size = *size;
  const auto count = count_elements(leaf.shape);
  // Divide, because the product of two hostile numbers may wrap around.
  if (nbytes % leaf.element_size != 0 || nbytes / leaf.element_size != count)
    data_loss(fmt::format("{} bytes do not hold an array of shape {} of {}", nbytes,
                          shape_text(leaf.shape), name));
}

// ---- chunked arrays ----

std::int64_t chunked_extent(const Tree& tree) {
  const auto* extent = std::get_if<std::int64_t>(&tree.value());
  if (extent == nullptr || *extent < 0)
    data_loss("an extent of a chunked array is not an integer from 0 to 2^63 - 1");
  return *extent;
}

const MsgpackLeaf& flat_chunk(const Tree& tree, std::size_t number) {
  const auto* chunk = tree.custom<MsgpackLeaf>();
  if (chunk == nullptr || chunk->kind != MsgpackKind::kArray || chunk->shape.size() != 1)
    data_loss(fmt::format("chunk {} is not a flat ndarray", number));
  return *chunk;
}

// The members "0", "1", ... in this order, without gaps.
std::vector<const Tree*> numbered_members(const Tree& tree) {
  std::vector<const std::pair<std::string, Tree>*> members;
  if (const auto* dict = tree.dict())
    for (const auto& member : *dict) members.push_back(&member);
  else if (const auto* empty = std::get_if<EmptyNode>(&tree.value());
           empty == nullptr || *empty != EmptyNode::kDict)
    data_loss("a chunked array is not made of extents and ndarrays");
  std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) {
    return std::pair(a->first.size(), std::string_view(a->first)) <
           std::pair(b->first.size(), std::string_view(b->first));
  });
  std::vector<const Tree*> values;
  for (const auto* member : members) {
    if (member->first != std::to_string(values.size()))
      data_loss(fmt::format("part {} of a chunked array is missing", values.size()));
    values.push_back(&member->second);
  }
  return values;
}

MsgpackLeaf join_chunks(const Tree::Dict& members) {
  MsgpackLeaf joined{.kind = MsgpackKind::kArray};
  std::vector<const Tree*> chunks;
  bool has_shape = false;
  for (const auto& [name, value] : members) {  // both packages ignore other members
    if (name == "chunks") chunks = numbered_members(value);
    if (name != "shape") continue;
    has_shape = true;
    for (const Tree* extent : numbered_members(value))
      joined.shape.push_back(chunked_extent(*extent));
  }
  if (!has_shape) data_loss("a chunked array without a shape");
  if (chunks.empty()) data_loss("a chunked array without chunks");
  std::uint64_t nbytes = 0;
  const std::string& type = flat_chunk(*chunks[0], 0).dtype_name;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const MsgpackLeaf& chunk = flat_chunk(*chunks[i], i);
    if (chunk.dtype_name != type)
      data_loss(fmt::format("the dtype of chunk {} differs from that of chunk 0", i));
    joined.pieces.insert(joined.pieces.end(), chunk.pieces.begin(), chunk.pieces.end());
    nbytes += chunk.nbytes();
  }
  set_element_type(joined, type, nbytes);
  return joined;
}

void refuse_repeated_keys(const Tree::Dict& dict) {
  std::vector<std::string_view> keys;
  keys.reserve(dict.size());
  for (const auto& member : dict) keys.emplace_back(member.first);
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
    data_loss(fmt::format("the key \"{}\" appears twice", *twice));
}

// ---- objects ----

class MsgpackParser {
 public:
  MsgpackParser(ByteView bytes, const MsgpackInput& input)
      : limit_(kFreeBytes + kBytesPerByte * std::min<std::uint64_t>(
                                                bytes.size(), input.stored.value_or(bytes.size()))),
        load_(input.load),
        lost_(input.lost),
        integer_keys_(input.integer_keys),
        in_(bytes) {}

  Tree run() {
    return with_context([&] { return leaf_text(path_); },
                        [&] {
                          if (lost_) return run_leniently();
                          Tree tree = value(in_, Place::kDict);
                          in_.finish();
                          return tree;
                        });
  }

 private:
  // Chunked arrays are joined only below a chain of maps: writers do not chunk arrays below lists
  // and tuples.
  enum class Place : std::uint8_t { kDict, kSequence };

  Tree run_leniently() {
    Tree tree = value(in_, Place::kDict);
    if (is_dropped_) tree = Tree(Tree::Dict{});
    if (!is_stopped_ && in_.remaining() > 0)
      lost_({}, fmt::format("{} bytes follow the object", in_.remaining()));
    return tree;
  }

  // Reads one member of a container at this depth. Returns false if nothing more can be read. If
  // damage is no error, a member that is lost sets is_dropped_, which `read` must take back.
  template <class F>
  bool read_member(F read) {
    if (!lost_) {
      read();
      return true;
    }
    const std::size_t depth = path_.size();
    try {
      read();
      return !is_stopped_;
    } catch (const Error& e) {
      if (e.code() == Code::kIo || e.code() == Code::kUnavailable) throw;
      lost_(path_, e.message());
      path_.resize(depth);
      is_stopped_ = true;
      is_dropped_ = false;
      return false;
    }
  }
  // Nobody can tell which of two members of one name is right.
  void lose_repeated_keys(Tree::Dict& dict) {
    std::map<std::string_view, std::size_t> counts;
    for (const auto& member : dict) ++counts[member.first];
    std::set<std::string> repeated;
    for (const auto& [key, count] : counts)
      if (count > 1) repeated.emplace(key);
    for (const std::string& key : repeated) {
      path_.push_back({key, KeyType::kDict});
      lost_(path_, fmt::format("the key \"{}\" appears more than once", key));
      path_.pop_back();
    }
    std::erase_if(dict, [&](const auto& member) { return repeated.contains(member.first); });
    drop_if_empty(dict.empty());
  }
  // A container of which nothing is left is lost, too.
  void drop_if_empty(bool is_empty) { is_dropped_ = is_dropped_ || (is_empty && lost_); }

  Tree value(ByteReader& in, Place place) {
    spend(sizeof(Tree));
    const Head head = read_head(in);
    switch (head.type) {
      case Type::kNil:
        return {};
      case Type::kBool:
        return Tree(head.truth);
      case Type::kInt:
        return Tree(head.integer);
      case Type::kUint:
        return head.length > INT64_MAX ? Tree(head.length)
                                       : Tree(static_cast<std::int64_t>(head.length));
      case Type::kFloat:
        return Tree(head.number);
      case Type::kText:
        return text_leaf(as_bytes(read_text(in, head.length)));
      case Type::kBin:
        return bin_leaf(in.take(head.length));
      case Type::kArray:
        return head.length == 0 ? Tree(EmptyNode::kList) : Tree(sequence(in, head.length));
      case Type::kMap:
        return map(in, head.length, place);
      case Type::kExt:
        return extension(head.ext, in.take(head.length));
    }
    return {};
  }

  // Reads the head of an object, which has at most ten bytes.
  Head read_head(ByteReader& in) {
    if (load_) {
      ByteReader ahead = in;
      load_(ahead.take(std::min<std::size_t>(ahead.remaining(), 10)));
    }
    return read_msgpack_head(in);
  }
  std::string_view read_text(ByteReader& in, std::uint64_t length) {
    const ByteView text = in.take(length);
    if (load_) load_(text);
    return as_text(text);
  }

  void spend(std::uint64_t cost) {
    spent_ += cost;
    if (spent_ > limit_) throw Error(Code::kUnimplemented, msgpack_limit_text(limit_));
  }

  Tree leaf(MsgpackLeaf made) {
    spend(sizeof(MsgpackLeaf) + made.shape.size() * sizeof(std::int64_t) +
          made.pieces.size() * sizeof(ByteView));
    return Tree(CustomLeaf::of(std::move(made)));
  }

  Tree text_leaf(ByteView text) {
    if (!valid_utf8(as_text(text))) data_loss("a string is not UTF-8");
    return leaf({.kind = MsgpackKind::kString, .dtype_name = "string", .pieces = {text}});
  }

  Tree bin_leaf(ByteView bytes) {
    return leaf({.kind = MsgpackKind::kBytes,
                 .dtype = DType::kUint8,
                 .dtype_name = std::string(dtype_name(DType::kUint8)),
                 .element_size = 1,
                 .shape = {static_cast<std::int64_t>(bytes.size())},
                 .pieces = {bytes}});
  }

  // Parses the value of `key`. On an error path_ stays as it is, for the message.
  Tree below(Key key, ByteReader& in, Place place) {
    if (path_.size() >= kMaxTreeDepth)
      data_loss(fmt::format("nested deeper than {} levels", kMaxTreeDepth));
    path_.push_back(std::move(key));
    Tree child = value(in, place);
    path_.pop_back();
    return child;
  }

  Tree::List sequence(ByteReader& in, std::uint64_t n) {
    if (!lost_ && n > in.remaining())
      data_loss(fmt::format("an array of {} elements, but {} bytes are left", n, in.remaining()));
    Tree::List items;
    const auto read = [&](std::uint64_t i) {
      Tree item = below({std::to_string(i), KeyType::kSequence}, in, Place::kSequence);
      // The items after a lost one keep their numbers.
      if (std::exchange(is_dropped_, false)) item = Tree(EmptyNode::kNone);
      items.push_back(std::move(item));
    };
    for (std::uint64_t i = 0; i < n; ++i)
      if (!read_member([&] { read(i); })) break;
    drop_if_empty(items.empty());
    return items;
  }

  std::string read_key(ByteReader& in) {
    const Head head = read_head(in);
    if (head.type == Type::kUint || head.type == Type::kInt) return integer_key(head);
    if (head.type != Type::kText && head.type != Type::kBin)
      data_loss("a key is not a string or an integer");
    const std::string_view text = read_text(in, head.length);
    if (!valid_utf8(text)) data_loss("a key is not UTF-8");
    return std::string(text);
  }

  [[nodiscard]] std::string integer_key(const Head& head) const {
    std::string digits =
        head.type == Type::kUint ? std::to_string(head.length) : std::to_string(head.integer);
    if (!integer_keys_)
      data_loss(fmt::format("the key {} is an integer; Orbax reads only strings as keys", digits));
    return digits;
  }

  Tree map(ByteReader& in, std::uint64_t n, Place place) {
    if (!lost_ && n > in.remaining() / 2)
      data_loss(fmt::format("a map of {} pairs, but {} bytes are left", n, in.remaining()));
    if (n == 0) return Tree(EmptyNode::kDict);
    Tree::Dict dict;
    bool chunked = false;
    const auto read = [&] {
      std::string key = read_key(in);
      spend(sizeof(std::string) + key.size());
      chunked = chunked || key == kMsgpackChunkMarker;
      Tree child = below({key, KeyType::kDict}, in, place);
      if (!std::exchange(is_dropped_, false)) dict.emplace_back(std::move(key), std::move(child));
    };
    for (std::uint64_t i = 0; i < n; ++i)
      if (!read_member(read)) break;
    drop_if_empty(dict.empty());
    if (chunked && is_stopped_) {  // a part of an array is not the array
      is_dropped_ = true;
      return {};
    }
    if (lost_) lose_repeated_keys(dict);
    refuse_repeated_keys(dict);
    return chunked && place == Place::kDict ? leaf(join_chunks(dict)) : Tree(std::move(dict));
  }

  Tree extension(int code, ByteView content) {
    ByteReader in(content);
    const auto read = [&] {
      Tree tree = extension_content(code, in);
      if (!is_stopped_) in.finish();
      return tree;
    };
    if (!lost_) return read();
    const std::size_t depth = path_.size();
    auto tree = try_call(read);
    if (tree) return std::move(tree).value();
    // The objects behind it are where its length says.
    path_.resize(depth);
    lost_(path_, tree.error().message());
    is_dropped_ = true;
    return {};
  }

  Tree extension_content(int code, ByteReader& in) {
    switch (code) {
      case kMsgpackArray:
        return array(in, MsgpackKind::kArray);
      case kMsgpackNumpyScalar:
        return array(in, MsgpackKind::kNumpyScalar);
      case kMsgpackComplex:
        return complex(in);
      case kMsgpackTuple:
        return tuple(in);
      case kMsgpackTimestamp:
        return timestamp(in);
      default:
        throw Error(Code::kUnimplemented,
                    fmt::format("msgpack extension type {} is not one of flax's or Orbax's", code));
    }
  }

  void expect_array(ByteReader& in, std::uint64_t n, std::string_view what) {
    const Head head = read_head(in);
    if (head.type != Type::kArray || head.length != n)
      data_loss(fmt::format("{} is not a msgpack array of {}", what, n));
  }

  Tree array(ByteReader& in, MsgpackKind kind) {
    expect_array(in, 3, "an ndarray");
    MsgpackLeaf made{.kind = kind};
    const Head shape = read_head(in);
    if (shape.type != Type::kArray || shape.length > in.remaining())
      data_loss("the shape of an ndarray is not an array of integers");
    for (std::uint64_t d = 0; d < shape.length; ++d) made.shape.push_back(to_extent(read_head(in)));
    const Head name = read_head(in);
    if (name.type != Type::kText && name.type != Type::kBin)
      data_loss("the dtype of an ndarray is not a name");
    const std::string_view dtype = read_text(in, name.length);
    const Head data = read_head(in);
    if (data.type != Type::kBin && data.type != Type::kText)
      data_loss("the values of an ndarray are not bytes");
    made.pieces.push_back(in.take(data.length));
    set_element_type(made, dtype, data.length);
    if (kind == MsgpackKind::kNumpyScalar && !made.shape.empty())
      data_loss("a NumPy scalar has a shape");
    return leaf(std::move(made));
  }

  double read_real(ByteReader& in) {
    const Head head = read_head(in);
    if (head.type == Type::kFloat) return head.number;
    if (head.type == Type::kUint) return static_cast<double>(head.length);
    if (head.type == Type::kInt) return static_cast<double>(head.integer);
    data_loss("part of a complex number is not a number");
  }

  Tree complex(ByteReader& in) {
    expect_array(in, 2, "a complex number");
    const double real = read_real(in);
    const double imaginary = read_real(in);
    return Tree(std::complex(real, imaginary));
  }

  Tree tuple(ByteReader& in) {
    const Head head = read_head(in);
    if (head.type != Type::kArray) data_loss("a tuple is not a msgpack array");
    if (head.length == 0) return Tree(EmptyNode::kTuple);
    return Tree(Tree::Tuple{sequence(in, head.length)});
  }

  Tree timestamp(ByteReader& in) {
    const std::size_t size = in.remaining();
    std::uint64_t seconds = 0, nanoseconds = 0;
    if (size == kTimestamp32) {
      seconds = in.u32_be();
    } else if (size == kTimestamp64) {
      const std::uint64_t both = in.u64_be();
      nanoseconds = both >> kTimestampSecondBits;
      seconds = both & ((std::uint64_t{1} << kTimestampSecondBits) - 1);
    } else if (size == kTimestamp96) {
      nanoseconds = in.u32_be();
      seconds = in.u64_be();
    } else {
      data_loss(fmt::format("a timestamp has {} bytes, not 4, 8 or 12", size));
    }
    if (nanoseconds > kMostNanoseconds)
      data_loss(fmt::format("a timestamp has {} nanoseconds, more than 999999999", nanoseconds));
    MsgpackLeaf made{.kind = MsgpackKind::kTimestamp,
                     .dtype = DType::kInt64,
                     .dtype_name = std::string(dtype_name(DType::kInt64)),
                     .element_size = sizeof seconds,
                     .shape = {2}};
    std::memcpy(made.value.data(), &seconds, sizeof seconds);
    std::memcpy(made.value.data() + sizeof seconds, &nanoseconds, sizeof nanoseconds);
    return leaf(std::move(made));
  }

  std::uint64_t limit_, spent_ = 0;  // of the nodes, in bytes
  const std::function<void(ByteView)>& load_;
  const std::function<void(const KeyPath&, const std::string&)>& lost_;
  bool is_stopped_ = false;  // nothing more can be read
  bool is_dropped_ = false;  // what was read last is lost
  bool integer_keys_;
  ByteReader in_;
  KeyPath path_;
};

}  // namespace

Tree parse_msgpack(ByteView bytes, const MsgpackInput& input) {
  return MsgpackParser(bytes, input).run();
}

}  // namespace cairn::inline v0
