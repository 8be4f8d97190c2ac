// msgpack.cc -- converts a parsed msgpack object to a list of leaves with their paths.
#include <cairn/tree/msgpack/msgpack.h>

#include <cairn/tree/names.h>
#include <cairn/tree/python_number.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace cairn::inline v0 {
namespace {

// Hostile bytes could give a deep path to each of millions of one-byte leaves. Paths and leaves may
// therefore take at most a multiple of the input's size; valid data stays far below it.
constexpr std::uint64_t kListerFreeBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kListerBytesPerByte = 64;

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
  explicit Lister(std::uint64_t input_bytes)
      : budget_(kListerFreeBytes + kListerBytesPerByte * input_bytes) {}

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

  [[nodiscard]] std::vector<MsgpackLeaf> take() && { return std::move(leaves_); }

 private:
  void below(Key key, const Tree& child) {
    path_bytes_ += sizeof(Key) + key.text.size();
    path_.push_back(std::move(key));
    walk(child);
    path_bytes_ -= sizeof(Key) + path_.back().text.size();
    path_.pop_back();
  }

  void add(const Tree& tree) {
    const std::uint64_t cost = sizeof(MsgpackLeaf) + path_bytes_;
    if (cost > budget_)
      throw Error(Code::kDataLoss,
                  leaf_text(path_) + ": more leaves and names than an input of this size can hold");
    budget_ -= cost;
    leaves_.push_back(leaf_of(tree));
    leaves_.back().path = path_;
  }

  std::uint64_t budget_;
  KeyPath path_;
  std::uint64_t path_bytes_ = 0;
  std::vector<MsgpackLeaf> leaves_;
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

std::vector<MsgpackLeaf> msgpack_leaves(const Tree& parsed, std::uint64_t input_bytes) {
  Lister lister(input_bytes);
  lister.walk(parsed);
  return std::move(lister).take();
}

std::vector<MsgpackLeaf> decode_msgpack(ByteView bytes, const MsgpackInput& input) {
  return msgpack_leaves(parse_msgpack(bytes, input),
                        std::min<std::uint64_t>(bytes.size(), input.stored.value_or(bytes.size())));
}

}  // namespace cairn::inline v0
