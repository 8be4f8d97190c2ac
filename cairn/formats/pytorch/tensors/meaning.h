// meaning.h -- what a value of a pickle is to PyTorch: a tensor, a dict, a number, or an object of
// a class that nobody imports.
//
// Source of the rules: what torch 2.13 writes, and what its functions `_rebuild_*` take.
#pragma once

#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/element.h>
#include <cairn/types.h>

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace cairn::inline v0::pytorch {

// Dimensions of a tensor or an array that Cairn reads. NumPy has no more.
inline constexpr std::size_t kMostDimensions = 64;

// The bytes of one or several tensors, as a persistent id names them.
struct StorageName {
  std::string key;                           // "0": the member data/0
  std::optional<TorchElement> element;       // nullopt: a storage without a type
  std::uint64_t count = 0;                   // elements; bytes of a storage without a type
  std::uint64_t first = 0;                   // the element at which a view of it begins
  std::optional<std::uint64_t> length = {};  // elements of the view; nullopt: not a view
};

// A tensor with a storage.
struct TorchTensor {
  StorageName storage;
  TorchElement element;
  std::uint64_t offset = 0;  // elements
  Shape shape;
  std::vector<std::int64_t> strides;  // elements
  bool conjugated = false;            // the storage has the conjugates of the values
  bool negated = false;               // the storage has the negatives of the values
};
// A tensor without values, of the device "meta".
struct MetaTensor {
  TorchElement element;
  Shape shape;
};
// An array or a scalar of NumPy; its bytes are in the pickle.
struct NumpyValue {
  DType dtype = DType::kOpaque;
  std::string dtype_name;
  std::size_t element_size = 0;
  bool big_endian = false;
  // If set, dimension i of the stored array is dimension axes[i] of this one.
  std::vector<std::uint8_t> axes;
  bool is_scalar = false;
  Shape shape;
  Bytes bytes;
  std::string unreadable;  // why the elements cannot be read; "" if they can
};

// The text of a key of a dict, and the name of its type in Python.
struct KeyText {
  std::string text;
  std::string type = "str";
  bool is_renamed = false;  // another key has the text of this one, or it has no text
  bool is_escaped = false;  // as Text::is_escaped
};
struct Member;
// A dict, or an object with named parts: its attributes, the parts of a sparse tensor.
struct Members {
  std::vector<Member> members;
  bool is_module = false;  // of a torch.nn.Module, as in its state_dict()
  // Set for an object of which the pickle holds nothing but its class.
  std::string empty_object = {};
};
struct Member {
  KeyText key;
  std::variant<pickle::Value, TorchTensor, Members> value;
};
struct Sequence {
  std::vector<pickle::Value> items;
  bool is_tuple = false;
};
struct Text {
  std::string text;
  bool is_escaped = false;  // escapes stand for what is not Unicode: surrogates
};
struct ByteText {
  Bytes bytes;
};
struct NoValue {};
// An object that has no values that Cairn reads.
struct Opaque {
  std::string name;  // of its class: "argparse.Namespace"
  std::string why;   // "" if the name says all
};

using Meaning =
    std::variant<NoValue, bool, std::int64_t, std::uint64_t, double, std::complex<double>, Text,
                 ByteText, Members, Sequence, TorchTensor, MetaTensor, NumpyValue, Opaque>;

// What a value is, and what its object has beside that: attributes of a tensor, arguments of an
// object that has items. The members of `beside` have names that no attribute of a class has:
//
//   __dict__    attributes
//   __state__   a state that only the class can read
//   __args__, __kwargs__   arguments of the object's class
//   __dtype__, __size__    of a tensor that wraps others
//
// A dict has them among its own members, and `beside` is then empty.
struct Described {
  Meaning meaning;
  Members beside = {};
};

struct Work;
// Returns what a value is. Throws data_loss for arguments that PyTorch does not write. Counts what
// was looked at, also if it throws.
Described describe(const pickle::Pickle& pickle, pickle::Value value, Work* work = nullptr);
// The same without what stands beside it.
Meaning meaning_of(const pickle::Pickle& pickle, pickle::Value value);

// The text that stands for a key in a path: a str as it is, others as Python prints them.
KeyText key_text(const pickle::Pickle& pickle, pickle::Value key);

// "module.name" of a global; "?" for any other value.
std::string global_text(const pickle::Pickle& pickle, pickle::Value value);

}  // namespace cairn::inline v0::pytorch
