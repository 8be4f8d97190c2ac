// builder.h -- PickleBuilder, which makes the values of a Pickle within a bound of memory.
#pragma once

#include <cairn/formats/pytorch/pickle/pickle.h>

#include <string>
#include <string_view>
#include <unordered_map>

namespace cairn::inline v0::pickle {

// Values that are never different objects.
inline constexpr Value kNoneValue = 0, kTrueValue = 1, kFalseValue = 2, kEmptyTupleValue = 3;

// All functions throw data_loss if the values take more memory than they may.
class PickleBuilder {
 public:
  PickleBuilder(Bytes input, const PickleLimits& limits);
  // Adds values to a pickle. `limits` is for what is added.
  PickleBuilder(Pickle made, const PickleLimits& limits);

  [[nodiscard]] ByteView input() const { return made_.input_; }
  [[nodiscard]] const Pickle& made() const { return made_; }

  Value number(Kind kind, std::int64_t value);
  Value real(double value);
  // Bytes or a text; `part` lies in input().
  Value bytes_of_input(Kind kind, ByteView part);
  Value own_bytes(Kind kind, std::string_view text);
  Value collection(Kind kind, std::span<const Value> items);
  // A kCall or a kObject without states, items and entries.
  Value object(Kind kind, Value callee, Value arguments, Value keywords);
  // The same global each time. Throws data_loss for names of more than 4096 bytes.
  Value global(Value module, Value name);

  // Adds items to a kList, a kSet or a kDict.
  void extend(Value collection, std::span<const Value> items);
  // The same for one that is a part of an object, and is made if the object has none.
  void extend_part(Value object, Part part, Kind kind, std::span<const Value> items);

  // From now on `value` is what `other` is, with the same items.
  void replace(Value value, Value other) { made_.nodes_[value] = made_.nodes_[other]; }

  // Counts memory that the caller uses.
  void charge(std::uint64_t bytes);
  Pickle finish(Value root, std::uint64_t end, int protocol) &&;

 private:
  using Node = Pickle::Node;
  Value add(const Node& node);
  // Adds links, and returns the index of the first one.
  std::uint32_t add_links(std::span<const Value> links, std::size_t room);
  // What tells a global from others.
  [[nodiscard]] std::string key_of(Value module, Value name) const;

  Pickle made_;
  std::uint64_t left_;  // bytes that values may still take
  std::unordered_map<std::string, Value> globals_;
};

}  // namespace cairn::inline v0::pickle
