// npy_header.h -- the header of NumPy's .npy files.
//
//   "\x93NUMPY"  major u8  minor u8  length (u16 in version 1, u32 in 2 and 3)  text
//
// The text is a Python dict, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }. It is
// Latin-1 in versions 1 and 2 and UTF-8 in 3, and padded with spaces and a newline. The values
// follow it.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// A decoded header.
struct NpyHeader {
  std::string descr;  // as in the file: "<f4", or the list of fields of a structured type
  DType dtype = DType::kOpaque;
  std::string dtype_name;  // Cairn's name; for kOpaque the content of `descr`
  std::size_t element_size = 0;
  bool big_endian = false;     // the reader must reverse the bytes of each element
  bool fortran_order = false;  // the first dimension changes fastest
  Shape shape;
  std::string unreadable;  // why the elements cannot be read; "" if they can
  std::string refused;     // why numpy.load refuses the array without arguments; "" if it does not
  std::uint64_t size = 0;  // bytes of the header itself
  std::uint64_t nbytes = 0;  // bytes of the values after it; 0 if they cannot be read
};

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::size_t kNpyPrefix = 12;  // enough bytes to tell how long the header is

// The size of a whole header in bytes, at least kNpyPrefix, from its first kNpyPrefix bytes (or all
// bytes, if the file has fewer). Throws data_loss if they do not begin a header, or if no header
// has the length that they state.
std::uint64_t npy_header_size(ByteView first);
// Decodes a header; the view must hold exactly the header. Throws data_loss for damage. For an
// element type that Cairn cannot read, it sets `unreadable` instead.
NpyHeader decode_npy_header(ByteView header);

}  // namespace cairn::inline v0
