#include <cairn/formats/pytorch/tensors/objects.h>

#include <cairn/base/utf8.h>
#include <cairn/formats/pytorch/tensors/fields.h>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace cairn::inline v0::pytorch {

using pickle::Kind;
using pickle::Pickle;
using pickle::Value;

namespace {

constexpr std::size_t kMostOfItem = 64;   // bytes of an item of such a key
constexpr std::size_t kMostInTuple = 16;  // items of a key that is a tuple

// Python's repr(float).
std::string real_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string item_text(const Pickle& p, Value item) {
  KeyText key = key_text(p, item);
  if (key.text.size() > kMostOfItem) {
    key.text.resize(kMostOfItem);
    key.text.resize(find_invalid_utf8(key.text));
    key.text += "...";
  }
  return key.type == "str" ? "'" + key.text + "'" : std::move(key.text);
}

std::string tuple_text(const Pickle& p, Value tuple) {
  const auto items = p.items(tuple);
  std::string text = "(";
  for (std::size_t i = 0; i < std::min(items.size(), kMostInTuple); ++i) {
    // A tuple in a tuple is not followed: it may be the same one.
    text += i == 0 ? "" : ", ";
    text += p.kind(items[i]) == Kind::kTuple ? "(...)" : item_text(p, items[i]);
  }
  if (items.size() > kMostInTuple) text += ", ...";
  return text + (items.size() == 1 ? ",)" : ")");
}

// Equal for keys that are equal in Python, as far as the text of a key tells; else each value is a
// key of its own.
std::string identity_of(const Pickle& p, Value value, const KeyText& key) {
  switch (p.kind(value)) {
    case Kind::kText:
    case Kind::kByteString:
      return "str " + std::string(p.text(value));
    case Kind::kBool:
    case Kind::kInt:
    case Kind::kNone:
      return key.type + " " + key.text;
    default:
      return "value " + std::to_string(value);
  }
}

// Members by their keys.
class MemberList {
 public:
  void set(const Pickle& p, Value key_value, Value value) {
    KeyText key = key_text(p, key_value);
    const std::string identity = identity_of(p, key_value, key);
    const auto [known, is_new] = places_.emplace(identity, list_.members.size());
    if (!is_new) {
      list_.members[known->second].value = value;
      return;
    }
    while (!texts_.insert(key.text).second) {
      key.text += " (" + key.type + ")";
      key.type = "str";  // the dict has no key of this text
    }
    list_.members.push_back({std::move(key), value});
  }
  void set_all(const Pickle& p, Value dict) {
    if (p.kind(dict) != Kind::kDict) return;
    const auto items = p.items(dict);
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) set(p, items[i], items[i + 1]);
  }
  // The pairs of OrderedDict([(key, value), ...]), as Python 2 wrote it.
  void set_pairs(const Pickle& p, Value list) {
    if (p.kind(list) != Kind::kList && p.kind(list) != Kind::kTuple) return;
    for (const Value pair : p.items(list)) {
      const bool is_pair = (p.kind(pair) == Kind::kList || p.kind(pair) == Kind::kTuple) &&
                           p.items(pair).size() == 2;
      if (is_pair) set(p, p.items(pair)[0], p.items(pair)[1]);
    }
  }
  // The entries of a dict, or of an object of one of Python's kinds of dicts.
  void set_entries(const Pickle& p, Value dict) {
    if (p.kind(dict) != Kind::kCall && p.kind(dict) != Kind::kObject) return set_all(p, dict);
    const Value arguments = p.part(dict, pickle::Part::kArguments);
    if (p.kind(arguments) == Kind::kTuple && is_dict(p, p.part(dict, pickle::Part::kCallee)))
      for (const Value argument : p.items(arguments)) {
        set_all(p, argument);
        set_pairs(p, argument);
      }
    set_all(p, p.part(dict, pickle::Part::kEntries));
  }
  static bool is_dict(const Pickle& p, Value callee) {
    const std::string name = global_text(p, callee);
    return name == "collections.OrderedDict" || name == "collections.Counter" ||
           name == "collections.defaultdict";
  }
  [[nodiscard]] Members take() && { return std::move(list_); }

 private:
  Members list_;
  std::unordered_map<std::string, std::size_t> places_;
  std::unordered_set<std::string> texts_;
};

// The dict of an object's attributes; kNone if its state is none.
Value attributes_of(const Pickle& p, Value state) {
  if (p.kind(state) == Kind::kTuple && p.items(state).size() == 2) state = p.items(state)[0];
  return state;
}

bool is_module(const Pickle& p, Value attributes) {
  return find_member(p, attributes, "_parameters") && find_member(p, attributes, "_modules");
}

// The texts in a set: of protocol 2 it is the call set([...]).
std::unordered_set<std::string_view> names_in(const Pickle& p, std::optional<Value> set) {
  std::unordered_set<std::string_view> names;
  if (!set) return names;
  Value items = *set;
  if (p.kind(items) == Kind::kCall) {
    const Value arguments = p.part(items, pickle::Part::kArguments);
    if (p.kind(arguments) != Kind::kTuple || p.items(arguments).empty()) return names;
    items = p.items(arguments)[0];
  }
  if (p.kind(items) != Kind::kList && p.kind(items) != Kind::kSet) return names;
  for (const Value item : p.items(items))
    if (is_text(p, item)) names.insert(p.text(item));
  return names;
}

// What state_dict() of a torch.nn.Module has: parameters, buffers and the modules below it.
Members members_of_module(const Pickle& p, Value attributes) {
  Members members;
  const auto passing = names_in(p, find_member(p, attributes, "_non_persistent_buffers_set"));
  for (const char* part : {"_parameters", "_buffers", "_modules"}) {
    const auto dict = find_member(p, attributes, part);
    if (!dict) continue;
    MemberList found;
    found.set_entries(p, *dict);
    for (Member& member : std::move(found).take().members) {
      const auto* value = std::get_if<Value>(&member.value);
      const bool is_none = value != nullptr && p.kind(*value) == Kind::kNone;
      if (is_none || (part == std::string_view("_buffers") && passing.contains(member.key.text)))
        continue;
      members.members.push_back(std::move(member));
    }
  }
  return members;
}

}  // namespace

std::string global_text(const Pickle& p, Value value) {
  if (p.kind(value) != Kind::kGlobal) return "?";
  return fmt::format("{}.{}", p.module_of(value), p.name_of(value));
}

KeyText key_text(const Pickle& p, Value key) {
  switch (p.kind(key)) {
    case Kind::kText:
    case Kind::kByteString:
      return {printable_utf8(p.text(key))};
    case Kind::kBool:
      return {p.boolean(key) ? "True" : "False", "bool"};
    case Kind::kInt:
      return {std::to_string(p.integer(key)), "int"};
    case Kind::kFloat:
      return {real_text(p.real(key)), "float"};
    case Kind::kNone:
      return {"None", "NoneType"};
    case Kind::kTuple:
      return {tuple_text(p, key), "tuple"};
    case Kind::kGlobal:
      return {global_text(p, key), "type"};
    default:
      return {fmt::format("<object {}>", key), "object"};
  }
}

Members members_of_dict(const Pickle& p, Value dict) {
  MemberList members;
  members.set_all(p, dict);
  return std::move(members).take();
}

Members members_of_state(const Pickle& p, Value state) {
  MemberList members;
  members.set_all(p, attributes_of(p, state));
  if (p.kind(state) == Kind::kTuple && p.items(state).size() == 2)
    members.set_all(p, p.items(state)[1]);
  return std::move(members).take();
}

Meaning object_meaning(const Pickle& p, const std::string& name, Value object) {
  const Value entries = p.part(object, pickle::Part::kEntries);
  const Value items = p.part(object, pickle::Part::kItems);
  if (MemberList::is_dict(p, p.part(object, pickle::Part::kCallee)) ||
      p.kind(entries) == Kind::kDict) {
    MemberList members;
    members.set_entries(p, object);
    return std::move(members).take();
  }
  if (p.kind(items) == Kind::kList)
    return Sequence{{p.items(items).begin(), p.items(items).end()}, false};
  const auto state = state_of(p, object);
  if (!state) return Opaque{name, "an object without a state that Cairn reads"};
  const Value attributes = attributes_of(p, *state);
  if (is_module(p, attributes)) return members_of_module(p, attributes);
  Members members = members_of_state(p, *state);
  if (members.members.empty()) return Opaque{name, "an object without named parts"};
  return members;
}

}  // namespace cairn::inline v0::pytorch
