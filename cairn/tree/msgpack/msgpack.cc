// msgpack.cc -- converts a parsed msgpack object to a list of leaves with their paths.
#include <cairn/tree/msgpack/msgpack.h>

#include <cairn/checkpoint.h>
#include <cairn/tree/names.h>
#include <cairn/tree/python_number.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace cairn::inline v0 {
namespace {

// A small input can give a deep path to each of millions of one-byte leaves. Paths and leaves may
// therefore take at most a multiple of the input's size; checkpoints stay far below it.
constexpr std::uint64_t kListerFreeBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kListerBytesPerByte = 64;
// A leaf without its path: every caller keeps a description of it.
constexpr std::uint64_t kLeafBytes = sizeof(MsgpackLeaf) + sizeof(TensorInfo);

MsgpackKind kind_of(EmptyNode node) {
  switch (node) {
    case EmptyNode::kDict:
      return MsgpackKind::kEmptyDict;
    case EmptyNode::kList:
      return MsgpackKind::kEmptyList;
    case EmptyNode::kTuple:
      return MsgpackKind::kEmptyTuple;
    default:
      return MsgpackKind::kNone;
  }
}

MsgpackLeaf leaf_of(const Tree& tree) {
  if (const auto* leaf = tree.custom<MsgpackLeaf>()) return *leaf;
  if (const auto number = number_of(tree))
    return {.kind = dtype_kind(number->dtype) == DTypeKind::kComplex ? MsgpackKind::kComplex
                                                                     : MsgpackKind::kScalar,
            .dtype = number->dtype,
            .dtype_name = std::string(dtype_name(number->dtype)),
            .element_size = dtype_size(number->dtype),
            .value = number->value};
  return {.kind = kind_of(std::get<EmptyNode>(tree.value()))};
}

class Lister {
 public:
  // Without `add` it only checks the limit.
  Lister(std::uint64_t input_bytes, std::function<void(MsgpackLeaf)> add)
      : limit_(kListerFreeBytes + kListerBytesPerByte * input_bytes), add_(std::move(add)) {}

  void walk(const Tree& tree) {
    if (const auto* dict = tree.dict()) {
      for (const auto& [key, child] : *dict) below({key, KeyType::kDict}, child);
    } else if (const auto* items = tree.tuple() != nullptr ? &tree.tuple()->items : tree.list()) {
      for (std::size_t i = 0; i < items->size(); ++i)
        below({std::to_string(i), KeyType::kSequence}, (*items)[i]);
    } else {
      add(tree);
    }
  }

 private:
  void below(Key key, const Tree& child) {
    path_bytes_ += sizeof(Key) + key.text.size();
    path_.push_back(std::move(key));
    walk(child);
    path_bytes_ -= sizeof(Key) + path_.back().text.size();
    path_.pop_back();
  }

  void add(const Tree& tree) {
    spent_ += kLeafBytes + path_bytes_;
    if (spent_ > limit_)
      throw Error(Code::kUnimplemented, leaf_text(path_) + ": " + msgpack_limit_text(limit_));
    if (!add_) return;
    MsgpackLeaf leaf = leaf_of(tree);
    leaf.path = path_;
    add_(std::move(leaf));
  }

  std::uint64_t limit_, spent_ = 0;
  std::function<void(MsgpackLeaf)> add_;
  KeyPath path_;
  std::uint64_t path_bytes_ = 0;
};

}  // namespace

std::string_view kind_name(MsgpackKind kind) {
  constexpr std::array<std::string_view, 11> kNames = {
      // in the order of the enum
      "np.ndarray", "np.generic", "scalar", "complex", "string", "bytes",
      "timestamp",  "None",       "Dict",   "List",    "Tuple"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t MsgpackLeaf::nbytes() const {
  if (kind == MsgpackKind::kScalar || kind == MsgpackKind::kComplex) return element_size;
  if (kind == MsgpackKind::kTimestamp) return value.size();
  return std::accumulate(pieces.begin(), pieces.end(), std::uint64_t{0},
                         [](std::uint64_t sum, ByteView piece) { return sum + piece.size(); });
}

std::string msgpack_limit_text(std::uint64_t bytes) {
  return "the leaves and names up to here take more than " + std::to_string(bytes) +
         " bytes of memory, the limit of Cairn for msgpack of this size";
}

void list_msgpack_leaves(const Tree& parsed, std::uint64_t input_bytes,
                         const std::function<void(MsgpackLeaf)>& add) {
  // First without the leaves, so that input beyond the limit is refused before it takes the memory.
  Lister(input_bytes, {}).walk(parsed);
  Lister(input_bytes, add).walk(parsed);
}

std::vector<MsgpackLeaf> decode_msgpack(ByteView bytes, const MsgpackInput& input) {
  std::vector<MsgpackLeaf> leaves;
  list_msgpack_leaves(parse_msgpack(bytes, input),
                      std::min<std::uint64_t>(bytes.size(), input.stored.value_or(bytes.size())),
                      [&](MsgpackLeaf leaf) { leaves.push_back(std::move(leaf)); });
  return leaves;
}

}  // namespace cairn::inline v0
