// fields.h -- reads the arguments of the calls in PyTorch's pickles.
#pragma once

#include <cairn/bytes.h>
#include <cairn/formats/pytorch/pickle/pickle.h>
#include <cairn/formats/pytorch/tensors/meaning.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::pytorch {

// Counts the values that are looked at, each as about 8 bytes of memory. A value that is shared may
// be looked at very often, so whoever walks a pickle charges for it.
struct Work {
  std::uint64_t values = 0;
};
// Adds to a count that may be absent.
inline void count(Work* work, std::uint64_t values) {
  if (work != nullptr) work->values += values;
}

// The functions whose names end in _field throw data_loss for a value of another type.

// An integer that is not negative.
std::uint64_t count_field(const pickle::Pickle& p, pickle::Value value);
// A tuple, a list or a torch.Size of integers that are not negative; at most 1024 of them.
Shape extents_field(const pickle::Pickle& p, pickle::Value value);
double real_field(const pickle::Pickle& p, pickle::Value value);
std::string text_field(const pickle::Pickle& p, pickle::Value value);
// A text of at most 1024 bytes: a name of a type, a codec, a storage.
std::string_view name_field(const pickle::Pickle& p, pickle::Value value);
// ('storage', class, key, location, count[, view])
StorageName storage_field(const pickle::Pickle& p, pickle::Value value);

// An integer of 64 bits without a sign, from 2^63 on; nullopt for any other value.
std::optional<std::uint64_t> unsigned_value(const pickle::Pickle& p, pickle::Value value);
bool is_text(const pickle::Pickle& p, pickle::Value value);
// The text of torch.serialization._get_layout('torch.strided'); "" for any other value.
std::string layout_text(const pickle::Pickle& p, pickle::Value value);
// Whether a value is a dict, or an object of one of Python's kinds of dicts.
bool is_dict(const pickle::Pickle& p, pickle::Value value);
// Calls f(key, value) for each entry of a dict, in order, or for each that opcodes or, with one of
// Python's kinds of dicts, arguments gave to an object. A later entry replaces an earlier one with
// the same key. Does nothing for other values.
void for_each_entry(const pickle::Pickle& p, pickle::Value dict, Work* work,
                    const std::function<void(pickle::Value, pickle::Value)>& f);
// The value of a key that is a text; nullopt if there is none, or if `dict` is not a dict.
std::optional<pickle::Value> find_member(const pickle::Pickle& p, pickle::Value dict,
                                         std::string_view key, Work* work = nullptr);
// The state of a kCall or a kObject, the last one if BUILD gave it several; nullopt if it has none.
std::optional<pickle::Value> state_of(const pickle::Pickle& p, pickle::Value object);
// The bytes that a text has in Latin-1. Throws data_loss for a character above U+00FF.
Bytes latin1_bytes(std::string_view text);
// The text with "\uNNNN" in place of surrogates, which Python allows, and with "\xNN" in place of
// other bytes that are not UTF-8.
std::string printable_utf8(std::string_view text);

}  // namespace cairn::inline v0::pytorch
