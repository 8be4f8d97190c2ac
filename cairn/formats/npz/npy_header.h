// npy_header.h -- the head of NumPy's .npy files.
//
//   "\x93NUMPY"  major u8  minor u8  length (u16 in version 1, u32 in 2 and 3)  text
//
// The text is a Python dict, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, Latin-1
// in versions 1 and 2, UTF-8 in 3, padded with spaces and a newline. The values lie behind it.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn {

struct NpyHeader {
  std::string descr;  // as it is in the file: "<f4", or the list of fields of a structure
  DType dtype = DType::kOpaque;
  std::string dtype_name;  // Cairn's; for kOpaque what `descr` says
  std::size_t element_size = 0;
  bool big_endian = false;     // elements whose bytes are to be reversed
  bool fortran_order = false;  // the first dimension changes fastest
  Shape shape;
  std::string unreadable;    // why the elements cannot be read: "" if they can
  std::uint64_t size = 0;    // of the header itself
  std::uint64_t nbytes = 0;  // of the values behind it; 0 if it cannot be read
};

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::size_t kNpyPrefix = 12;  // enough to know how long the header is

// How long the header that begins so is, from its first kNpyPrefix bytes (or all there are, if
// fewer). Throws data_loss for what is none, or would be larger than any header is.
std::uint64_t npy_header_size(ByteView first);
// Exactly the header. Throws data_loss for damage; for an element type that Cairn cannot read,
// `unreadable` says so.
NpyHeader decode_npy_header(ByteView header);

}  // namespace cairn
