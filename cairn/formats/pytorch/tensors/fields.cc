#include <cairn/formats/pytorch/tensors/fields.h>

#include <cairn/base/errors.h>
#include <cairn/base/utf8.h>

#include <fmt/format.h>

#include <charconv>

namespace cairn::inline v0::pytorch {

using pickle::Kind;
using pickle::Pickle;
using pickle::Value;

namespace {

constexpr std::size_t kMostExtents = 1024;
constexpr std::size_t kMostOfName = 1024;  // bytes

// The tuple or list behind torch.Size((2, 3)).
Value sequence_behind(const Pickle& p, Value value) {
  if (p.kind(value) != Kind::kCall ||
      !p.is_global(p.part(value, pickle::Part::kCallee), "torch.Size"))
    return value;
  const Value arguments = p.part(value, pickle::Part::kArguments);
  return p.kind(arguments) == Kind::kTuple && p.items(arguments).size() == 1 ? p.items(arguments)[0]
                                                                             : arguments;
}

}  // namespace

std::uint64_t count_field(const Pickle& p, Value value) {
  if (p.kind(value) == Kind::kInt && p.integer(value) >= 0)
    return static_cast<std::uint64_t>(p.integer(value));
  data_loss("a size or an offset of a tensor is not an integer from 0 to 2^63 - 1");
}

Shape extents_field(const Pickle& p, Value value) {
  const Value sequence = sequence_behind(p, value);
  const Kind kind = p.kind(sequence);
  if (kind != Kind::kTuple && kind != Kind::kList)
    data_loss("the shape of a tensor is neither a tuple nor a list");
  const auto items = p.items(sequence);
  if (items.size() > kMostExtents)
    data_loss(fmt::format("a tensor has {} dimensions", items.size()));
  Shape extents;
  extents.reserve(items.size());
  for (const Value item : items) extents.push_back(static_cast<std::int64_t>(count_field(p, item)));
  return extents;
}

double real_field(const Pickle& p, Value value) {
  if (p.kind(value) == Kind::kFloat) return p.real(value);
  if (p.kind(value) == Kind::kInt) return static_cast<double>(p.integer(value));
  data_loss("an argument is not a number");
}

std::optional<std::uint64_t> unsigned_value(const Pickle& p, Value value) {
  std::uint64_t number = 0;
  if (p.kind(value) == Kind::kLongText) {
    const std::string_view digits = p.text(value);
    const char* const end = digits.data() + digits.size();
    const auto [stop, status] = std::from_chars(digits.data(), end, number);
    return status == std::errc() && stop == end ? std::optional(number) : std::nullopt;
  }
  // Python writes what does not fit into 64 bits with a sign, so 2^63 has nine bytes.
  if (p.kind(value) != Kind::kLongBytes) return std::nullopt;
  const ByteView bytes = p.bytes(value);
  if (bytes.size() != 9 || bytes[8] != std::byte{0}) return std::nullopt;
  for (std::size_t i = 0; i < 8; ++i) number |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return number;
}

bool is_text(const Pickle& p, Value value) {
  return p.kind(value) == Kind::kText || p.kind(value) == Kind::kByteString;
}

std::string text_field(const Pickle& p, Value value) {
  if (is_text(p, value)) return std::string(p.text(value));
  data_loss("an argument is not a text");
}

std::string_view name_field(const Pickle& p, Value value) {
  if (!is_text(p, value)) data_loss("an argument is not a text");
  if (p.text(value).size() > kMostOfName)
    data_loss(fmt::format("a name has {} bytes", p.text(value).size()));
  return p.text(value);
}

StorageName storage_field(const Pickle& p, Value value) {
  if (p.kind(value) != Kind::kPersistent) data_loss("a tensor has no storage");
  const Value id = p.items(value)[0];
  if (p.kind(id) != Kind::kTuple || p.items(id).size() < 5)
    data_loss("a persistent id is not the tuple of a storage");
  const auto items = p.items(id);
  if (!is_text(p, items[0]) || p.text(items[0]) != "storage")
    data_loss("a persistent id is not that of a storage");
  const std::string type = global_text(p, items[1]);
  StorageName storage{.key = std::string(name_field(p, items[2])),
                      .element = element_of_storage(type),
                      .count = count_field(p, items[4])};
  if (!storage.element && !is_untyped_storage(type))
    throw Error(Code::kUnimplemented, type + " is not a storage that Cairn knows");
  // (key of the view, offset, count), in files of PyTorch before 1.6
  if (items.size() > 5 && p.kind(items[5]) == Kind::kTuple && p.items(items[5]).size() == 3) {
    storage.first = count_field(p, p.items(items[5])[1]);
    storage.length = count_field(p, p.items(items[5])[2]);
  }
  return storage;
}

std::string layout_text(const Pickle& p, Value value) {
  if (p.kind(value) != Kind::kCall ||
      !p.is_global(p.part(value, pickle::Part::kCallee), "torch.serialization._get_layout"))
    return "";
  const Value arguments = p.part(value, pickle::Part::kArguments);
  if (p.kind(arguments) != Kind::kTuple || p.items(arguments).empty()) return "";
  const Value name = p.items(arguments)[0];
  return is_text(p, name) ? std::string(name_field(p, name)) : "";
}

bool is_dict(const Pickle& p, Value value) {
  if (p.kind(value) != Kind::kCall && p.kind(value) != Kind::kObject)
    return p.kind(value) == Kind::kDict;
  const Value callee = p.part(value, pickle::Part::kCallee);
  return p.is_global(callee, "collections.OrderedDict") ||
         p.is_global(callee, "collections.Counter") ||
         p.is_global(callee, "collections.defaultdict");
}

void for_each_entry(const Pickle& p, Value dict, Work* work,
                    const std::function<void(Value, Value)>& f) {
  const auto add_dict = [&](Value from) {
    if (p.kind(from) != Kind::kDict) return;
    const auto items = p.items(from);
    count(work, items.size());
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) f(items[i], items[i + 1]);
  };
  // OrderedDict([[key, value], ...]), as Python 2 wrote it
  const auto is_sequence = [&](Value value) {
    return p.kind(value) == Kind::kList || p.kind(value) == Kind::kTuple;
  };
  const auto add_pairs = [&](Value from) {
    if (!is_sequence(from)) return;
    count(work, p.items(from).size());
    for (const Value pair : p.items(from))
      if (is_sequence(pair) && p.items(pair).size() == 2) f(p.items(pair)[0], p.items(pair)[1]);
  };
  if (p.kind(dict) != Kind::kCall && p.kind(dict) != Kind::kObject) return add_dict(dict);
  const Value arguments = p.part(dict, pickle::Part::kArguments);
  if (p.kind(arguments) == Kind::kTuple && is_dict(p, dict))
    for (const Value argument : p.items(arguments)) {
      add_dict(argument);
      add_pairs(argument);
    }
  add_dict(p.part(dict, pickle::Part::kEntries));
}

std::optional<Value> find_member(const Pickle& p, Value dict, std::string_view key, Work* work) {
  std::optional<Value> found;  // the last one counts
  for_each_entry(p, dict, work, [&](Value name, Value value) {
    if (is_text(p, name) && p.text(name) == key) found = value;
  });
  return found;
}

std::optional<Value> state_of(const Pickle& p, Value object) {
  const Value states = p.part(object, pickle::Part::kStates);
  if (p.kind(states) != Kind::kList || p.items(states).empty()) return std::nullopt;
  return p.items(states).back();
}

Bytes latin1_bytes(std::string_view text) {
  Bytes bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character c = decode_utf8(text);
    if (!c.valid || c.code > 0xff) data_loss("bytes are stored as text that is not Latin-1");
    bytes.push_back(static_cast<std::byte>(c.code));
    text.remove_prefix(c.length);
  }
  return bytes;
}

std::string printable_utf8(std::string_view text) {
  std::string out;
  for (std::size_t end = find_invalid_utf8(text); end < text.size();
       end = find_invalid_utf8(text)) {
    out += text.substr(0, end);
    text.remove_prefix(end);
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const bool is_surrogate = text.size() >= 3 && byte(0) == 0xed && byte(1) >= 0xa0 &&
                              byte(1) < 0xc0 && (byte(2) & 0xc0U) == 0x80;
    if (is_surrogate)
      out += fmt::format("\\u{:04x}", 0xd000U | (byte(1) & 0x3fU) << 6U | (byte(2) & 0x3fU));
    else
      out += fmt::format("\\x{:02x}", byte(0));
    text.remove_prefix(is_surrogate ? 3 : 1);
  }
  return out.empty() ? std::string(text) : out.append(text);
}

}  // namespace cairn::inline v0::pytorch
