// arrays.h -- arrays between Python and the library, without a copy.
#pragma once

#include <cairn/types.h>

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::python {

// Keeps a Python object alive. The last copy may be destroyed in any thread.
std::shared_ptr<const void> keep_alive(nanobind::object object);

// Keeps many objects alive, until nobody needs any of them: for small arrays, as keep_alive() takes
// longer than the rest of an array. The last owner may destroy it in any thread.
class Keeper {
 public:
  Keeper() = default;
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  ~Keeper();

  void add(nanobind::object object) { objects_.push_back(std::move(object)); }

 private:
  std::vector<nanobind::object> objects_;
};

// Host memory of another framework, as its Python module describes it (cairn._leaves).
struct ForeignArray {
  std::size_t address = 0;
  std::string dtype;  // as dtype_name()
  Shape shape;
  std::vector<std::int64_t> strides;  // in bytes
  bool writable = false;
  nanobind::object owner;  // keeps the memory alive
};

// The elements of a Python array, and who keeps them.
struct BorrowedArray {
  std::byte* data = nullptr;
  DType dtype = DType::kUint8;
  std::size_t element_size = 1;
  Shape shape;
  std::vector<std::int64_t> strides;  // in bytes
  bool writable = false;
  nanobind::object owner;

  [[nodiscard]] ArrayView view() const { return {data, dtype, element_size, shape, strides}; }
};

// Whether the object is a numpy.ndarray, a numpy scalar.
bool is_numpy_array(nanobind::handle object);
// Whether an array of NumPy is a masked one, and some of its elements are masked.
bool has_masked_elements(nanobind::handle array);
bool is_numpy_scalar(nanobind::handle object);
// Borrows the elements of a numpy.ndarray (any strides) or of a ForeignArray. An array of another
// byte order than the machine's is converted first. Throws invalid_argument for elements that are
// Python objects and for any other object.
BorrowedArray borrow(nanobind::handle array);
// The same in C order without gaps; copies if the array is not.
BorrowedArray borrow_contiguous(nanobind::handle array);
// Borrows a destination: the same, which may not be converted or copied. Throws invalid_argument if
// the array is read-only.
MutableArrayView borrow_writable(nanobind::handle array);

// Whether a numpy.ndarray of the library's memory may be changed. kWritable: nobody else may use
// the array.
enum class Access { kReadOnly, kWritable };
// NumPy's type for the name that a file gives to opaque elements ("|S8", "<M8[s]"), or for Zarr's
// list of fields. Throws unimplemented if NumPy has none.
nanobind::object opaque_dtype(std::string_view name);
// A numpy.ndarray that shares the memory of `array`. `opaque`: NumPy's name of the type ("|S8") if
// the elements are opaque; "": raw bytes.
nanobind::object to_numpy(const Array& array, Access access, std::string_view opaque = {});
// Makes many of them, writable ones. Those of one block share one Python object that keeps it
// alive: an object for each costs more than the array of NumPy.
class NumpyMaker {
 public:
  // Announces an array that make() will get. Call it for all of them before the first make().
  void announce(const Array& array);
  // As to_numpy().
  nanobind::object make(const Array& array, std::string_view opaque = {});

 private:
  // The announced arrays of one owner that lie one behind the other, from the first on.
  struct Block {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    nanobind::object memory;  // made by the first make()
  };
  Block& block_of(const Array& array);

  std::unordered_map<const void*, Block> blocks_;  // by owner
  const void* last_owner_ = nullptr;               // neighbours usually have one owner
  Block* last_ = nullptr;
};

// The element of an array of rank 0 as a scalar of NumPy.
nanobind::object to_numpy_scalar(const Array& array);

void define_arrays(nanobind::module_& module);

}  // namespace cairn::python
