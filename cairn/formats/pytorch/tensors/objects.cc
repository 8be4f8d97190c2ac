#include <cairn/formats/pytorch/tensors/objects.h>

#include <cairn/base/utf8.h>

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
  MemberList(const Pickle& p, Work* work) : p_(p), work_(work) {}

  void set(Value key_value, Value value) {
    KeyText key = key_text(p_, key_value);
    count(work_, kWorkOfKey + key.text.size() / 2);
    const std::string identity = identity_of(p_, key_value, key);
    const auto [known, is_new] = places_.emplace(identity, list_.members.size());
    if (!is_new) {
      list_.members[known->second].value = value;
      return;
    }
    texts_.claim(key, key.type);
    list_.members.push_back({std::move(key), value});
  }
  void set_entries(Value dict) {
    for_each_entry(p_, dict, work_, [&](Value key, Value value) { set(key, value); });
  }
  // Dicts with the newest first.
  void set_attributes(std::span<const Value> dicts) {
    for (std::size_t i = dicts.size(); i-- > 0;) set_entries(dicts[i]);
  }
  [[nodiscard]] Members take() && { return std::move(list_); }

 private:
  static constexpr std::uint64_t kWorkOfKey = 8;
  const Pickle& p_;
  Work* work_;
  Members list_;
  std::unordered_map<std::string, std::size_t> places_;
  UniqueTexts texts_;
};

std::optional<Value> find_attribute(const Pickle& p, const Extras& extras, std::string_view name,
                                    Work* work) {
  for (const Value dict : extras.attributes)
    if (const auto found = find_member(p, dict, name, work)) return found;
  return std::nullopt;
}

bool is_module(const Pickle& p, const Extras& extras, Work* work) {
  return find_attribute(p, extras, "_parameters", work) &&
         find_attribute(p, extras, "_modules", work);
}

// The texts in a set: of protocol 2 it is the call set([...]).
std::unordered_set<std::string_view> names_in(const Pickle& p, std::optional<Value> set,
                                              Work* work) {
  std::unordered_set<std::string_view> names;
  if (!set) return names;
  Value items = *set;
  if (p.kind(items) == Kind::kCall) {
    const Value arguments = p.part(items, pickle::Part::kArguments);
    if (p.kind(arguments) != Kind::kTuple || p.items(arguments).empty()) return names;
    items = p.items(arguments)[0];
  }
  if (p.kind(items) != Kind::kList && p.kind(items) != Kind::kSet) return names;
  for (const Value item : p.items(items)) {
    const std::string_view name = is_text(p, item) ? p.text(item) : std::string_view();
    count(work, 4 + name.size() / 8);
    names.insert(name);
  }
  return names;
}

// What state_dict() of a torch.nn.Module has: parameters, buffers and the modules below it.
Members members_of_module(const Pickle& p, const Extras& extras, Work* work) {
  Members members{.members = {}, .is_module = true};
  const auto passing =
      names_in(p, find_attribute(p, extras, "_non_persistent_buffers_set", work), work);
  for (const char* part : {"_parameters", "_buffers", "_modules"}) {
    const auto dict = find_attribute(p, extras, part, work);
    if (!dict) continue;
    MemberList found(p, work);
    found.set_entries(*dict);
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

bool is_empty_tuple(const Pickle& p, Value value) {
  return p.kind(value) == Kind::kTuple && p.items(value).empty();
}

// The arguments of copyreg._reconstructor(class, base, contents), with which the protocols 0 and 1
// make an object; nullopt for any other call.
std::optional<std::span<const Value>> reconstructed(const Pickle& p, std::string_view name,
                                                    Value object) {
  const Value arguments = p.part(object, pickle::Part::kArguments);
  const bool is_it = name == "copyreg._reconstructor" || name == "copy_reg._reconstructor";
  if (!is_it || p.kind(arguments) != Kind::kTuple || p.items(arguments).size() != 3)
    return std::nullopt;
  return p.items(arguments);
}

// Whether torch.compile gives tensors an attribute of this name.
bool is_mark_of_compiler(std::string_view name) {
  return name.starts_with("_dynamo_") || name == "_specialize_on" ||
         name == "_has_dynamo_dim_marking";
}

// An object whose attributes are all that it has.
Meaning attributes_meaning(const Pickle& p, const std::string& name, Extras& extras, Work* work) {
  const bool has_arguments = extras.arguments || extras.keywords;
  if (!extras.states.empty() || (extras.attributes.empty() && has_arguments)) {
    const bool has_state = !extras.states.empty();
    extras = {};
    return Opaque{name, has_state ? "it has a state that only its class can read"
                                  : "an object without a state that Cairn reads"};
  }
  if (is_module(p, extras, work)) {
    Members members = members_of_module(p, extras, work);
    extras.attributes.clear();
    return members;
  }
  MemberList list(p, work);
  list.set_attributes(extras.attributes);
  extras.attributes.clear();
  Members members = std::move(list).take();
  if (members.members.empty() && !has_arguments) members.empty_object = name;
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
      return {.text = printable_utf8(p.text(key)), .is_escaped = !valid_utf8(p.text(key))};
    case Kind::kBool:
      return {p.boolean(key) ? "True" : "False", "bool"};
    case Kind::kInt:
      return {std::to_string(p.integer(key)), "int"};
    case Kind::kLongText:
      return {std::string(p.text(key)), "int"};
    case Kind::kFloat:
      return {real_text(p.real(key)), "float"};
    case Kind::kNone:
      return {"None", "NoneType"};
    case Kind::kTuple:
      return {tuple_text(p, key), "tuple"};
    case Kind::kGlobal:
      return {global_text(p, key), "type"};
    case Kind::kLongBytes:
      if (const auto number = unsigned_value(p, key)) return {std::to_string(*number), "int"};
      [[fallthrough]];
    default:
      return {.text = fmt::format("<object {}>", key), .type = "object", .is_renamed = true};
  }
}

void UniqueTexts::claim(KeyText& key, std::string what) {
  const auto [known, is_new] = taken_.emplace(key.text, 0);
  if (is_new) return;
  key.is_renamed = true;
  key.type = "str";  // the dict has no key of this text
  const std::string base = key.text + " (" + std::move(what);
  do {
    const std::size_t number = ++known->second;
    key.text = base + (number == 1 ? ")" : fmt::format(" {})", number));
  } while (!taken_.emplace(key.text, 0).second);
}

void Extras::add_state(const Pickle& p, Value state) {
  const auto may_be_dict = [&](Value value) {
    return is_dict(p, value) || p.kind(value) == Kind::kNone;
  };
  const auto add_dict = [&](Value dict) {
    if (p.kind(dict) != Kind::kNone) attributes.push_back(dict);
  };
  if (may_be_dict(state)) return add_dict(state);
  const bool is_pair = p.kind(state) == Kind::kTuple && p.items(state).size() == 2 &&
                       may_be_dict(p.items(state)[0]) && may_be_dict(p.items(state)[1]);
  if (!is_pair) return states.push_back(state);
  add_dict(p.items(state)[1]);
  add_dict(p.items(state)[0]);
}

void Extras::add_states_of(const Pickle& p, Value object) {
  const Value given = p.part(object, pickle::Part::kStates);
  if (p.kind(given) != Kind::kList) return;
  const auto all = p.items(given);
  for (std::size_t i = all.size(); i-- > 0;) add_state(p, all[i]);
}

Members members_of_dict(const Pickle& p, Value dict, Work* work) {
  MemberList members(p, work);
  members.set_entries(dict);
  return std::move(members).take();
}

Members members_of_state(const Pickle& p, Value state, Work* work) {
  Extras extras;
  extras.add_state(p, state);
  MemberList members(p, work);
  members.set_attributes(extras.attributes);
  return std::move(members).take();
}

Members members_of_extras(const Pickle& p, const Extras& extras, Work* work) {
  Members out;
  MemberList list(p, work);
  list.set_attributes(extras.attributes);
  Members attributes = std::move(list).take();
  std::erase_if(attributes.members, [&](const Member& member) {
    const std::string& name = member.key.text;
    return (extras.of_tensor && is_mark_of_compiler(name)) ||
           std::ranges::find(extras.unshown, name) != extras.unshown.end();
  });
  if (!attributes.members.empty()) out.members.push_back({{"__dict__"}, std::move(attributes)});
  for (std::size_t i = extras.states.size(), n = 1; i-- > 0; ++n)
    out.members.push_back(
        {{n == 1 ? "__state__" : fmt::format("__state{}__", n)}, extras.states[i]});
  const auto add = [&](const char* name, std::optional<Value> value) {
    if (value) out.members.push_back({{name}, *value});
  };
  add("__args__", extras.arguments);
  add("__kwargs__", extras.keywords);
  add("__dtype__", extras.dtype);
  add("__size__", extras.size);
  return out;
}

std::variant<Meaning, Value> object_meaning(const Pickle& p, const std::string& name, Value object,
                                            Extras& extras, Work* work) {
  const bool is_a_dict = is_dict(p, object);
  const bool has_entries =
      is_a_dict || p.kind(p.part(object, pickle::Part::kEntries)) != Kind::kNone;
  const Value items = p.part(object, pickle::Part::kItems);
  const bool is_deque = name == "collections.deque";
  const bool has_items = is_deque || p.kind(items) != Kind::kNone;
  if (has_entries && has_items) return Opaque{name, "it has both items and entries"};
  extras.add_states_of(p, object);
  count(work, extras.attributes.size() + extras.states.size());
  const auto rebuilt = reconstructed(p, name, object);
  const Value arguments = p.part(object, pickle::Part::kArguments);
  const Value keywords = p.part(object, pickle::Part::kKeywords);
  if (!is_a_dict && !rebuilt && !is_empty_tuple(p, arguments)) extras.arguments = arguments;
  if (p.kind(keywords) != Kind::kNone) extras.keywords = keywords;
  if (has_entries) {
    // A state_dict() keeps the versions of its modules in an attribute.
    if (name == "collections.OrderedDict") extras.unshown.emplace_back("_metadata");
    return members_of_dict(p, object, work);
  }
  if (has_items) {
    if (p.kind(items) != Kind::kList) return Sequence{};
    count(work, p.items(items).size());
    return Sequence{{p.items(items).begin(), p.items(items).end()}, false};
  }
  if (!rebuilt) return attributes_meaning(p, name, extras, work);
  const std::string base = global_text(p, (*rebuilt)[1]);
  if (base != "builtins.object" && base != "__builtin__.object") return (*rebuilt)[2];
  return attributes_meaning(p, global_text(p, (*rebuilt)[0]), extras, work);
}

}  // namespace cairn::inline v0::pytorch
