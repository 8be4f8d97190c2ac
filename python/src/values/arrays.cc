// arrays.cc -- numpy.ndarray to the library's arrays and back. NumPy is imported when the first
// array is made; its C API is not used, so that any version of it works.
#include "arrays.h"

#include "../gil.h"

#include <cairn/error.h>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace nb = nanobind;

namespace cairn::python {
namespace {

// The module `name` if somebody has imported it: an object of it exists only then.
nb::object loaded_module(const char* name) {
  PyObject* found = PyImport_GetModule(nb::str(name).ptr());
  if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return found == nullptr ? nb::none() : nb::steal(found);
}

// The object that all threads share, made by the first. Not a local static: making it runs Python,
// whose locks (of an import, and the interpreter's) must not be taken under the static's guard.
// It is never freed, for a module cannot be unloaded.
template <class T>
constinit std::atomic<T*> made = nullptr;
template <class T>
T& made_once() {
  if (T* const found = made<T>.load(std::memory_order_acquire)) return *found;
  auto mine = std::make_unique<T>();
  T* first = nullptr;
  if (!made<T>.compare_exchange_strong(first, mine.get())) return *first;
  return *mine.release();
}

using DTypeObjects = std::array<nb::object, kDTypeCount>;  // by DType

// NumPy's objects for the types that `home` has under the library's names.
DTypeObjects dtypes_of(const nb::object& home, const nb::object& dtype) {
  DTypeObjects result;
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const std::string name(dtype_name(static_cast<DType>(i)));
    if (static_cast<DType>(i) != DType::kOpaque && nb::hasattr(home, name.c_str()))
      result[i] = dtype(home.attr(name.c_str()));
  }
  return result;
}

// What is used of NumPy.
struct Numpy {
  nb::object ndarray, generic, dtype, ascontiguousarray;
  DTypeObjects dtypes;
  nb::object dtype_name = nb::steal(PyUnicode_InternFromString("dtype"));

  Numpy() {
    const nb::object numpy = nb::module_::import_("numpy");
    ndarray = numpy.attr("ndarray");
    generic = numpy.attr("generic");
    dtype = numpy.attr("dtype");
    ascontiguousarray = numpy.attr("ascontiguousarray");
    dtypes = dtypes_of(numpy, dtype);
    dtypes[static_cast<std::size_t>(DType::kBool)] = dtype(numpy.attr("bool_"));  // NumPy 1.26
  }
};
Numpy& numpy() { return made_once<Numpy>(); }

// The same, or nullptr if the program has not imported NumPy. Then no object is one of NumPy's.
Numpy* loaded_numpy() {
  if (Numpy* const found = made<Numpy>.load(std::memory_order_acquire)) return found;
  return loaded_module("numpy").is_none() ? nullptr : &numpy();
}

// Not a dependency of the package, so it may be absent.
nb::object ml_dtypes() {
  try {
    return nb::module_::import_("ml_dtypes");
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ModuleNotFoundError)) throw;
    nb::raise_from(error, PyExc_ModuleNotFoundError,
                   "NumPy has bfloat16, float8 and int4 only through the package ml_dtypes, which "
                   "is not installed; run: pip install ml_dtypes");
  }
}

// The types that NumPy lacks. A program that has none of them need not import the module.
struct MlDtypes {
  DTypeObjects dtypes = dtypes_of(ml_dtypes(), numpy().dtype);
};

// NumPy's object for the type.
const nb::object& dtype_object(DType type) {
  const auto index = static_cast<std::size_t>(type);
  if (numpy().dtypes.at(index).is_valid()) return numpy().dtypes.at(index);
  const nb::object& found = made_once<MlDtypes>().dtypes.at(index);
  if (!found.is_valid())
    throw Error(Code::kUnimplemented,
                "the installed ml_dtypes has no type " + std::string(dtype_name(type)));
  return found;
}

struct ElementInfo {
  DType dtype = DType::kOpaque;
  std::size_t size = 0;
};

// The library's type for a NumPy dtype; nullopt if its byte order is not the machine's.
std::optional<ElementInfo> element_info(nb::handle dtype) {
  if (nb::cast<bool>(dtype.attr("hasobject")))
    throw Error(Code::kInvalidArgument,
                "an array of Python objects cannot be stored; convert it to an array of numbers or "
                "to a list of str");
  if (!nb::cast<bool>(dtype.attr("isnative"))) return std::nullopt;
  const auto size = nb::cast<std::size_t>(dtype.attr("itemsize"));
  const auto name = nb::cast<std::string>(dtype.attr("name"));
  if (const auto known = dtype_from_name(name); known && dtype_size(*known) == size)
    return ElementInfo{*known, size};
  return ElementInfo{DType::kOpaque, size};
}

BorrowedArray borrow_numpy(nb::handle array) {
  // Most arrays of a tree have one of a few dtypes, and NumPy has one object for each.
  thread_local PyObject* last_dtype = nullptr;  // owned
  thread_local ElementInfo last_info;
  const nb::object dtype = nb::steal(PyObject_GetAttr(array.ptr(), numpy().dtype_name.ptr()));
  if (!dtype.is_valid()) throw nb::python_error();
  if (dtype.ptr() != last_dtype) {
    const auto info = element_info(dtype);
    if (!info) {
      const nb::object native = dtype.attr("newbyteorder")("=");
      return borrow_numpy(array.attr("astype")(native));
    }
    Py_XDECREF(last_dtype);
    last_dtype = nb::object(dtype).release().ptr();
    last_info = *info;
  }
  BorrowedArray result;
  result.dtype = last_info.dtype;
  result.element_size = last_info.size;
  result.owner = nb::borrow(array);
  Py_buffer buffer;
  if (PyObject_GetBuffer(array.ptr(), &buffer, PyBUF_STRIDES) == 0) {
    result.data = static_cast<std::byte*>(buffer.buf);
    result.writable = buffer.readonly == 0;
    result.shape.assign(buffer.shape, buffer.shape + buffer.ndim);
    result.strides.assign(buffer.strides, buffer.strides + buffer.ndim);
    PyBuffer_Release(&buffer);
    return result;
  }
  PyErr_Clear();  // the types of ml_dtypes, and dates, have no buffer
  const nb::object interface = array.attr("__array_interface__");
  const nb::object data = interface["data"];
  result.data = reinterpret_cast<std::byte*>(nb::cast<std::size_t>(data[0]));
  result.writable = !nb::cast<bool>(data[1]);
  result.shape = nb::cast<Shape>(array.attr("shape"));
  result.strides = nb::cast<std::vector<std::int64_t>>(array.attr("strides"));
  return result;
}

BorrowedArray borrow_foreign(const ForeignArray& array) {
  const auto dtype = dtype_from_name(array.dtype);
  if (!dtype) throw Error(Code::kInvalidArgument, "unknown element type '" + array.dtype + "'");
  if (array.strides.size() != array.shape.size())
    throw Error(Code::kInvalidArgument, "shape and strides differ in rank");
  return {reinterpret_cast<std::byte*>(array.address),
          *dtype,
          dtype_size(*dtype),
          array.shape,
          array.strides,
          array.writable,
          array.owner};
}

// Throws where elements share memory: each would get the value that is written last. Also refuses
// the rare strides of which that is not certain, such as (3, 2) for the shape (2, 3).
void check_separate_elements(const BorrowedArray& array) {
  std::vector<std::pair<std::int64_t, std::size_t>> steps;  // in bytes, and their dimensions
  for (std::size_t i = 0; i < array.shape.size(); ++i)
    if (array.shape[i] > 1) steps.emplace_back(std::abs(array.strides[i]), i);
  std::ranges::sort(steps);
  auto span = static_cast<std::int64_t>(array.element_size);  // of the dimensions so far
  for (const auto& [step, i] : steps) {
    if (step == 0)
      throw Error(Code::kInvalidArgument,
                  "elements of the destination share memory: it is expanded in dimension " +
                      std::to_string(i));
    if (step < span)
      throw Error(Code::kInvalidArgument,
                  "elements of the destination may share memory: its stride in dimension " +
                      std::to_string(i) + " is " + std::to_string(step) +
                      " bytes, and the dimensions with smaller strides take " +
                      std::to_string(span));
    span += step * (array.shape[i] - 1);
  }
}

// Memory of the library as an object with Python's buffer protocol, from which NumPy makes arrays.
struct Memory {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  std::size_t size = 0;
  bool writable = false;
};

int get_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  const auto* memory = nb::inst_ptr<Memory>(self);
  auto* bytes = const_cast<std::byte*>(memory->data);
  static std::byte nothing;  // an empty array has an address, too
  return PyBuffer_FillInfo(buffer, self, bytes == nullptr ? &nothing : bytes,
                           static_cast<Py_ssize_t>(memory->size), memory->writable ? 0 : 1, flags);
}

PyType_Slot memory_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

// The most bytes between two arrays of one block.
constexpr std::ptrdiff_t kPadding = kArrayAlignment;

// NumPy describes the fields of a structured type with tuples, Zarr with lists of JSON.
nb::object fields_of(nb::handle list) {
  nb::list fields;
  for (const nb::handle field : list) {
    nb::list parts(field);
    if (nb::len(parts) > 1 && nb::isinstance<nb::list>(parts[1])) parts[1] = fields_of(parts[1]);
    if (nb::len(parts) > 2) parts[2] = nb::tuple(parts[2]);
    fields.append(nb::tuple(parts));
  }
  return std::move(fields);
}

}  // namespace

nb::object opaque_dtype(std::string_view name) {
  const nb::str text(name.data(), name.size());
  try {
    if (!name.starts_with('[')) return numpy().dtype(text);
    return numpy().dtype(fields_of(nb::module_::import_("json").attr("loads")(text)));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
    throw Error(Code::kUnimplemented,
                "elements of type " + std::string(name) + " have no type of NumPy");
  }
}

namespace {

// The array of NumPy whose elements lie at `offset` in the memory.
nb::object make_ndarray(const Array& array, std::string_view opaque, const nb::object& memory,
                        std::ptrdiff_t offset) {
  nb::object dtype;
  if (array.dtype() != DType::kOpaque)
    dtype = dtype_object(array.dtype());
  else if (!opaque.empty())
    dtype = opaque_dtype(opaque);
  else
    dtype = numpy().dtype(nb::str(("V" + std::to_string(array.element_size())).c_str()));
  if (array.dtype() == DType::kOpaque &&
      nb::cast<std::size_t>(dtype.attr("itemsize")) != array.element_size())
    throw Error(Code::kUnimplemented, "elements of type " + std::string(opaque) + " have " +
                                          std::to_string(array.element_size()) +
                                          " bytes, and NumPy's type has another size");
  const nb::object shape = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(array.shape().size())));
  if (!shape.is_valid()) throw nb::python_error();
  Py_ssize_t d = 0;
  for (const std::int64_t extent : array.shape())
    if (PyTuple_SetItem(shape.ptr(), d++, nb::int_(extent).release().ptr()) != 0)
      throw nb::python_error();
  return numpy().ndarray(shape, dtype, memory, offset);
}

}  // namespace

Keeper::~Keeper() {
  if (Py_IsInitialized() == 0) {  // the interpreter has ended
    for (nb::object& object : objects_) (void)object.release();
    return;
  }
  const WithGil lock;
  objects_.clear();
}

std::shared_ptr<const void> keep_alive(nb::object object) {
  return {object.release().ptr(), [](const void* kept) {
            if (Py_IsInitialized() == 0) return;  // the interpreter has ended
            const WithGil lock;
            Py_DECREF(static_cast<PyObject*>(const_cast<void*>(kept)));
          }};
}

bool is_numpy_array(nb::handle object) {
  const Numpy* const loaded = loaded_numpy();
  return loaded != nullptr && nb::isinstance(object, loaded->ndarray);
}

bool has_masked_elements(nb::handle array) {
  if (array.type().is(numpy().ndarray)) return false;
  const nb::object masked = loaded_module("numpy.ma");
  return !masked.is_none() && nb::cast<bool>(masked.attr("is_masked")(array));
}

bool is_numpy_scalar(nb::handle object) {
  const Numpy* const loaded = loaded_numpy();
  return loaded != nullptr && nb::isinstance(object, loaded->generic);
}

BorrowedArray borrow(nb::handle array) {
  if (is_numpy_array(array)) return borrow_numpy(array);
  ForeignArray* foreign = nullptr;
  if (nb::try_cast(array, foreign) && foreign != nullptr) return borrow_foreign(*foreign);
  throw Error(Code::kInvalidArgument,
              "expected an array of NumPy, not " + nb::cast<std::string>(nb::repr(array.type())));
}

BorrowedArray borrow_contiguous(nb::handle array) {
  BorrowedArray borrowed = borrow(array);
  if (borrowed.view().contiguous()) return borrowed;
  if (!is_numpy_array(borrowed.owner))
    throw Error(Code::kInvalidArgument, "the array is not in C order");
  return borrow_numpy(numpy().ascontiguousarray(borrowed.owner));
}

MutableArrayView borrow_writable(nb::handle array) {
  const BorrowedArray borrowed = borrow(array);
  if (!borrowed.writable) throw Error(Code::kInvalidArgument, "the destination is read-only");
  if (borrowed.owner.ptr() != array.ptr() && is_numpy_array(array))
    throw Error(Code::kInvalidArgument,
                "the destination's byte order is not the machine's; a read does not convert it");
  if (std::ranges::count(borrowed.shape, 0) == 0) check_separate_elements(borrowed);
  return {borrowed.data, borrowed.dtype, borrowed.element_size, borrowed.shape, borrowed.strides};
}

NumpyMaker::Block& NumpyMaker::block_of(const Array& array) {
  const void* const owner = array.owner().get();
  if (last_ == nullptr || owner != last_owner_) {
    last_owner_ = owner;
    last_ = &blocks_[owner];  // its address stays when others are added
  }
  return *last_;
}

void NumpyMaker::announce(const Array& array) {
  const ByteView bytes = array.bytes();
  if (bytes.empty()) return;  // it needs no memory, whatever its owner
  Block& block = block_of(array);
  if (block.begin == nullptr) {
    block = {.begin = bytes.data(), .end = bytes.data() + bytes.size(), .memory = {}};
  } else if (bytes.data() >= block.end && bytes.data() - block.end < kPadding) {
    block.end = bytes.data() + bytes.size();  // the next of the block
  }
}

nb::object NumpyMaker::make(const Array& array, std::string_view opaque) {
  const ByteView bytes = array.bytes();
  if (bytes.empty()) return to_numpy(array, Access::kWritable, opaque);
  Block& block = block_of(array);
  if (bytes.data() < block.begin || bytes.data() + bytes.size() > block.end)
    return to_numpy(array, Access::kWritable, opaque);
  if (!block.memory.is_valid())
    block.memory = nb::cast(Memory{.owner = array.owner(),
                                   .data = block.begin,
                                   .size = static_cast<std::size_t>(block.end - block.begin),
                                   .writable = true});
  return make_ndarray(array, opaque, block.memory, bytes.data() - block.begin);
}

nb::object to_numpy(const Array& array, Access access, std::string_view opaque) {
  const nb::object memory = nb::cast(Memory{.owner = array.owner(),
                                            .data = array.bytes().data(),
                                            .size = array.bytes().size(),
                                            .writable = access == Access::kWritable});
  return make_ndarray(array, opaque, memory, 0);
}

nb::object to_numpy_scalar(const Array& array) {
  return to_numpy(array, Access::kReadOnly)[nb::tuple()];
}

void define_arrays(nb::module_& module) {
  nb::class_<Memory>(module, "Memory", nb::type_slots(memory_slots),
                     "Memory that an array of NumPy shares with the library.");
  nb::class_<ForeignArray>(module, "ForeignArray", "Host memory of another framework, as an array.")
      .def(
          "__init__",
          [](ForeignArray* self, std::size_t address, std::string dtype, Shape shape,
             std::vector<std::int64_t> strides, bool writable, nb::object owner) {
            new (self)
                ForeignArray{address,  std::move(dtype), std::move(shape), std::move(strides),
                             writable, std::move(owner)};
          },
          nb::arg("address"), nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"),
          nb::arg("writable"), nb::arg("owner"));
}

}  // namespace cairn::python
