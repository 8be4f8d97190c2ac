// refused_metadata.cc -- the rules that other readers are stricter about than Cairn. Tables list
// the members that a codec may have.
#include <cairn/zarr/metadata/refused_metadata.h>

#include <cairn/base/json/json.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace cairn::inline v0::zarr {
namespace {

enum class Kind : std::uint8_t { kAny, kInteger, kBool };

struct Member {
  std::string_view name;
  Kind kind = Kind::kAny;
  std::int64_t least = 0, most = 0;  // of an integer
  bool required = false;             // by TensorStore
};

// A codec and the members of its configuration. TensorStore has few codecs.
struct CodecMembers {
  std::string_view id;
  bool in_tensorstore = false;
  std::vector<Member> members;
};

constexpr std::int64_t kLeastZstd = -131072, kMostZstd = 22;
constexpr std::int64_t kMostBlock = 0x7fffffff;

// Zarr v2: the arguments of the classes of numcodecs.
const std::vector<CodecMembers>& v2_codecs() {
  static const std::vector<CodecMembers> kCodecs = {
      {"zstd", true, {{"level", Kind::kInteger, kLeastZstd, kMostZstd}, {"checksum"}}},
      {"zlib", true, {{"level", Kind::kInteger, 0, 9}}},
      {"gzip", true, {{"level", Kind::kInteger, 0, 9}}},
      {"bz2", true, {{"level", Kind::kInteger, 1, 9}}},
      {"blosc",
       true,
       {{"cname"},
        {"clevel", Kind::kInteger, 0, 9},
        {"shuffle", Kind::kInteger, -1, 2},
        {"blocksize", Kind::kInteger, 0, kMostBlock},
        {"typesize"}}},
      {"lz4", false, {{"acceleration"}}},
      {"shuffle", false, {{"elementsize"}}},
      {"delta", false, {{"dtype"}, {"astype"}}},
      {"fixedscaleoffset", false, {{"offset"}, {"scale"}, {"dtype"}, {"astype"}}},
      {"quantize", false, {{"digits"}, {"dtype"}, {"astype"}}},
      {"astype", false, {{"encode_dtype"}, {"decode_dtype"}}},
      {"bitround", false, {{"keepbits"}}},
      {"packbits", false, {}},
      {"crc32", false, {{"location"}}},
      {"crc32c", false, {{"location"}}},
      {"adler32", false, {{"location"}}},
      {"fletcher32", false, {}},
      {"jenkins_lookup3", false, {{"initval"}, {"prefix"}}},
      {"vlen-utf8", false, {}},
      {"vlen-bytes", false, {}},
  };
  return kCodecs;
}

// Zarr v3: the codecs whose configuration Cairn reads as that of numcodecs.
const std::vector<CodecMembers>& v3_codecs() {
  static const std::vector<CodecMembers> kCodecs = {
      {"zstd",
       true,
       {{"level", Kind::kInteger, kLeastZstd, kMostZstd, true}, {"checksum", Kind::kBool}}},
      {"gzip", true, {{"level", Kind::kInteger, 0, 9, true}}},
      {"blosc",
       true,
       {{"cname", Kind::kAny, 0, 0, true},
        {"clevel", Kind::kInteger, 0, 9, true},
        {"shuffle", Kind::kAny, 0, 0, true},
        {"typesize", Kind::kInteger, 1, 255},
        {"blocksize", Kind::kInteger, 0, kMostBlock, true}}},
  };
  return kCodecs;
}

const CodecMembers* find_codec(const std::vector<CodecMembers>& codecs, std::string_view id) {
  const auto it = std::ranges::find(codecs, id, &CodecMembers::id);
  return it == codecs.end() ? nullptr : &*it;
}

std::string in_quotes(std::string_view name) { return "'" + std::string(name) + "'"; }

std::string_view text_of(const Json* value) {
  const std::string* text = value != nullptr ? value->as_string() : nullptr;
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

// Checks one document. The first fault stays.
class Check {
 public:
  Check(const Json& root, OtherReaders readers)
      : root_(root), strict_(readers == OtherReaders::kTensorStore) {}

  std::optional<std::string> run(int zarr_format) {
    if (strict_ && has_no_number(root_)) fault("a number is NaN or infinite, which is not JSON");
    if (zarr_format == 2)
      check_v2();
    else
      check_v3();
    return std::move(fault_);
  }

 private:
  void fault(std::string what) {
    if (!fault_) fault_ = std::move(what);
  }

  static bool has_no_number(const Json& value) {
    if (const auto* number = std::get_if<double>(&value.value())) return !std::isfinite(*number);
    if (const auto* items = value.as_array()) return std::ranges::any_of(*items, has_no_number);
    const auto* members = value.as_object();
    return members != nullptr && std::ranges::any_of(*members, [](const auto& member) {
             return has_no_number(member.second);
           });
  }

  // For zarr-python true is 1, and for TensorStore 2.0 is 2.
  void check_kind(std::string_view codec, const Member& member, const Json& value) {
    const std::string what = "codec " + in_quotes(codec) + ": " + std::string(member.name) + ": " +
                             to_text(value) + " is not ";
    if (member.kind == Kind::kBool && value.as_bool() == nullptr) fault(what + "true or false");
    if (member.kind != Kind::kInteger) return;
    if (!strict_ && value.as_bool() != nullptr) return;
    const auto number = value.as_int64(true);
    if (!number || *number < member.least || *number > member.most)
      fault(what + "an integer from " + std::to_string(member.least) + " to " +
            std::to_string(member.most));
  }

  // `types`: the readers check the types of the members, too.
  void check_members(const CodecMembers& codec, const Json* configuration, std::string_view ignored,
                     bool types) {
    if (strict_ && !codec.in_tensorstore)
      return fault("TensorStore has no codec " + in_quotes(codec.id));
    const auto find = [&](std::string_view name) {
      return configuration != nullptr ? configuration->find(name) : nullptr;
    };
    for (const Member& member : codec.members)
      if (const Json* value = find(member.name); value != nullptr && types)
        check_kind(codec.id, member, *value);
      else if (value == nullptr && strict_ && member.required)
        fault("codec " + in_quotes(codec.id) + " lacks " + in_quotes(member.name));
    if (configuration == nullptr || configuration->as_object() == nullptr) return;
    for (const auto& [name, value] : *configuration->as_object())
      if (name != ignored &&
          std::ranges::find(codec.members, name, &Member::name) == codec.members.end())
        fault("codec " + in_quotes(codec.id) + " has an unknown member " + in_quotes(name));
  }

  // ---- version 2 ----
  void check_v2() {
    for (const std::string_view member : {"fill_value", "order", "filters"})
      if (root_.find(member) == nullptr && (strict_ || member != "filters"))
        fault("required member " + in_quotes(member) + " is missing");
    for (const std::string_view member : {"order", "dimension_separator"})
      if (const Json* value = root_.find(member); value != nullptr && value->is_null())
        fault(std::string(member) + " is null");
    check_v2_codec(root_.find("compressor"));
    const Json* filters = root_.find("filters");
    const JsonArray* list = filters != nullptr ? filters->as_array() : nullptr;
    if (list != nullptr)
      for (const Json& filter : *list) check_v2_codec(&filter);
    if (strict_ && list != nullptr && !list->empty()) fault("TensorStore reads no filters");
    check_v2_type();
  }

  void check_v2_codec(const Json* codec) {
    const CodecMembers* known =
        codec != nullptr ? find_codec(v2_codecs(), text_of(codec->find("id"))) : nullptr;
    if (known == nullptr) return;
    check_members(*known, codec, "id", strict_);
    for (const std::string_view member : {"checksum", "typesize"})
      if (strict_ && codec->find(member) != nullptr)
        fault("TensorStore knows no " + in_quotes(member) + " of codec " + in_quotes(known->id));
  }

  void check_v2_type() {
    const Json* dtype = root_.find("dtype");
    const Json* fill = root_.find("fill_value");
    if (dtype == nullptr || fill == nullptr) return;
    const std::string_view type = text_of(dtype);
    const char kind = type.size() > 1 ? type[1] : '\0';
    const bool has_fields = dtype->as_array() != nullptr && dtype->as_array()->size() > 1;
    if (strict_ && (has_fields || std::string_view("UOMm").find(kind) != std::string_view::npos))
      return fault("TensorStore has no type " + to_text(*dtype));
    const bool is_text = kind == 'U' || kind == 'S';
    const bool is_time = kind == 'M' || kind == 'm';
    const bool refused = (kind == 'c' && fill->is_number()) ||
                         (is_text && !fill->is_null() && fill->as_string() == nullptr) ||
                         (strict_ && kind == 'b' && fill->is_number()) ||
                         (is_time && fill->is_number() && !fill->as_int64());
    const std::string_view text = text_of(fill);
    const bool lower_case = strict_ && kind == 'f' && is_lower_case_special(text);
    if (refused || lower_case)
      fault("fill_value " + to_text(*fill) + " is not a value of " + std::string(type));
  }

  // TensorStore writes NaN and Infinity, and reads no other spelling.
  static bool is_lower_case_special(std::string_view text) {
    if (text.starts_with('-')) text.remove_prefix(1);
    return text.starts_with('n') || text.starts_with('i');
  }

  // ---- version 3 ----
  void check_v3() {
    for (const auto& [name, value] : *root_.as_object())
      if (value.is_null() && !is_v3_member(name))
        fault("the member " + in_quotes(name) + " is unknown");
    if (const Json* type = root_.find("data_type"); type != nullptr && is_bare_object(*type))
      fault("data_type " + to_text(*type) + " is not a string");
    const Json* fill = root_.find("fill_value");
    if (strict_ && fill != nullptr && text_of(root_.find("data_type")) == "bool" &&
        fill->as_bool() == nullptr)
      fault("fill_value " + to_text(*fill) + " is not true or false");
    const Json* keys = root_.find("chunk_key_encoding");
    if (keys != nullptr && keys->as_string() != nullptr)
      fault("chunk_key_encoding " + to_text(*keys) + " is not an object");
    if (strict_) check_extension(root_.find("chunk_grid"), "chunk_grid");
    if (strict_) check_extension(keys, "chunk_key_encoding");
    check_v3_codecs(root_.find("codecs"));
  }

  static bool is_v3_member(std::string_view name) {
    constexpr std::string_view kKnown[] = {
        "zarr_format",         "node_type",  "shape",  "data_type",  "chunk_grid",
        "chunk_key_encoding",  "fill_value", "codecs", "attributes", "dimension_names",
        "storage_transformers"};
    return std::ranges::find(kKnown, name) != std::end(kKnown);
  }

  // {"name": "float32"}: a type without parameters has no object.
  static bool is_bare_object(const Json& type) {
    const Json* configuration = type.find("configuration");
    return type.as_object() != nullptr && configuration == nullptr;
  }

  void check_extension(const Json* extension, std::string_view what) {
    if (extension == nullptr || extension->as_object() == nullptr) return;
    for (const auto& [name, value] : *extension->as_object())
      if (name != "name" && name != "configuration")
        fault(std::string(what) + " has an unknown member " + in_quotes(name));
  }

  void check_v3_codecs(const Json* list) {
    if (list == nullptr || list->as_array() == nullptr) return;
    for (const Json& codec : *list->as_array()) check_v3_codec(codec);
  }

  void check_v3_codec(const Json& codec) {
    const std::string_view name = codec.as_string() != nullptr
                                      ? std::string_view(*codec.as_string())
                                      : text_of(codec.find("name"));
    if (strict_) check_extension(&codec, "codec " + in_quotes(name));
    const Json* configuration = codec.find("configuration");
    if (const CodecMembers* known = find_codec(v3_codecs(), name)) {
      if (configuration == nullptr) fault("codec " + in_quotes(name) + " has no configuration");
      return check_members(*known, configuration, "", true);
    }
    if (name == "sharding_indexed") return check_shard(configuration);
    constexpr std::string_view kPlain[] = {"bytes", "crc32c", "transpose"};
    if (std::ranges::find(kPlain, name) != std::end(kPlain)) return;
    if (strict_) return fault("TensorStore has no codec " + in_quotes(name));
    constexpr std::string_view kNumcodecs = "numcodecs.";
    if (!name.starts_with(kNumcodecs)) return;
    if (const CodecMembers* known = find_codec(v2_codecs(), name.substr(kNumcodecs.size())))
      check_members(*known, configuration, "id", false);
  }

  void check_shard(const Json* configuration) {
    if (configuration == nullptr) return;
    const Json* index = configuration->find("index_codecs");
    if (index == nullptr && strict_) fault("codec 'sharding_indexed' lacks 'index_codecs'");
    check_v3_codecs(index);
    check_v3_codecs(configuration->find("codecs"));
  }

  const Json& root_;
  bool strict_;
  std::optional<std::string> fault_;
};

}  // namespace

std::optional<std::string> find_refused_metadata(std::string_view json, int zarr_format,
                                                 OtherReaders readers) {
  const Json root = parse_json(without_byte_order_mark(json));
  if (root.as_object() == nullptr) return std::nullopt;
  return Check(root, readers).run(zarr_format);
}

}  // namespace cairn::inline v0::zarr
