#include <cairn/formats/pytorch/tensors/state_walk.h>

#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/tensors/place.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

using pickle::Kind;
using pickle::Pickle;
using pickle::Value;

constexpr std::size_t kMostNested = 500;     // levels
constexpr std::size_t kMostInList = 20'000;  // plain values in a list; more are one leaf
constexpr std::uint64_t kLeafMemory = 1024;  // bytes, without its path
constexpr std::uint64_t kKeyMemory = 48;     // bytes, without its text
constexpr std::uint64_t kItemMemory = 8;     // bytes of an item of a container that is looked at
constexpr std::uint64_t kExtentMemory = 64;  // bytes of an extent and its stride
constexpr std::size_t kFewItems = 256;       // cost no more than the leaf that each look makes
constexpr int kWeighedLevels = 3;            // a module, its state, its parameters
constexpr std::size_t kWeighedItems = 16;
constexpr std::uint64_t kMemory = std::uint64_t{64} << 20U;

class Walk {
 public:
  Walk(const Pickle& pickle, std::uint64_t& memory)
      : p_(pickle), left_(memory), on_path_(pickle.size()) {}

  State run(Value root) {
    state_.structure = walk(root);
    state_.opaque.assign(opaque_.begin(), opaque_.end());
    return std::move(state_);
  }

 private:
  using Item = std::variant<Value, TorchTensor>;

  Tree walk(const Item& item) {
    if (const auto* tensor = std::get_if<TorchTensor>(&item)) return tensor_leaf(*tensor);
    const Value value = std::get<Value>(item);
    if (on_path_[value]) return broken("it contains itself", Code::kUnimplemented);
    if (path_.size() >= kMostNested)
      return broken(fmt::format("it is nested more than {} levels deep", kMostNested),
                    Code::kUnimplemented);
    on_path_[value] = true;
    Tree tree = try_walk(value);
    on_path_[value] = false;
    return tree;
  }

  // A value that is damaged is a leaf with an error, so that the others can be read.
  Tree try_walk(Value value) {
    charge(weight(value, kWeighedLevels));
    auto meaning = try_call([&] { return meaning_of(p_, value); });
    if (!meaning) return broken(meaning.error().message(), meaning.error().code());
    return std::visit([&](auto&& found) { return add(std::forward<decltype(found)>(found)); },
                      std::move(meaning).value());
  }

  // What it costs to look at a value again: a shared one may be looked at very often. The items of
  // a container, and of those in it that say what an object has.
  [[nodiscard]] std::uint64_t weight(Value value, int levels) const {
    if (!pickle::has_items(p_.kind(value))) return 0;
    const auto items = p_.items(value);
    std::uint64_t sum = items.size() > kFewItems ? kItemMemory * items.size() : 0;
    if (levels == 0) return sum;
    for (const Value item : items.first(std::min(items.size(), kWeighedItems)))
      sum += weight(item, levels - 1);
    return sum;
  }

  void charge(std::uint64_t bytes) {
    if (bytes > left_)
      data_loss(
          "its leaves and their names take too much memory for a pickle of this size: values are "
          "shared so that they stand for many");
    left_ -= bytes;
  }

  // ---- containers ----

  Tree add(const Members& found) {
    if (found.members.empty()) return empty("Dict");
    note_keys(found);
    Tree::Dict dict;
    dict.reserve(found.members.size());
    for (const Member& member : found.members) {
      path_.push_back({member.key.text, KeyType::kDict});
      Tree child = walk(member.value);
      path_.pop_back();
      dict.emplace_back(member.key.text, std::move(child));
    }
    return Tree(std::move(dict));
  }

  Tree add(const Sequence& found) {
    if (found.items.empty()) return empty(found.is_tuple ? "Tuple" : "List");
    if (found.items.size() > kMostInList && std::ranges::all_of(found.items, [&](Value item) {
          return p_.kind(item) <= Kind::kByteArray;
        }))
      return broken(fmt::format("a list of {} numbers or texts; Cairn reads up to {}",
                                found.items.size(), kMostInList),
                    Code::kUnimplemented);
    Tree::List list;
    list.reserve(std::min(found.items.size(), left_ / kLeafMemory));
    for (std::size_t i = 0; i < found.items.size(); ++i) {
      path_.push_back({std::to_string(i), KeyType::kSequence});
      Tree child = walk(found.items[i]);
      path_.pop_back();
      list.push_back(std::move(child));
    }
    if (found.is_tuple) return Tree(Tree::Tuple{std::move(list)});
    return Tree(std::move(list));
  }

  void note_keys(const Members& found) {
    const std::string& first = found.members.front().key.type;
    const auto has_first = [&](const Member& member) { return member.key.type == first; };
    const bool is_one = std::ranges::all_of(found.members, has_first);
    if (is_one && first == "str") return;
    DictKeyTypes types;
    for (const Key& key : path_) types.dict.push_back(key.text);
    if (is_one)
      types.type = first;
    else
      for (const Member& member : found.members)
        types.types.emplace_back(member.key.text, member.key.type);
    state_.key_types.push_back(std::move(types));
  }

  // ---- leaves ----

  Tree empty(const char* typestr) {
    RawLeaf leaf = new_leaf(typestr);
    leaf.info.kind = LeafKind::kEmpty;
    return add_leaf(std::move(leaf));
  }
  Tree add(NoValue /*none*/) { return empty("None"); }

  Tree add(bool number) { return scalar(number, "scalar"); }
  Tree add(std::int64_t number) { return scalar(number, "scalar"); }
  Tree add(std::uint64_t number) { return scalar(number, "scalar"); }
  Tree add(double number) { return scalar(number, "scalar"); }
  Tree add(const std::complex<double>& number) { return scalar(number, "complex"); }

  template <class Number>
  Tree scalar(const Number& number, const char* typestr) {
    RawLeaf leaf = new_leaf(typestr);
    set_type(leaf, dtype_of<Number>());
    leaf.info.nbytes = sizeof(number);
    leaf.array.own.resize(sizeof(number));
    std::memcpy(leaf.array.own.data(), &number, sizeof(number));
    return add_leaf(std::move(leaf));
  }

  Tree add(const Text& text) {
    RawLeaf leaf = new_leaf("string");
    leaf.info.kind = LeafKind::kString;
    leaf.info.dtype_name = "string";
    leaf.info.nbytes = text.text.size();
    const ByteView bytes = std::as_bytes(std::span(text.text));
    leaf.array.own.assign(bytes.begin(), bytes.end());
    return add_leaf(std::move(leaf));
  }

  Tree add(ByteText&& bytes) {
    RawLeaf leaf = new_leaf("bytes");
    set_type(leaf, DType::kUint8);
    leaf.info.shape = {static_cast<std::int64_t>(bytes.bytes.size())};
    leaf.info.nbytes = bytes.bytes.size();
    leaf.array.own = std::move(bytes.bytes);
    return add_leaf(std::move(leaf));
  }

  Tree add(NumpyValue&& value) {
    RawLeaf leaf = new_leaf(value.is_scalar ? "np.generic" : "np.ndarray");
    leaf.info.dtype = value.dtype;
    leaf.info.dtype_name = std::move(value.dtype_name);
    leaf.info.element_size = value.element_size;
    leaf.info.nbytes = value.bytes.size();
    leaf.array.own = std::move(value.bytes);
    leaf.array.big_endian = value.big_endian;
    leaf.unreadable = std::move(value.unreadable);
    if (value.fortran_order && value.shape.size() > 1)
      for (std::size_t d = value.shape.size(); d-- > 0;)
        leaf.array.axes.push_back(static_cast<std::uint8_t>(d));
    leaf.info.shape = std::move(value.shape);
    return add_leaf(std::move(leaf));
  }

  Tree add(TorchTensor&& tensor) { return tensor_leaf(std::move(tensor)); }

  Tree tensor_leaf(TorchTensor tensor) {
    auto bytes = try_call([&] { return memory_of(tensor); });
    if (!bytes) return broken(bytes.error().message(), bytes.error().code());
    RawLeaf leaf = element_leaf(tensor.element, tensor.shape);
    leaf.info.nbytes = bytes.value();
    return add_leaf(std::move(leaf), std::move(tensor));
  }

  Tree add(const MetaTensor& tensor) {
    RawLeaf leaf = element_leaf(tensor.element, tensor.shape);
    leaf.unreadable = "it has no values: it was on PyTorch's device \"meta\"";
    return add_leaf(std::move(leaf));
  }

  Tree add(const Opaque& object) {
    opaque_.insert(object.name);
    RawLeaf leaf = new_leaf(object.name);
    leaf.info.kind = LeafKind::kCustom;
    leaf.unreadable = fmt::format("an object of {}, which Cairn does not read{}{}", object.name,
                                  object.why.empty() ? "" : ": ", object.why);
    return add_leaf(std::move(leaf));
  }

  Tree broken(const std::string& why, Code code) {
    RawLeaf leaf = new_leaf("np.ndarray");
    leaf.info.kind = LeafKind::kUnknown;
    leaf.info.error = why;
    leaf.info.error_code = code;
    return add_leaf(std::move(leaf));
  }

  RawLeaf new_leaf(std::string typestr) {
    std::uint64_t memory = kLeafMemory;
    for (const Key& key : path_) memory += kKeyMemory + 2 * key.text.size();
    charge(memory);
    RawLeaf leaf;
    leaf.info.path = path_;
    leaf.info.name = param_name(path_);
    leaf.info.typestr = std::move(typestr);
    return leaf;
  }

  RawLeaf element_leaf(const TorchElement& element, const Shape& shape) {
    charge(kExtentMemory * shape.size());
    RawLeaf leaf = new_leaf("np.ndarray");
    leaf.info.dtype = element.dtype;
    leaf.info.dtype_name = element.name;
    leaf.info.element_size = element.size;
    leaf.info.shape = shape;
    if (element.dtype == DType::kOpaque)
      leaf.unreadable =
          fmt::format("its elements are torch.{}, a type that Cairn does not have", element.name);
    else
      leaf.info.dtype_name = dtype_name(element.dtype);
    return leaf;
  }

  static void set_type(RawLeaf& leaf, DType dtype) {
    leaf.info.dtype = dtype;
    leaf.info.dtype_name = dtype_name(dtype);
    leaf.info.element_size = dtype_size(dtype);
  }

  Tree add_leaf(RawLeaf leaf, std::optional<TorchTensor> tensor = {}) {
    charge(leaf.array.own.size());
    if (!tensor) leaf.info.stored_nbytes = leaf.array.own.size();
    state_.leaves.push_back({std::move(leaf), std::move(tensor)});
    return Tree(static_cast<std::int64_t>(state_.leaves.size() - 1));
  }

  const Pickle& p_;
  std::uint64_t& left_;  // bytes that leaves may still take
  std::vector<bool> on_path_;
  KeyPath path_;
  State state_;
  std::set<std::string> opaque_;
};

}  // namespace

State walk_state(const Pickle& pickle, Value root, std::uint64_t& memory) {
  return Walk(pickle, memory).run(root);
}

std::uint64_t walk_memory(const Pickle& pickle) { return kMemory + 8 * pickle.end(); }

}  // namespace cairn::inline v0::pytorch
