// zarr_spec.cc -- parses the members of the drivers zarr, zarr3 and cast.
#include <cairn/tensorstore_spec/zarr_spec.h>

#include <cairn/tensorstore_spec/members.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

DType parse_dtype(const std::string& name, const std::string& pointer) {
  const auto dtype = dtype_from_name(name);
  // TensorStore does not have these types
  constexpr DType kRefused[] = {DType::kUint2, DType::kUint4, DType::kFloat8E4m3};
  if (dtype && std::find(std::begin(kRefused), std::end(kRefused), *dtype) == std::end(kRefused))
    return *dtype;
  refuse(pointer, "\"" + name + "\" is not an element type that TensorStore and Cairn know");
}

// Merges a value that a spec may state several times; all statements must be equal.
template <class T>
void agree(std::optional<T>& into, std::optional<T> value, const std::string& pointer) {
  if (into && value && *into != *value) refuse(pointer, "contradicts another member of the spec");
  if (value) into = std::move(value);
}

// Parses a bound: n, or [n] for an implicit bound, which follows the array. Sets `implicit` for the
// latter.
std::int64_t parse_bound(const Json& value, const std::string& pointer, bool& implicit) {
  const JsonArray* list = value.as_array();
  const Json& bound = list && list->size() == 1 ? list->front() : value;
  implicit = implicit || list;
  const auto n = bound.as_int64();
  if (!n || *n < 0) refuse(pointer, "expected extents, not " + to_text(value));
  return *n;
}

std::optional<Shape> parse_bounds(Members& members, const char* name, bool& implicit) {
  const Json* value = members.take(name);
  if (!value) return std::nullopt;
  if (!value->as_array()) refuse(members.pointer(name), "expected a list of extents");
  Shape shape;
  for (const Json& bound : *value->as_array())
    shape.push_back(parse_bound(bound, members.pointer(name), implicit));
  return shape;
}

// Parses the members `lower`, `upper` and `shape` of a domain that begins at 0. Sets no shape if
// the domain only follows the array's.
void parse_domain(Members& members, const std::string& prefix, Wanted& wanted) {
  const auto member = [&](const char* name) { return prefix + name; };
  bool implicit = false;
  const std::string lower = member("inclusive_min");
  const std::string upper = member("exclusive_max");
  const std::string extents = member("shape");
  if (const auto min = parse_bounds(members, lower.c_str(), implicit))
    if (std::any_of(min->begin(), min->end(), [](std::int64_t n) { return n != 0; }))
      refuse(members.pointer(lower), "Cairn opens only arrays whose first element is at 0",
             Code::kUnimplemented);
  implicit = false;
  auto shape = parse_bounds(members, upper.c_str(), implicit);
  if (!shape) shape = parse_bounds(members, extents.c_str(), implicit);
  agree(wanted.rank, members.integer(member("rank"), 0, 32), members.pointer(member("rank")));
  if (shape)
    agree(wanted.rank, std::optional(static_cast<std::int64_t>(shape->size())), members.here());
  if (shape && !implicit) agree(wanted.shape, std::move(shape), members.here());
}

// Accepts only the identity transform, which TensorStore itself writes for an array that is opened
// whole.
void parse_transform(const Json& value, const std::string& pointer, Wanted& wanted) {
  Members members(value, pointer);
  parse_domain(members, "input_", wanted);
  if (const Json* labels = members.take("input_labels")) {
    const JsonArray* list = labels->as_array();
    if (!list || std::any_of(list->begin(), list->end(),
                             [](const Json& label) { return label != Json(""); }))
      refuse(members.pointer("input_labels"), "Cairn does not support dimension labels",
             Code::kUnimplemented);
  }
  if (const Json* output = members.take("output")) {
    const JsonArray* maps = output->as_array();
    bool identity = maps != nullptr;
    for (std::size_t d = 0; identity && d < maps->size(); ++d) {
      const Json* dimension = (*maps)[d].find("input_dimension");
      const JsonObject* members_of = (*maps)[d].as_object();
      identity = members_of && members_of->size() == 1 && dimension &&
                 dimension->as_int64() == static_cast<std::int64_t>(d);
    }
    if (!identity)
      refuse(members.pointer("output"),
             "Cairn opens only whole arrays; read a box of the array instead",
             Code::kUnimplemented);
    agree(wanted.rank, std::optional(static_cast<std::int64_t>(maps->size())),
          members.pointer("output"));
  }
  members.finish();
}

void parse_schema(const Json& value, const std::string& pointer, Wanted& wanted) {
  Members members(value, pointer);
  if (const auto name = members.text("dtype"))
    agree(wanted.dtype, std::optional(parse_dtype(*name, members.pointer("dtype"))),
          members.pointer("dtype"));
  agree(wanted.rank, members.integer("rank", 0, 32), members.pointer("rank"));
  if (const Json* domain = members.take("domain")) {
    Members inner(*domain, members.pointer("domain"));
    parse_domain(inner, "", wanted);
    inner.reject_unsupported({"labels"});
    inner.finish();
  }
  members.reject_unsupported({"chunk_layout", "codec", "fill_value", "dimension_units"});
  members.finish();
}

Wanted parse_wanted(Members& members) {
  Wanted wanted;
  if (const auto name = members.text("dtype"))
    wanted.dtype = parse_dtype(*name, members.pointer("dtype"));
  wanted.rank = members.integer("rank", 0, 32);
  if (const Json* schema = members.take("schema"))
    parse_schema(*schema, members.pointer("schema"), wanted);
  if (const Json* transform = members.take("transform"))
    parse_transform(*transform, members.pointer("transform"), wanted);
  return wanted;
}

OpenMode parse_mode(Members& members, const OpenSpecOptions& options) {
  const auto flag = [&](const char* name, const std::optional<bool>& instead) {
    const auto in_spec = members.flag(name);
    return instead ? instead : in_spec;
  };
  OpenMode mode;
  mode.create = flag("create", options.create).value_or(false);
  mode.delete_existing = flag("delete_existing", options.delete_existing).value_or(false);
  mode.open = flag("open", options.open).value_or(!mode.create);
  mode.assume_metadata = flag("assume_metadata", options.assume_metadata).value_or(false);
  if (!mode.open && !mode.create)
    refuse(members.pointer("open"), "\"open\" and \"create\" are both false; set one of them");
  if (mode.delete_existing && (mode.open || !mode.create))
    refuse(members.pointer("delete_existing"), "needs \"create\": true and no \"open\"");
  if (mode.assume_metadata && !mode.open)
    refuse(members.pointer("assume_metadata"), "needs \"open\": true");
  return mode;
}

void check_recheck(Members& members, const char* name) {
  const Json* value = members.take(name);
  const bool open = value && value->as_string() && *value->as_string() == "open";
  if (value && !open && !value->as_bool() && !value->is_number())
    refuse(members.pointer(name), "expected true, false, a time or \"open\"");
}

ZarrSpec parse_zarr(Members& members, int zarr_format, const OpenSpecOptions& options,
                    const Scope& scope) {
  ZarrSpec spec;
  spec.pointer = members.here();
  spec.zarr_format = zarr_format;
  spec.location = parse_store_location(members.require("kvstore"), members.pointer("kvstore"),
                                       scope.inside(members));
  if (const auto path = members.text("path"))
    spec.location.path = folder_prefix(std::move(spec.location.path)) + *path;
  spec.metadata_key =
      zarr_format == 3 ? "zarr.json" : members.text("metadata_key").value_or(".zarray");
  if (spec.metadata_key.empty()) refuse(members.pointer("metadata_key"), "is empty");
  spec.mode = parse_mode(members, options);
  if (const Json* metadata = members.take("metadata")) {
    (void)Members(*metadata, members.pointer("metadata"));
    spec.constraints = *metadata;
  }
  spec.wanted = parse_wanted(members);
  spec.fill_missing_data_reads = members.flag("fill_missing_data_reads").value_or(true);
  spec.store_data_equal_to_fill_value =
      members.flag("store_data_equal_to_fill_value").value_or(false);
  check_recheck(members, "recheck_cached_data");
  check_recheck(members, "recheck_cached_metadata");
  (void)members.flag("assume_cached_metadata");
  members.pass_over_resources({"cache_pool", "metadata_cache_pool", "data_copy_concurrency"});
  if (zarr_format == 2) members.reject_unsupported({"field"});
  members.finish();
  return spec;
}

CastSpec parse_cast(Members& members) {
  CastSpec cast;
  cast.pointer = members.here();
  cast.wanted = parse_wanted(members);
  if (!cast.wanted.dtype)
    refuse(members.pointer("dtype"), "is missing: give the type to cast elements to");
  cast.dtype = *cast.wanted.dtype;
  members.pass_over_resources({"data_copy_concurrency"});
  members.finish();
  return cast;
}

}  // namespace

void Wanted::check(DType actual, const Shape& actual_shape, const std::string& pointer) const {
  const auto differs = [&](const char* member, const std::string& asked, const std::string& there) {
    refuse(pointer + "/" + member, asked + " is requested, but the array has " + there,
           Code::kFailedPrecondition);
  };
  if (dtype && *dtype != actual)
    differs("dtype", std::string(dtype_name(*dtype)), std::string(dtype_name(actual)));
  if (rank && *rank != static_cast<std::int64_t>(actual_shape.size()))
    differs("rank", std::to_string(*rank), std::to_string(actual_shape.size()));
  if (shape && *shape != actual_shape)
    differs("schema", shape_text(*shape), shape_text(actual_shape));
}

ArraySpec parse_array_spec(const Json& spec, const OpenSpecOptions& options,
                           const SpecContext& context) {
  Scope scope(context);
  if (spec.as_string())
    refuse("", "Cairn does not read specs that are URLs; write the spec as an object",
           Code::kUnimplemented);
  ArraySpec out;
  const Json* at = &spec;
  for (std::string pointer;;) {
    Members members(*at, pointer);
    (void)members.require("driver");
    const std::string driver = *members.text("driver");
    if (driver == "zarr" || driver == "zarr2" || driver == "zarr3") {
      out.array = parse_zarr(members, driver == "zarr3" ? 3 : 2, options, scope);
      return out;
    }
    if (driver == "json")
      refuse(members.pointer("driver"),
             "a JSON value is not an array; open it with open_json_spec");
    if (driver != "cast")
      refuse(members.pointer("driver"),
             "Cairn has no driver \"" + driver + "\"; it has zarr, zarr3 and cast",
             Code::kUnimplemented);
    scope = scope.inside(members);
    at = &members.require("base");
    out.casts.push_back(parse_cast(members));
    pointer = members.pointer("base");
  }
}

}  // namespace cairn::inline v0::tensorstore_spec
