// npy_fields.h -- the types of .npy files that are not one string: fields, and parts with a shape.
//
//   [('x', '<f4'), (('title', 'y'), [('z', '|u1')]), ('w', '<i2', (3,))]    ('<f4', (2,))
#pragma once

#include <functional>
#include <string_view>

namespace cairn::inline v0 {

// Returns true if NumPy reads `descr`, the Python text of a list or tuple. `is_type` tells whether
// it reads an element of the type with this name.
bool is_field_list(std::string_view descr, const std::function<bool(std::string_view)>& is_type);

}  // namespace cairn::inline v0
