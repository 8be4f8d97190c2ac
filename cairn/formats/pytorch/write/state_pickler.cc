// state_pickler.cc -- Source of the rules: what torch 2.13 writes, read with Python's pickletools.
#include <cairn/formats/pytorch/write/state_pickler.h>

#include <cairn/array/byte_count.h>
#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/pytorch/tensors/element.h>
#include <cairn/formats/pytorch/write/state_entries.h>
#include <cairn/orbax/sharding.h>
#include <cairn/tree/leaf_value.h>
#include <cairn/tree/names.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <utility>

namespace cairn::inline v0::pytorch {
namespace {

// The shape as PyTorch has it: two elements of 4 bits are one element of its type.
Shape torch_shape(const TorchElement& element, std::span<const std::int64_t> shape) {
  Shape out(shape.begin(), shape.end());
  if (element.in_byte > 1) out.back() /= element.in_byte;
  return out;
}

void write_tuple(pickle::PickleWriter& out, std::span<const std::int64_t> values) {
  if (values.size() > 3) out.open();
  for (const std::int64_t value : values) out.integer(value);
  out.close_tuple(values.size());
}

// The steps between elements of a tensor in C order.
std::vector<std::int64_t> contiguous_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

class StatePickler {
 public:
  StatePickler(std::span<const TensorSource> sources, const std::vector<DictKeyTypes>& key_types)
      : sources_(sources) {
    for (const DictKeyTypes& types : key_types) key_types_.emplace(types.dict, &types);
  }

  PickledState run(const Tree& tree) {
    with_context([&] { return leaf_text(path_); }, [&] { value(tree); });
    state_.pickle = std::move(out_).take();
    return std::move(state_);
  }

 private:
  void value(const Tree& tree) {
    std::visit([&](const auto& v) { put(v); }, tree.value());
  }

  // ---- leaves ----

  void put(bool truth) { out_.boolean(truth); }
  void put(std::int64_t i) { out_.integer(i); }
  void put(std::uint64_t u) { out_.integer(u); }
  void put(double real) { out_.real(real); }
  void put(const std::complex<double>& z) {
    out_.global("__builtin__", "complex");
    out_.real(z.real());
    out_.real(z.imag());
    out_.close_tuple(2);
    out_.call();
  }
  void put(const std::string& text) {
    if (!valid_utf8(text)) invalid_argument("a string is not UTF-8, which a pickle requires");
    out_.text(text);
  }
  void put(const Bytes& bytes) { out_.bytes(bytes); }
  void put(const NumpyScalar& scalar) { put(array_of(scalar)); }
  void put(const Placeholder& /*value*/) { refuse_leaf("a placeholder (Ellipsis)"); }
  void put(EmptyNode node) {
    switch (node) {
      case EmptyNode::kNone:
        return out_.none();
      case EmptyNode::kList:
        return out_.list(0, {});
      case EmptyNode::kTuple:
        return out_.empty_tuple();
      case EmptyNode::kDict:
      case EmptyNode::kNamedTuple:
        return out_.dict(0, {});
    }
  }
  void put(const CustomLeaf& custom) {
    if (const auto* source = custom.get<SourceLeaf>()) return put_source(*source);
    const auto* sharded = custom.get<ShardedArray>();
    if (sharded == nullptr) refuse_leaf("a leaf of a custom C++ type");
    if (!sharded->random_key_impl.empty())
      invalid_argument("a typed PRNG key cannot be written; write its key data");
    put(gather_shards(*sharded));
  }

  void put(const Array& array) {
    check_tensor(array.dtype(), array.shape());
    const ByteView bytes = array.bytes();
    const auto [known, is_new] = array_keys_.try_emplace(
        {bytes.data(), bytes.size(), array.dtype()}, state_.storages.size());
    // Empty arrays have no bytes to share.
    std::size_t key = known->second;
    if (is_new || bytes.empty()) {
      key = add_storage(sources_.size() + state_.arrays.size(), array.dtype(), array.shape());
      state_.arrays.push_back(array);
    }
    write_tensor(out_, array.dtype(), array.shape(), std::to_string(key));
  }

  void put_source(const SourceLeaf& leaf) {
    if (leaf.index >= sources_.size())
      invalid_argument(fmt::format("source {} is out of range: there are {} sources", leaf.index,
                                   sources_.size()));
    if (leaf.as != SourceLeaf::As::kArray)
      invalid_argument("the bytes of a bytes object must be in the tree");
    const TensorSource& source = sources_[leaf.index];
    check_tensor(source.dtype, source.shape);
    const auto [known, is_new] = source_keys_.try_emplace(leaf.index, state_.storages.size());
    if (is_new) add_storage(leaf.index, source.dtype, source.shape);
    write_tensor(out_, source.dtype, source.shape, std::to_string(known->second));
  }

  static void check_tensor(DType dtype, std::span<const std::int64_t> shape) {
    if (const std::string why = tensor_obstacle(dtype, shape); !why.empty())
      invalid_argument(why + " cannot be written: PyTorch has no such tensors");
  }

  std::size_t add_storage(std::size_t source, DType dtype, std::span<const std::int64_t> shape) {
    state_.storages.push_back({source, torch_nbytes(dtype, shape)});
    return state_.storages.size() - 1;
  }

  [[noreturn]] static void refuse_leaf(std::string_view what) {
    invalid_argument(
        fmt::format("{} cannot be written: torch.load(weights_only=True) reads tensors, numbers, "
                    "texts, bytes, None, and dicts, lists and tuples of them",
                    what));
  }

  // ---- containers ----

  void put(const Tree::List& list) {
    nested([&] { out_.list(list.size(), [&](std::size_t i) { item(list[i], i); }); });
  }
  void put(const Tree::Tuple& tuple) {
    nested([&] {
      if (tuple.items.size() > 3) out_.open();
      for (std::size_t i = 0; i < tuple.items.size(); ++i) item(tuple.items[i], i);
      out_.close_tuple(tuple.items.size());
    });
  }
  void put(const Tree::NamedTuple& tuple) {
    nested([&] {
      out_.dict(tuple.fields.size(), [&](std::size_t i) { entry(tuple.fields[i], nullptr); });
    });
  }
  void put(const Tree::Dict& dict) {
    nested([&] {
      const DictKeyTypes* types = types_here();
      out_.dict(dict.size(), [&](std::size_t i) { entry(dict[i], types); });
    });
  }

  void item(const Tree& tree, std::size_t index) {
    path_.push_back({std::to_string(index), KeyType::kSequence});
    value(tree);
    path_.pop_back();
  }
  void entry(const std::pair<std::string, Tree>& member, const DictKeyTypes* types) {
    path_.push_back({member.first, KeyType::kDict});
    write_key(member.first, types);
    value(member.second);
    path_.pop_back();
  }

  template <class Write>
  void nested(Write write) {
    if (path_.size() >= kMostLevels)
      invalid_argument(fmt::format("the tree has more than {} levels", kMostLevels));
    write();
  }

  [[nodiscard]] const DictKeyTypes* types_here() const {
    if (key_types_.empty()) return nullptr;
    std::vector<std::string> keys;
    for (const Key& key : path_) keys.push_back(key.text);
    const auto found = key_types_.find(keys);
    return found == key_types_.end() ? nullptr : found->second;
  }

  // A key of a type that PyTorch's pickles do not have stays text.
  void write_key(const std::string& key, const DictKeyTypes* types) {
    if (!valid_utf8(key)) invalid_argument("a key is not UTF-8, which a pickle requires");
    std::string_view type = "str";
    if (types != nullptr && !types->type.empty()) type = types->type;
    if (types != nullptr)
      for (const auto& [name, type_of_key] : types->types)
        if (name == key) type = type_of_key;
    if (type == "bool" && (key == "True" || key == "False")) return out_.boolean(key == "True");
    if (type == "NoneType" && key == "None") return out_.none();
    const char* end = key.data() + key.size();
    std::int64_t whole = 0;
    if (type == "int" && std::from_chars(key.data(), end, whole).ptr == end)
      return out_.integer(whole);
    double real = 0;
    if (type == "float" && std::from_chars(key.data(), end, real).ptr == end)
      return out_.real(real);
    out_.text(key);
  }

  std::span<const TensorSource> sources_;
  std::map<std::vector<std::string>, const DictKeyTypes*> key_types_;  // by dict
  pickle::PickleWriter out_;
  KeyPath path_;
  PickledState state_;
  std::map<std::size_t, std::size_t> source_keys_;  // source -> storage
  // the bytes of an array -> storage
  std::map<std::tuple<const std::byte*, std::size_t, DType>, std::size_t> array_keys_;
};

}  // namespace

std::string tensor_obstacle(DType dtype, std::span<const std::int64_t> shape) {
  const auto element = element_of_type(dtype);
  if (!element) return fmt::format("elements of type {}", dtype_name(dtype));
  if (element->in_byte > 1 && (shape.empty() || shape.back() % 2 != 0))
    return fmt::format(
        "a last dimension of an odd number of elements of type {}, two of which are "
        "one element of PyTorch,",
        dtype_name(dtype));
  return "";
}

std::uint64_t torch_nbytes(DType dtype, std::span<const std::int64_t> shape) {
  const std::uint64_t bytes = byte_count(shape, dtype);
  return bytes / element_of_type(dtype)->in_byte;
}

bool is_packed_type(DType dtype) { return element_of_type(dtype)->in_byte > 1; }

void write_tensor(pickle::PickleWriter& out, DType dtype, std::span<const std::int64_t> shape,
                  const std::string& key) {
  const TorchElement element = *element_of_type(dtype);
  const std::string storage_class = storage_class_of(element);
  const Shape sizes = torch_shape(element, shape);
  const auto count = static_cast<std::uint64_t>(element_count(sizes));
  out.global("torch._utils", storage_class.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  out.open();
  out.open();
  out.text("storage");
  if (storage_class.empty())
    out.global("torch.storage", "UntypedStorage");
  else
    out.global("torch", storage_class);
  out.storage_key(key);
  out.text("cpu");
  out.integer(storage_class.empty() ? count * element.size : count);
  out.close_tuple(5);
  out.persistent();
  out.integer(std::uint64_t{0});  // the first element
  write_tuple(out, sizes);
  write_tuple(out, contiguous_strides(sizes));
  out.boolean(false);                        // requires_grad
  out.global("collections", "OrderedDict");  // the hooks: none
  out.empty_tuple();
  out.call();
  if (storage_class.empty()) out.global("torch", element.name);
  out.close_tuple(storage_class.empty() ? 7 : 6);
  out.call();
}

PickledState pickle_state(const Tree& tree, std::span<const TensorSource> sources,
                          const std::vector<DictKeyTypes>& key_types) {
  return StatePickler(sources, key_types).run(tree);
}

}  // namespace cairn::inline v0::pytorch
