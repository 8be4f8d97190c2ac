// restore.cc -- makes the tree that was serialized. Arrays are used in place or copied.
#include <cairn/array/arena.h>
#include <cairn/array/box.h>
#include <cairn/base/byte_order.h>
#include <cairn/base/executor.h>
#include <cairn/error.h>
#include <cairn/msgpack.h>
#include <cairn/tree/msgpack/msgpack.h>
#include <cairn/tree/msgpack/numpy_types.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

constexpr std::size_t kCopyRun = std::size_t{4} << 20U;  // bytes that one thread copies at a time

class Restorer {
 public:
  explicit Restorer(std::shared_ptr<const void> owner) : owner_(std::move(owner)) {}

  void restore(Tree& tree) {
    collect(tree);
    ArrayArena arena;
    for (const Tree* node : leaves_) {
      const auto& leaf = *node->custom<MsgpackLeaf>();
      if (is_array(leaf) && !lies_well(leaf)) arena.expect(leaf.nbytes());
    }
    for (Tree* node : leaves_) {
      // a copy that keeps the leaf alive while its node changes
      const auto holder = std::get<CustomLeaf>(node->value());
      node->value() = value_of(*holder.get<MsgpackLeaf>(), arena);
    }
    default_executor().for_each(copies_.size(), [&](std::size_t i) {
      std::memcpy(copies_[i].to, copies_[i].from, copies_[i].size);
    });
    for (const MutableArrayView& array : copied_) copy_elements_swapped(as_const(array), array);
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
    return leaf.kind == MsgpackKind::kArray && leaf.dtype != DType::kOpaque;
  }

  // Whether the elements can be used in place.
  [[nodiscard]] bool lies_well(const MsgpackLeaf& leaf) const {
    const std::size_t unit = std::clamp<std::size_t>(leaf.element_size, 1, 8);
    const bool is_native = !kBigEndianMachine || leaf.element_size == 1;
    return owner_ != nullptr && is_native && leaf.pieces.size() == 1 &&
           reinterpret_cast<std::uintptr_t>(leaf.pieces[0].data()) % unit == 0;
  }

  static Bytes joined(const MsgpackLeaf& leaf) {
    Bytes bytes;
    bytes.reserve(leaf.nbytes());
    for (const ByteView piece : leaf.pieces) bytes.insert(bytes.end(), piece.begin(), piece.end());
    return bytes;
  }

  static MsgpackTimestamp timestamp(const MsgpackLeaf& leaf) {
    MsgpackTimestamp made;
    std::memcpy(&made.seconds, leaf.value.data(), sizeof made.seconds);
    std::memcpy(&made.nanoseconds, leaf.value.data() + sizeof made.seconds,
                sizeof made.nanoseconds);
    return made;
  }

  static NumpyArray numpy_array(const MsgpackLeaf& leaf) {
    if (std::string why = why_unreadable(leaf); !why.empty())
      throw Error(Code::kUnimplemented, std::move(why));
    return {leaf.dtype_name, leaf.shape, joined(leaf), leaf.kind == MsgpackKind::kNumpyScalar};
  }

  Tree::Value value_of(const MsgpackLeaf& leaf, ArrayArena& arena) {
    if (leaf.kind == MsgpackKind::kString) return std::string(as_text(leaf.pieces[0]));
    if (leaf.kind == MsgpackKind::kBytes) return joined(leaf);
    if (leaf.kind == MsgpackKind::kTimestamp) return CustomLeaf::of(timestamp(leaf));
    if (leaf.dtype == DType::kOpaque) return CustomLeaf::of(numpy_array(leaf));
    if (!is_array(leaf)) {
      NumpyScalar scalar{.dtype = leaf.dtype};
      std::copy(leaf.pieces[0].begin(), leaf.pieces[0].end(), scalar.value.begin());
      if (kBigEndianMachine) {
        const MutableArrayView value =
            make_view(MutableByteView(scalar.value).first(leaf.element_size), leaf.dtype, Shape{});
        copy_elements_swapped(as_const(value), value);
      }
      return scalar;
    }
    if (lies_well(leaf))
      return Array(leaf.dtype, leaf.element_size, leaf.shape, owner_, leaf.pieces[0].data());
    auto [array, out] = arena.allocate(leaf.dtype, leaf.element_size, leaf.shape);
    if (kBigEndianMachine) copied_.push_back(out);
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
  std::vector<MutableArrayView> copied_;  // of a big-endian machine, to be swapped
};

}  // namespace

Tree msgpack_restore(ByteView bytes, const std::shared_ptr<const void>& owner,
                     MsgpackDialect dialect) {
  Tree tree = parse_msgpack(bytes, {.integer_keys = dialect != MsgpackDialect::kOrbax});
  Restorer(owner).restore(tree);
  return tree;
}

}  // namespace cairn::inline v0
