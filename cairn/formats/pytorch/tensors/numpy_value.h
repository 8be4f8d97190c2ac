// numpy_value.h -- arrays and scalars of NumPy in a pickle.
#pragma once

#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/meaning.h>

#include <optional>
#include <string_view>

namespace cairn::inline v0::pytorch {

// The array or scalar that a call of the function `name` makes; nullopt if it makes none. The bytes
// are in the pickle. Throws data_loss for a description that NumPy does not write.
std::optional<NumpyValue> numpy_value(const pickle::Pickle& p, std::string_view name,
                                      pickle::Value call);

}  // namespace cairn::inline v0::pytorch
