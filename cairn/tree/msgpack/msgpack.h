// msgpack.h -- the msgpack of flax and of Orbax's legacy aggregate: bytes to a pytree.
// (formats/msgpack_encoder.h writes it.)
//   One msgpack object: maps (keys: texts; integers read as their decimals), arrays, nil, booleans,
//   integers, floats, texts, bins, and extension types: code 1: ndarray          msgpack array
//   [shape as array of integers, dtype name, C-order little-endian bytes] code 2: native complex
//   msgpack array [real, imaginary] code 3: NumPy scalar     as 1, shape [] code 4: tuple msgpack
//   array of the elements (Orbax only) An array of more than 2^30 bytes that is the root or a value
//   of nested maps is cut into flat pieces:
//   {"__msgpack_chunked_array__": true, "shape": {"0": n0, ...}, "chunks": {"0": ndarray, ...}}
#pragma once

#include <cairn/tree.h>
#include <cairn/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

enum class MsgpackKind : std::uint8_t {
  kArray,
  kNumpyScalar,
  kScalar,
  kComplex,
  kString,
  kBytes,
  kNone,
  kEmptyDict,
  kEmptyList,
  kEmptyTuple
};

// What TensorInfo::kind says of such a leaf: Orbax's typestr for what was saved. For NumPy scalars,
// Python's complex numbers and bins it has none that would tell them from others: they are
// "np.generic", "complex" and "bytes".
std::string_view kind_name(MsgpackKind kind);

// A leaf or an empty container. Its bytes stay where they are: `pieces` point into the input, one
// behind the other.
struct MsgpackLeaf {
  KeyPath path;
  MsgpackKind kind = MsgpackKind::kNone;
  DType dtype = DType::kOpaque;  // of arrays and scalars; kUint8 for bins
  // "float32"; as stored where dtype is kOpaque; "" if there are no elements
  std::string dtype_name;
  std::size_t element_size = 0;
  Shape shape;
  std::vector<ByteView> pieces;       // kArray, kNumpyScalar, kString, kBytes
  std::array<std::byte, 16> value{};  // kScalar, kComplex: little-endian, of dtype
  [[nodiscard]] std::uint64_t nbytes() const;
};

// How the input comes to be where it is read.
struct MsgpackInput {
  // Called with bytes of the input before they are looked at; what arrays hold is never looked at.
  // Empty: everything is there.
  std::function<void(ByteView)> load = {};
  // Bytes of the input that are really stored: what nodes may take of memory follows from it. None:
  // all of them.
  std::optional<std::uint64_t> stored = {};
};

// One pass over the bytes: containers, numbers and None as they are, dicts in the order of the
// bytes; of arrays, NumPy scalars, texts and bins only where they lie: a CustomLeaf that holds a
// MsgpackLeaf without path. Throws data_loss for anything that is not exactly one well-formed
// object (names appear once, texts are UTF-8, arrays have the bytes their shape asks for),
// unimplemented for unknown extension types.
Tree parse_msgpack(ByteView bytes, const MsgpackInput& input = {});

// All leaves and empty containers of what parse_msgpack has made of `input_bytes` bytes, in their
// order. Throws data_loss if their paths took far more memory than honest bytes could ask for.
std::vector<MsgpackLeaf> msgpack_leaves(const Tree& parsed, std::uint64_t input_bytes);
// Both in one.
std::vector<MsgpackLeaf> decode_msgpack(ByteView bytes, const MsgpackInput& input = {});

// The tree that was serialized. Arrays share `owner`, which keeps `bytes` alive, where there is one
// and their alignment permits, and else own a copy. NumPy scalars of types that Cairn does not
// interpret (datetime64) are arrays of rank 0.
Tree restore_msgpack(ByteView bytes, const std::shared_ptr<const void>& owner);

}  // namespace cairn
