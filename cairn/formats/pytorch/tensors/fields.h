// fields.h -- reads the arguments of the calls in PyTorch's pickles.
#pragma once

#include <cairn/bytes.h>
#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/meaning.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::pytorch {

// The functions whose names end in _field throw data_loss for a value of another type.

// An integer that is not negative.
std::uint64_t count_field(const pickle::Pickle& p, pickle::Value value);
// A tuple, a list or a torch.Size of integers that are not negative; at most 1024 of them.
Shape extents_field(const pickle::Pickle& p, pickle::Value value);
double real_field(const pickle::Pickle& p, pickle::Value value);
std::string text_field(const pickle::Pickle& p, pickle::Value value);
// ('storage', class, key, location, count[, view])
StorageName storage_field(const pickle::Pickle& p, pickle::Value value);

bool is_text(const pickle::Pickle& p, pickle::Value value);
// The text of torch.serialization._get_layout('torch.strided'); "" for any other value.
std::string layout_text(const pickle::Pickle& p, pickle::Value value);
// The value of a key that is a text; nullopt if there is none, or if `dict` is not a dict.
std::optional<pickle::Value> find_member(const pickle::Pickle& p, pickle::Value dict,
                                         std::string_view key);
// The state of a kCall or a kObject, the last one if BUILD gave it several; nullopt if it has none.
std::optional<pickle::Value> state_of(const pickle::Pickle& p, pickle::Value object);
// The bytes that a text has in Latin-1. Throws data_loss for a character above U+00FF.
Bytes latin1_bytes(std::string_view text);
// The text with "\xNN" in place of bytes that are not UTF-8: surrogates, which Python allows.
std::string printable_utf8(std::string_view text);

}  // namespace cairn::inline v0::pytorch
