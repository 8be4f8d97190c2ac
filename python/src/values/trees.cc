// trees.cc -- trees between Python and the library. Containers are walked here and not in Python,
// because a model has tens of thousands of leaves.
#include "trees.h"

#include "arrays.h"
#include "text.h"

#include "../errors.h"

#include <cairn/error.h>
#include <cairn/orbax/pytree_args.h>
#include <cairn/orbax/sharding.h>

#include <nanobind/stl/complex.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

constexpr std::size_t kMaxDepth = 1000;  // as in the library

// A str of Python as UTF-8. Bytes that a checkpoint has held come back, as to_str() returns them.
std::string utf8_of(nb::handle str) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(str.ptr(), &size);
  if (text != nullptr) return {text, static_cast<std::size_t>(size)};
  PyErr_Clear();
  NameText name;
  if (nb::try_cast(str, name)) return name.text;
  const nb::object quoted = nb::steal(PyObject_ASCII(str.ptr()));
  throw Error(Code::kInvalidArgument,
              "the str " + nb::cast<std::string>(quoted) +
                  " cannot be stored: it has a lone surrogate, which UTF-8 lacks");
}

std::string text_of(nb::handle object) { return utf8_of(nb::str(object)); }

// Names what to do with an array whose elements no format of the library's saves holds.
[[noreturn]] void refuse_dtype(nb::handle array) {
  const nb::object dtype = array.attr("dtype");
  const auto kind = nb::cast<std::string>(dtype.attr("kind"));
  std::string advice = "convert it to an array of numbers";
  if (kind == "U") advice = "save a list of str: a.tolist()";
  if (kind == "S") advice = "save its bytes, a.view(numpy.uint8), or a list of str";
  if (kind == "M" || kind == "m")
    advice = "save its numbers, a.view(numpy.int64), and the unit beside them";
  if (kind == "V") advice = "save one array for each field, or its bytes, a.view(numpy.uint8)";
  if (kind == "f" || kind == "c")
    advice = "convert it: a.astype(numpy.float64) or numpy.complex128";
  throw Error(Code::kUnimplemented, "an array of dtype '" + text_of(dtype) +
                                        "' cannot be stored, only numbers can; " + advice);
}

// The type of a key whose text is `text`, by the name that DictKeyTypes has.
std::string key_type(nb::handle key, std::string_view text) {
  PyObject* const raw = key.ptr();
  if (PyUnicode_Check(raw)) return "str";
  if (raw == Py_None) return "NoneType";
  if (PyBool_Check(raw)) return "bool";
  if (PyFloat_Check(raw)) return "float";
  if (PyIndex_Check(raw) != 0 && is_int_text(text)) return "int";  // NumPy's, too
  const nb::handle type = key.type();
  const std::string module = text_of(nb::getattr(type, "__module__", nb::str("")));
  const std::string name = text_of(type.attr("__qualname__"));
  return module == "builtins" ? name : module + "." + name;
}

class TreeReader {
 public:
  // `key_types`: null, or gets the types of keys.
  explicit TreeReader(std::vector<DictKeyTypes>* key_types) : key_types_(key_types) {}

  Tree read(nb::handle object) {
    if (object.is_none()) return {};
    PyObject* const raw = object.ptr();
    if (PyBool_Check(raw)) return Tree(raw == Py_True);
    if (PyLong_CheckExact(raw)) return integer(object);
    if (PyFloat_CheckExact(raw)) return Tree(PyFloat_AsDouble(raw));
    if (PyUnicode_CheckExact(raw)) return Tree(utf8_of(object));
    if (PyDict_CheckExact(raw)) return dict(object);
    if (PyList_CheckExact(raw)) return Tree(Tree::List(items(object)));
    if (PyTuple_CheckExact(raw)) return Tree(Tree::Tuple{items(object)});
    if (is_numpy_array(object)) {
      if (has_masked_elements(object)) warn_of_mask();
      return array(object);
    }
    return rare(object);
  }

 private:
  // Saved as in Orbax, but not without a word.
  static void warn_of_mask() {
    if (PyErr_WarnEx(PyExc_UserWarning,
                     "a masked array is saved without its mask; save array.mask, too, or "
                     "array.filled()",
                     1) < 0)
      throw nb::python_error();
  }

  // What is checked after everything that is frequent.
  Tree rare(nb::handle object) {
    PyObject* const raw = object.ptr();
    if (raw == Py_Ellipsis) return Tree(Placeholder{});
    // numpy.str_ is also a str; Orbax stores it as one
    if (is_numpy_scalar(object))
      return PyUnicode_Check(raw) != 0 ? Tree(utf8_of(object)) : numpy_scalar(object);
    if (PyTuple_Check(raw) && nb::hasattr(object, "_fields")) return named_tuple(object);
    if (PyComplex_CheckExact(raw)) return Tree(nb::cast<std::complex<double>>(object));
    if (PyBytes_CheckExact(raw)) return bytes(object);
    ShardedArray* sharded = nullptr;
    if (nb::try_cast(object, sharded) && sharded != nullptr) return Tree(*sharded);
    LeafType* type = nullptr;
    if (nb::try_cast(object, type) && type != nullptr) return Tree(CustomLeaf::of(*type));
    ForeignArray* foreign = nullptr;
    if (nb::try_cast(object, foreign) && foreign != nullptr) return array(object);
    return converted(object);
  }

  Tree converted(nb::handle object) {
    if (!convert_.is_valid()) convert_ = nb::module_::import_("cairn._leaves").attr("convert");
    const Level level(*this);
    return read(convert(object));
  }

  // Calls cairn._leaves.convert(). Its errors take the path of the leaf, as those of read() do.
  [[nodiscard]] nb::object convert(nb::handle object) const {
    try {
      return convert_(object);
    } catch (const nb::python_error& error) {
      rethrow(error);
    }
  }

  // Counts the levels of the tree, which a cycle makes endless.
  class Level {
   public:
    explicit Level(TreeReader& reader) : reader_(reader) {
      // Not an Error: a thousand keys in front of the message would hide it.
      if (++reader_.depth_ > kMaxDepth)
        throw nb::value_error("the tree is more than 1000 levels deep; does it contain itself?");
    }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    ~Level() { --reader_.depth_; }

   private:
    TreeReader& reader_;
  };

  static Tree integer(nb::handle object) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (overflow == 0) return Tree(static_cast<std::int64_t>(value));
    if (overflow > 0) {
      const unsigned long long positive = PyLong_AsUnsignedLongLong(object.ptr());
      if (PyErr_Occurred() == nullptr) return Tree(static_cast<std::uint64_t>(positive));
      PyErr_Clear();
    }
    throw Error(Code::kInvalidArgument, "the int " + text_of(object) + " needs more than 64 bits");
  }

  static Tree bytes(nb::handle object) {
    const nb::bytes value = nb::borrow<nb::bytes>(object);
    const auto* begin = static_cast<const std::byte*>(value.data());
    return Tree(Bytes(begin, begin + value.size()));
  }

  Tree array(nb::handle object) {
    BorrowedArray borrowed = borrow_contiguous(object);
    if (borrowed.dtype == DType::kOpaque)
      refuse_dtype(nb::module_::import_("numpy").attr("asarray")(object));
    std::shared_ptr<const void> owner = owner_of(borrowed);
    return Tree(Array(borrowed.dtype, borrowed.element_size, std::move(borrowed.shape),
                      std::move(owner), borrowed.data));
  }

  // Large arrays have an owner each, so that the memory of each is free as soon as it is saved.
  std::shared_ptr<const void> owner_of(BorrowedArray& borrowed) {
    constexpr std::size_t kSmall = std::size_t{64} << 10U;  // bytes
    const auto elements = static_cast<std::size_t>(element_count(borrowed.shape));
    if (elements * borrowed.element_size >= kSmall) return keep_alive(std::move(borrowed.owner));
    small_->add(std::move(borrowed.owner));
    return small_;
  }

  Tree numpy_scalar(nb::handle object) {
    const nb::object as_array = nb::module_::import_("numpy").attr("asarray")(object);
    const BorrowedArray element = borrow(as_array);
    NumpyScalar scalar{.dtype = element.dtype};
    // np.bytes_ and dates are not numbers
    if (element.dtype == DType::kOpaque || element.element_size > scalar.value.size())
      return array(as_array);
    std::memcpy(scalar.value.data(), element.data, element.element_size);
    return Tree(scalar);
  }

  std::vector<Tree> items(nb::handle sequence) {
    const Level level(*this);
    std::vector<Tree> result;
    result.reserve(nb::len(sequence));
    for (const nb::handle item : sequence) {
      const std::string index = std::to_string(result.size());
      path_.push_back(&index);
      result.push_back(with_context([&] { return "[" + index + "]"; }, [&] { return read(item); }));
      path_.pop_back();
    }
    return result;
  }

  Tree dict(nb::handle object) {
    const Level level(*this);
    Tree::Dict members;
    members.reserve(static_cast<std::size_t>(PyDict_Size(object.ptr())));
    bool only_strings = true;
    bool only_ints = true;  // or text that looks so
    // A copy: convert() may run the caller's code, which may change the dict.
    const nb::dict copy = nb::steal<nb::dict>(PyDict_Copy(object.ptr()));
    for (const auto item : copy) {
      const nb::handle key = item.first, value = item.second;
      only_strings = only_strings && PyUnicode_CheckExact(key.ptr());
      std::string name = PyUnicode_CheckExact(key.ptr()) ? utf8_of(key) : text_of(key);
      only_ints = only_ints && is_int_text(name);
      path_.push_back(&name);
      Tree child = with_context([&] { return "['" + name + "']"; }, [&] { return read(value); });
      path_.pop_back();
      members.emplace_back(std::move(name), std::move(child));
    }
    if (!only_strings) check_unique(members);
    if (!members.empty() && key_types_ != nullptr && (!only_strings || only_ints))
      add_key_types(copy, members);
    return Tree(std::move(members));
  }

  // `dict` has the members in their order.
  void add_key_types(const nb::dict& dict, const Tree::Dict& members) {
    DictKeyTypes found;
    for (const std::string* key : path_) found.dict.push_back(*key);
    std::size_t at = 0;
    bool is_uniform = true;
    for (const auto item : dict) {
      const std::string& text = members[at++].first;
      found.types.emplace_back(text, key_type(item.first, text));
      is_uniform = is_uniform && found.types.back().second == found.types[0].second;
    }
    if (is_uniform) {
      found.type = found.types[0].second;
      found.types.clear();
      if (found.type == "str" && !is_int_text(members[0].first)) return;  // of a subclass of str
    }
    key_types_->push_back(std::move(found));
  }

  static void check_unique(const Tree::Dict& members) {
    std::vector<std::string> names;
    names.reserve(members.size());
    for (const auto& [name, child] : members) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
      throw Error(Code::kInvalidArgument,
                  "two keys of a dict have the text '" + *twice + "'; keys are stored as strings");
  }

  Tree named_tuple(nb::handle object) {
    const Level level(*this);
    const nb::handle type = object.type();
    Tree::NamedTuple result{.module = text_of(type.attr("__module__")),
                            .name = text_of(type.attr("__name__")),
                            .fields = {}};
    for (const nb::handle field : object.attr("_fields")) {
      const std::string name = text_of(field);
      path_.push_back(&name);
      result.fields.emplace_back(name,
                                 with_context([&] { return "." + name; },
                                              [&] { return read(nb::getattr(object, field)); }));
      path_.pop_back();
    }
    return Tree(std::move(result));
  }

  nb::object convert_;
  std::shared_ptr<Keeper> small_ = std::make_shared<Keeper>();  // of the small arrays
  std::size_t depth_ = 0;
  std::vector<DictKeyTypes>* key_types_;
  std::vector<const std::string*> path_;  // the keys from the root
};

class TreeWriter {
 public:
  TreeWriter(const OpaqueName& opaque, const std::vector<DictKeyTypes>& key_types)
      : opaque_(opaque) {
    for (const DictKeyTypes& entry : key_types) key_types_.emplace(entry.dict, &entry);
  }

  // Call it once, before write().
  void announce(const Tree& tree) {
    if (const auto* array = tree.array()) return arrays_.announce(*array);
    if (const auto* list = tree.list()) return announce_items(*list);
    if (const auto* dict = tree.dict()) return announce_members(*dict);
    if (const auto* tuple = tree.tuple()) return announce_items(tuple->items);
    if (const auto* named = tree.named_tuple()) return announce_members(named->fields);
  }
  nb::object write(const Tree& tree) {
    return std::visit([this](const auto& value) { return this->one(value); }, tree.value());
  }

 private:
  static nb::object one(EmptyNode node) {
    switch (node) {
      case EmptyNode::kDict:
        return nb::dict();
      case EmptyNode::kList:
        return nb::list();
      case EmptyNode::kTuple:
        return nb::tuple();
      case EmptyNode::kNamedTuple:
        return nb::module_::import_("cairn._leaves").attr("empty_namedtuple")();
      case EmptyNode::kNone:
        break;
    }
    return nb::none();
  }
  static nb::object one(const Placeholder& /*unused*/) { return nb::borrow(Py_Ellipsis); }
  static nb::object one(bool value) { return nb::bool_(value); }
  static nb::object one(std::int64_t value) { return nb::int_(value); }
  static nb::object one(std::uint64_t value) { return nb::int_(value); }
  static nb::object one(double value) { return nb::float_(value); }
  static nb::object one(const std::complex<double>& value) { return nb::cast(value); }
  static nb::object one(const NumpyScalar& scalar) {
    Array element = Array::allocate(scalar.dtype, {});
    std::memcpy(element.mutable_view().data, scalar.value.data(), element.bytes().size());
    return to_numpy_scalar(element);
  }
  static nb::object one(const std::string& text) {
    return to_str(text);  // names and strings of a file may hold any bytes
  }
  static nb::object one(const Bytes& bytes) { return nb::bytes(bytes.data(), bytes.size()); }
  nb::object one(const Array& array) {
    const bool named = array.dtype() == DType::kOpaque && opaque_;
    return arrays_.make(array, named ? opaque_(array) : std::string());
  }
  static nb::object one(const CustomLeaf& /*unused*/) {
    throw Error(Code::kUnimplemented, "a leaf of a type that Python does not know");
  }
  nb::object one(const Tree::List& list) {
    nb::list result;
    for (const Tree& item : list)
      result.append(below([&] { return std::to_string(nb::len(result)); }, item));
    return result;
  }
  nb::object one(const Tree::Tuple& tuple) { return nb::tuple(one(tuple.items)); }
  nb::object one(const Tree::Dict& dict) {
    nb::dict result;
    const auto found = key_types_.empty() ? key_types_.end() : key_types_.find(path_);
    const bool is_known = found != key_types_.end();
    std::unordered_map<std::string_view, std::string_view> types;  // of the keys, if they differ
    if (is_known) types.insert(found->second->types.begin(), found->second->types.end());
    for (const auto& member : dict) {
      const std::string& name = member.first;  // Clang 14 captures no structured binding
      const auto own = types.find(name);
      const nb::object key =
          is_known ? key_of(name, own == types.end() ? found->second->type : own->second)
                   : one(name);
      result[key] = below([&] { return name; }, member.second);
    }
    if (nb::len(result) != dict.size())
      throw Error(Code::kDataLoss, "the types of keys of a dict make two of them equal");
    return result;
  }
  // What is below a key. The path is needed only where types of keys are known.
  template <class Name>
  nb::object below(const Name& name, const Tree& child) {
    if (key_types_.empty()) return write(child);
    path_.push_back(name());
    nb::object made = write(child);
    path_.pop_back();
    return made;
  }
  static nb::object key_of(const std::string& text, std::string_view type) {
    if (type == "NoneType") return nb::none();
    if (type == "bool") return nb::bool_(text == "True");
    if (type == "int") return made_of(PyLong_FromString(text.c_str(), nullptr, 10), text, type);
    if (type == "float") return made_of(PyFloat_FromString(one(text).ptr()), text, type);
    return one(text);
  }
  static nb::object made_of(PyObject* key, const std::string& text, std::string_view type) {
    if (key != nullptr) return nb::steal(key);
    PyErr_Clear();
    throw Error(Code::kDataLoss,
                "the key '" + text + "' of a dict is not of type " + std::string(type));
  }
  nb::object one(const Tree::NamedTuple& tuple) {
    nb::list names;
    nb::list values;
    for (const auto& [name, child] : tuple.fields) {
      names.append(one(name));
      values.append(below([&name = name] { return name; }, child));
    }
    const nb::object type = nb::module_::import_("cairn._leaves")
                                .attr("namedtuple_type")(one(tuple.module), one(tuple.name), names);
    return type(*values);
  }

  void announce_items(const Tree::List& items) {
    for (const Tree& item : items) announce(item);
  }
  void announce_members(const Tree::Dict& members) {
    for (const auto& [name, child] : members) announce(child);
  }

  const OpaqueName& opaque_;
  NumpyMaker arrays_;
  std::map<std::vector<std::string>, const DictKeyTypes*> key_types_;
  std::vector<std::string> path_;  // the keys from the root, if there are types of keys
};

}  // namespace

Tree tree_from(nb::handle object, std::vector<DictKeyTypes>* key_types) {
  return TreeReader(key_types).read(object);
}

bool makes_keys_of(std::string_view type) {
  return type == "str" || type == "int" || type == "bool" || type == "float" || type == "NoneType";
}

bool is_int_text(std::string_view key) {
  if (key == "0") return true;
  if (key.starts_with('-')) key.remove_prefix(1);
  return !key.empty() && key[0] != '0' &&
         std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
}

nb::object to_python(const Tree& tree, const OpaqueName& opaque,
                     const std::vector<DictKeyTypes>& key_types) {
  TreeWriter writer(opaque, key_types);
  writer.announce(tree);
  return writer.write(tree);
}

}  // namespace cairn::python
