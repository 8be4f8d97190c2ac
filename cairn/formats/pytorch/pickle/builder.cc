#include <cairn/formats/pytorch/pickle/builder.h>

#include <cairn/base/errors.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

namespace cairn::inline v0::pickle {
namespace {

constexpr std::size_t kMostOfName = 4096;  // bytes of a module or of a name in it
constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();

}  // namespace

PickleBuilder::PickleBuilder(Bytes input, const PickleLimits& limits)
    : left_(limits.memory + 6 * std::uint64_t{input.size()}) {
  if (input.size() > kMost32) data_loss("a pickle of more than 4 GiB");
  made_.input_ = std::move(input);
  add({.kind = Kind::kNone});
  add({.kind = Kind::kBool, .word = 1});
  add({.kind = Kind::kBool, .word = 0});
  add({.kind = Kind::kTuple});
}

PickleBuilder::PickleBuilder(Pickle made, const PickleLimits& limits)
    : made_(std::move(made)), left_(limits.memory) {
  for (const Value global : made_.globals_)
    globals_.emplace(key_of(made_.items(global)[0], made_.items(global)[1]), global);
}

void PickleBuilder::charge(std::uint64_t bytes) {
  if (bytes > left_) data_loss("its values take more memory than the size of the pickle allows");
  left_ -= bytes;
}

Value PickleBuilder::add(const Node& node) {
  charge(sizeof(Node));
  if (made_.nodes_.size() >= kMost32) data_loss("it has more than 2^32 values");
  made_.nodes_.push_back(node);
  return static_cast<Value>(made_.nodes_.size() - 1);
}

std::uint32_t PickleBuilder::add_links(std::span<const Value> links, std::size_t room) {
  std::vector<Value>& all = made_.links_;
  charge(room * sizeof(Value));
  if (room > kMost32 - all.size()) data_loss("its values have more than 2^32 items");
  const std::size_t first = all.size();
  all.insert(all.end(), links.begin(), links.end());
  all.resize(first + room, kNoneValue);
  return static_cast<std::uint32_t>(first);
}

Value PickleBuilder::number(Kind kind, std::int64_t value) {
  return add({.kind = kind, .word = static_cast<std::uint64_t>(value)});
}

Value PickleBuilder::real(double value) {
  return add({.kind = Kind::kFloat, .word = std::bit_cast<std::uint64_t>(value)});
}

Value PickleBuilder::bytes_of_input(Kind kind, ByteView part) {
  return add({.kind = kind,
              .count = static_cast<std::uint32_t>(part.size()),
              .word = static_cast<std::uint64_t>(part.data() - made_.input_.data())});
}

Value PickleBuilder::own_bytes(Kind kind, std::string_view text) {
  charge(text.size());
  const std::size_t begin = made_.own_.size();
  const ByteView bytes = as_bytes(text);
  made_.own_.insert(made_.own_.end(), bytes.begin(), bytes.end());
  return add({.kind = kind,
              .is_own = true,
              .count = static_cast<std::uint32_t>(text.size()),
              .word = begin});
}

Value PickleBuilder::collection(Kind kind, std::span<const Value> items) {
  const std::uint64_t first = add_links(items, items.size());
  return add({.kind = kind,
              .count = static_cast<std::uint32_t>(items.size()),
              .word = std::uint64_t{items.size()} << 32U | first});
}

Value PickleBuilder::object(Kind kind, Value callee, Value arguments, Value keywords) {
  const std::array parts = {callee, arguments, keywords, kNoneValue, kNoneValue, kNoneValue};
  return collection(kind, parts);
}

std::string PickleBuilder::key_of(Value module, Value name) const {
  std::string key = std::to_string(made_.text(module).size()) + ':';
  key.append(made_.text(module)).append(made_.text(name));
  return key;
}

Value PickleBuilder::global(Value module, Value name) {
  const std::string_view parts[] = {made_.text(module), made_.text(name)};
  for (const std::string_view part : parts)
    if (part.size() > kMostOfName)
      data_loss("the name of a global has " + std::to_string(part.size()) + " bytes");
  std::string key = key_of(module, name);
  const auto known = globals_.find(key);
  if (known != globals_.end()) return known->second;
  charge(2 * key.size());
  const std::array names = {module, name};
  const Value made = collection(Kind::kGlobal, names);
  globals_.emplace(std::move(key), made);
  made_.globals_.push_back(made);
  return made;
}

void PickleBuilder::extend(Value collection, std::span<const Value> items) {
  Node& node = made_.nodes_[collection];
  const std::uint64_t room = node.word >> 32U;
  const std::uint64_t wanted = std::uint64_t{node.count} + items.size();
  if (wanted > room) {
    // One that grows item by item moves each time that it has doubled.
    const std::uint64_t new_room = room == 0 ? wanted : std::max(wanted, 2 * room);
    const std::vector<Value> before(made_.items(collection).begin(), made_.items(collection).end());
    node.word = new_room << 32U | add_links(before, new_room);
  }
  std::ranges::copy(items,
                    made_.links_.begin() + static_cast<std::uint32_t>(node.word) + node.count);
  node.count = static_cast<std::uint32_t>(wanted);
}

void PickleBuilder::extend_part(Value object, Part part, Kind kind, std::span<const Value> items) {
  const auto slot = [&]() -> Value& {
    return made_.links_[static_cast<std::uint32_t>(made_.nodes_[object].word) +
                        static_cast<std::size_t>(part)];
  };
  if (slot() == kNoneValue) {
    const Value made = collection(kind, items);
    slot() = made;
  } else {
    extend(slot(), items);
  }
}

Pickle PickleBuilder::finish(Value root, std::uint64_t end, int protocol) && {
  made_.root_ = root;
  made_.end_ = end;
  made_.protocol_ = protocol;
  return std::move(made_);
}

}  // namespace cairn::inline v0::pickle
