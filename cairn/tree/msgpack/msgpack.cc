// msgpack.cc -- converts a parsed msgpack object to a list of leaves with their paths, or to the
// tree that was serialized.
#include <cairn/tree/msgpack/msgpack.h>

#include <cairn/array/arena.h>
#include <cairn/base/executor.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace cairn::inline v0 {
namespace {

// Hostile bytes could give a deep path to each of millions of one-byte leaves. Paths and leaves may
// therefore take at most a multiple of the input's size; valid data stays far below it.
constexpr std::uint64_t kListerFreeBytes = std::uint64_t{256} << 20U;
constexpr std::uint64_t kListerBytesPerByte = 64;
constexpr std::size_t kCopyRun = std::size_t{4} << 20U;  // bytes that one thread copies at a time

// ---- as a list ----

template <class T>
MsgpackLeaf number(MsgpackKind kind, DType dtype, const T& value) {
  MsgpackLeaf leaf{.kind = kind,
                   .dtype = dtype,
                   .dtype_name = std::string(dtype_name(dtype)),
                   .element_size = sizeof(T)};
  std::memcpy(leaf.value.data(), &value, sizeof(T));
  return leaf;
}

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
  if (const auto* truth = std::get_if<bool>(&tree.value()))
    return number(MsgpackKind::kScalar, DType::kBool, *truth);
  if (const auto* i = std::get_if<std::int64_t>(&tree.value()))
    return number(MsgpackKind::kScalar, DType::kInt64, *i);
  if (const auto* u = std::get_if<std::uint64_t>(&tree.value()))
    return number(MsgpackKind::kScalar, DType::kUint64, *u);
  if (const auto* real = std::get_if<double>(&tree.value()))
    return number(MsgpackKind::kScalar, DType::kFloat64, *real);
  if (const auto* z = std::get_if<std::complex<double>>(&tree.value()))
    return number(MsgpackKind::kComplex, DType::kComplex128, *z);
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
                  path_text(path_) + ": more leaves and names than an input of this size can hold");
    budget_ -= cost;
    leaves_.push_back(leaf_of(tree));
    leaves_.back().path = path_;
  }

  std::uint64_t budget_;
  KeyPath path_;
  std::uint64_t path_bytes_ = 0;
  std::vector<MsgpackLeaf> leaves_;
};

// ---- as a tree ----

class Restorer {
 public:
  explicit Restorer(std::shared_ptr<const void> owner) : owner_(std::move(owner)) {}

  void restore(Tree& tree) {
    collect(tree);
    const auto shared = [&](std::uint64_t sum, const Tree* node) {
      const auto& leaf = *node->custom<MsgpackLeaf>();
      return is_array(leaf) && !lies_well(leaf) ? sum + ArrayArena::shared_bytes(leaf.nbytes())
                                                : sum;
    };
    ArrayArena arena(std::accumulate(leaves_.begin(), leaves_.end(), std::uint64_t{0}, shared));
    for (Tree* node : leaves_) {
      // a copy that keeps the leaf alive while its node changes
      const auto holder = std::get<CustomLeaf>(node->value());
      node->value() = value_of(*holder.get<MsgpackLeaf>(), arena);
    }
    default_executor().for_each(copies_.size(), [&](std::size_t i) {
      std::memcpy(copies_[i].to, copies_[i].from, copies_[i].size);
    });
  }

 private:
  struct Copy {
    const std::byte* from;
    std::byte* to;
    std::size_t size;
  };

  void collect(Tree& tree) {
    if (auto* dict = std::get_if<Tree::Dict>(&tree.value()))
      for (auto& member : *dict) collect(member.second);
    else if (auto* list = std::get_if<Tree::List>(&tree.value()))
      for (auto& item : *list) collect(item);
    else if (auto* tuple = std::get_if<Tree::Tuple>(&tree.value()))
      for (auto& item : tuple->items) collect(item);
    else if (tree.custom<MsgpackLeaf>() != nullptr)
      leaves_.push_back(&tree);
  }

  static bool is_array(const MsgpackLeaf& leaf) {
    return leaf.kind == MsgpackKind::kArray ||
           (leaf.kind == MsgpackKind::kNumpyScalar && leaf.dtype == DType::kOpaque);
  }

  // Whether the elements can be used in place.
  [[nodiscard]] bool lies_well(const MsgpackLeaf& leaf) const {
    const std::size_t unit =
        leaf.dtype == DType::kOpaque ? 1 : std::clamp<std::size_t>(leaf.element_size, 1, 8);
    return owner_ != nullptr && leaf.pieces.size() == 1 &&
           reinterpret_cast<std::uintptr_t>(leaf.pieces[0].data()) % unit == 0;
  }

  Tree::Value value_of(const MsgpackLeaf& leaf, ArrayArena& arena) {
    if (leaf.kind == MsgpackKind::kString) return std::string(as_text(leaf.pieces[0]));
    if (leaf.kind == MsgpackKind::kBytes)
      return Bytes(leaf.pieces[0].begin(), leaf.pieces[0].end());
    if (!is_array(leaf)) {
      NumpyScalar scalar{.dtype = leaf.dtype};
      std::copy(leaf.pieces[0].begin(), leaf.pieces[0].end(), scalar.value.begin());
      return scalar;
    }
    if (lies_well(leaf))
      return Array(leaf.dtype, leaf.element_size, leaf.shape, owner_, leaf.pieces[0].data());
    auto [array, out] = arena.allocate(leaf.dtype, leaf.element_size, leaf.shape);
    std::byte* to = out.data;
    for (const ByteView piece : leaf.pieces) {
      for (std::size_t at = 0; at < piece.size(); at += kCopyRun)
        copies_.push_back({piece.data() + at, to + at, std::min(kCopyRun, piece.size() - at)});
      to += piece.size();
    }
    return std::move(array);
  }

  std::shared_ptr<const void> owner_;
  std::vector<Tree*> leaves_;
  std::vector<Copy> copies_;
};

}  // namespace

std::string_view kind_name(MsgpackKind kind) {
  constexpr std::array<std::string_view, 10> kNames = {"np.ndarray", "np.generic", "scalar",
                                                       "complex", "string",
                                                       // in the order of the enum
                                                       "bytes", "None", "Dict", "List", "Tuple"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::uint64_t MsgpackLeaf::nbytes() const {
  if (kind == MsgpackKind::kScalar || kind == MsgpackKind::kComplex) return element_size;
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

Tree restore_msgpack(ByteView bytes, const std::shared_ptr<const void>& owner) {
  Tree tree = parse_msgpack(bytes);
  Restorer(owner).restore(tree);
  return tree;
}

}  // namespace cairn::inline v0
