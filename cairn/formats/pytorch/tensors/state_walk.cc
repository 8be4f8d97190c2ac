#include <cairn/formats/pytorch/tensors/state_walk.h>

#include <cairn/base/byte_order.h>
#include <cairn/base/errors.h>
#include <cairn/formats/pytorch/tensors/objects.h>
#include <cairn/formats/pytorch/tensors/place.h>
#include <cairn/formats/pytorch/tensors/plain_list.h>
#include <cairn/tree/leaf_value.h>

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
constexpr std::uint64_t kWorkMemory = 8;     // bytes of a value that is looked at
constexpr std::uint64_t kExtentMemory = 64;  // bytes of an extent and its stride
constexpr std::uint64_t kFewValues = 512;    // cost no more than the leaf that each look makes
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
  using Item = decltype(Member::value);

  // What stands beside the value goes to `beside`, or, without one, into a dict with the value.
  Tree walk(const Item& item, Members* beside = nullptr) {
    if (const auto* tensor = std::get_if<TorchTensor>(&item)) return tensor_leaf(*tensor);
    if (const auto* members = std::get_if<Members>(&item)) return add(*members);
    const Value value = std::get<Value>(item);
    if (on_path_[value]) return broken("it contains itself", Code::kUnimplemented);
    if (path_.size() >= kMostNested)
      return broken(fmt::format("it is nested more than {} levels deep", kMostNested),
                    Code::kUnimplemented);
    on_path_[value] = true;
    Tree tree = try_walk(value, beside);
    on_path_[value] = false;
    return tree;
  }

  // A value that is damaged is a leaf with an error, so that the others can be read.
  Tree try_walk(Value value, Members* beside) {
    Work work;
    auto described = try_call([&] { return describe(p_, value, &work); });
    // A shared value may be looked at very often.
    if (work.values > kFewValues) charge(kWorkMemory * (work.values - kFewValues));
    if (!described) return broken(described.error().message(), described.error().code());
    Described found = std::move(described).value();
    if (beside == nullptr && !found.beside.members.empty()) return add_with_beside(found);
    if (beside != nullptr) *beside = std::move(found.beside);
    return add_meaning(std::move(found.meaning));
  }

  Tree add_meaning(Meaning&& meaning) {
    return std::visit([&](auto&& found) { return add(std::forward<decltype(found)>(found)); },
                      std::move(meaning));
  }

  // A value in a list or at the root.
  Tree add_with_beside(Described& found) {
    Tree::Dict dict;
    path_.push_back({"value", KeyType::kDict});
    dict.emplace_back("value", add_meaning(std::move(found.meaning)));
    path_.pop_back();
    for (const Member& member : found.beside.members) add_member(dict, member.key, member.value);
    return Tree(std::move(dict));
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
    if (!found.empty_object.empty()) opaque_.insert(found.empty_object);
    if (found.members.empty()) return empty("Dict");
    const std::size_t types = note_keys(found);
    UniqueTexts texts;
    std::vector<std::string> added;  // keys of what stands beside members
    Tree::Dict dict;
    dict.reserve(found.members.size());
    for (const Member& member : found.members) {
      Members beside;
      add_member(dict, member.key, member.value, &beside);
      // A module is shown as its state_dict(), which has no attributes of parameters.
      if (beside.members.empty() || found.is_module) continue;
      if (added.empty())
        for (KeyText key : keys_of(found)) texts.claim(key, "");
      add_beside(dict, member, beside, texts, added);
    }
    if (types < state_.key_types.size())
      for (std::string& key : added) add_key_type(state_.key_types[types], found, std::move(key));
    return Tree(std::move(dict));
  }

  static std::vector<KeyText> keys_of(const Members& found) {
    std::vector<KeyText> keys;
    keys.reserve(found.members.size());
    for (const Member& member : found.members) keys.push_back(member.key);
    return keys;
  }

  void add_member(Tree::Dict& dict, const KeyText& key, const Item& value,
                  Members* beside = nullptr) {
    path_.push_back({key.text, KeyType::kDict});
    if (key.is_renamed) note_name(state_.renamed);
    if (key.is_escaped) note_name(state_.escaped);
    Tree child = walk(value, beside);
    path_.pop_back();
    dict.emplace_back(key.text, std::move(child));
  }

  // Attributes of "w" are "w.__dict__".
  void add_beside(Tree::Dict& dict, const Member& member, const Members& beside, UniqueTexts& texts,
                  std::vector<std::string>& added) {
    // An attribute may hold its object.
    const auto* owner = std::get_if<Value>(&member.value);
    if (owner != nullptr) on_path_[*owner] = true;
    for (const Member& extra : beside.members) {
      KeyText key{.text = member.key.text + "." + extra.key.text};
      texts.claim(key, "of the object");
      added.push_back(key.text);
      add_member(dict, key, extra.value);
    }
    if (owner != nullptr) on_path_[*owner] = false;
  }

  void note_name(std::vector<std::string>& names) {
    names.push_back(param_name(path_));
    charge(kKeyMemory + names.back().size());
  }

  Tree add(const Sequence& found) {
    if (found.items.empty()) return empty(found.is_tuple ? "Tuple" : "List");
    if (found.items.size() > kMostInList && std::ranges::all_of(found.items, [&](Value item) {
          return p_.kind(item) <= Kind::kByteArray;
        }))
      if (auto one = add_plain(found)) return *std::move(one);
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

  // A list with very many plain values; nullopt if each becomes a leaf.
  std::optional<Tree> add_plain(const Sequence& found) {
    for (const Value item : found.items)
      if (p_.kind(item) == Kind::kText) charge(p_.text(item).size());
    charge(sizeof(std::uint64_t) * found.items.size());
    auto list = plain_list(p_, found.items);
    if (!list) {
      // A leaf for each, as in short lists, while that leaves memory for others.
      const std::uint64_t most = left_ / 4 * 3 / (kLeafMemory + kKeyMemory * (path_.size() + 1));
      if (found.items.size() <= most) return std::nullopt;
      return broken(fmt::format("a list of {} values of several types, or of long integers or "
                                "bytes; there is memory for {} of those",
                                found.items.size(), most),
                    Code::kUnimplemented);
    }
    RawLeaf leaf = new_leaf(std::string(found.is_tuple ? kTupleOfNumbers : kListOfNumbers));
    if (list->dtype) {
      leaf.info.dtype = *list->dtype;
      leaf.info.dtype_name = dtype_name(*list->dtype);
      leaf.info.element_size = dtype_size(*list->dtype);
    } else {
      leaf.info.kind = LeafKind::kString;
      leaf.info.typestr = "string";
      leaf.info.dtype_name = "string";
    }
    leaf.info.shape = {static_cast<std::int64_t>(found.items.size())};
    leaf.info.nbytes = list->bytes.size();
    leaf.array.own = std::move(list->bytes);
    leaf.array.big_endian = kBigEndianMachine;
    return add_leaf(std::move(leaf));
  }

  // Notes the types of keys that are not all str. Returns the index of the note, if it is new.
  std::size_t note_keys(const Members& found) {
    const std::size_t index = state_.key_types.size();
    const std::string& first = found.members.front().key.type;
    const bool is_one = have_one_type(found);
    if (is_one && first == "str") return index;
    DictKeyTypes types;
    for (const Key& key : path_) types.dict.push_back(key.text);
    if (is_one)
      types.type = first;
    else
      list_types(types, found);
    state_.key_types.push_back(std::move(types));
    return index;
  }

  static bool have_one_type(const Members& found) {
    return std::ranges::all_of(found.members, [&](const Member& member) {
      return member.key.type == found.members.front().key.type;
    });
  }
  static void list_types(DictKeyTypes& types, const Members& found) {
    for (const Member& member : found.members)
      types.types.emplace_back(member.key.text, member.key.type);
  }
  // Adds a str to the keys of a dict.
  static void add_key_type(DictKeyTypes& types, const Members& found, std::string key) {
    if (types.types.empty()) list_types(types, found);
    types.type.clear();
    types.types.emplace_back(std::move(key), "str");
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
    leaf.array.big_endian = kBigEndianMachine;
    return add_leaf(std::move(leaf));
  }

  Tree add(const Text& text) {
    if (text.is_escaped) note_name(state_.escaped);
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
    leaf.array.axes = std::move(value.axes);
    charge(kExtentMemory * value.shape.size());
    leaf.info.shape = std::move(value.shape);
    return add_leaf(std::move(leaf));
  }

  Tree add(TorchTensor&& tensor) { return tensor_leaf(std::move(tensor)); }

  Tree tensor_leaf(TorchTensor tensor) {
    auto bytes = try_call([&] { return memory_of(tensor); });
    if (!bytes) return broken(bytes.error().message(), bytes.error().code());
    RawLeaf leaf = element_leaf(tensor.element, tensor.shape);
    leaf.info.nbytes = bytes.value();
    charge(4 * tensor.storage.key.size());
    return add_leaf(std::move(leaf), std::move(tensor));
  }

  Tree add(const MetaTensor& tensor) {
    RawLeaf leaf = element_leaf(tensor.element, tensor.shape);
    leaf.unreadable = "it has no values: it was on PyTorch's device \"meta\"";
    return add_leaf(std::move(leaf));
  }

  Tree add(const Opaque& object) {
    opaque_.insert(object.name);
    charge(4 * object.name.size());
    RawLeaf leaf = new_leaf(object.name);
    leaf.info.kind = LeafKind::kCustom;
    leaf.unreadable = fmt::format("an object of {}, which Cairn does not read{}{}", object.name,
                                  object.why.empty() ? "" : ": ", object.why);
    return add_leaf(std::move(leaf));
  }

  Tree broken(const std::string& why, Code code) {
    charge(why.size());
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
    if (shape.size() > kMostDimensions)
      leaf.unreadable =
          fmt::format("it has {} dimensions; Cairn reads up to {}", shape.size(), kMostDimensions);
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
