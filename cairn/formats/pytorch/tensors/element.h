// element.h -- the element types of PyTorch.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::pytorch {

// One element type, as a storage holds it.
struct TorchElement {
  std::string_view name;         // PyTorch's name without "torch.": "float32", "qint8"
  DType dtype = DType::kOpaque;  // kOpaque if Cairn has no such type
  std::size_t size = 0;          // bytes of an element; 1 if several are in a byte
  std::uint8_t in_byte = 1;      // elements in a byte, the first one in the low bits
};

// The type of "torch.float32"; nullopt for anything that is not an element type.
std::optional<TorchElement> element_of_dtype(std::string_view global);
// The type of the elements of "torch.FloatStorage" or "torch.cuda.FloatStorage". nullopt for any
// other name, and for storages without a type.
std::optional<TorchElement> element_of_storage(std::string_view global);
// The type whose elements have the values of Cairn's type; nullopt if PyTorch has none, or computes
// with none.
std::optional<TorchElement> element_of_type(DType dtype);
// The class "FloatStorage" of storages of the type; "" for a type that has only storages without a
// type.
std::string storage_class_of(const TorchElement& element);
// Whether this is the class of storages without a type, whose size is in bytes.
bool is_untyped_storage(std::string_view global);

}  // namespace cairn::inline v0::pytorch
