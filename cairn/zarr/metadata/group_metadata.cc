// group_metadata.cc -- finds faults in the documents of groups, as zarr-python does.
#include <cairn/zarr/metadata/group_metadata.h>

#include <cairn/base/json/json.h>
#include <cairn/base/text.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace cairn::inline v0::zarr {
namespace {

using Fault = std::optional<std::string>;

bool is_null(const Json* value) { return value == nullptr || value->is_null(); }

Fault object_fault(const Json& value, std::string_view what) {
  if (value.as_object() != nullptr) return std::nullopt;
  return std::string(what) + " is " + std::string(value.type_text()) + ", not an object";
}

Fault format_fault(const Json& root, std::int64_t expected) {
  const Json* format = root.find("zarr_format");
  if (format != nullptr && format->as_int64(true) == expected) return std::nullopt;
  return "zarr_format is " + (format == nullptr ? "missing" : to_text(*format)) + ", expected " +
         std::to_string(expected);
}

// A member that no version of Zarr v3 has says itself whether readers may skip it.
bool may_be_skipped(const Json& extension) {
  const Json* needed = extension.find("must_understand");
  return needed != nullptr && needed->as_bool() != nullptr && !*needed->as_bool();
}

// The documents of all nodes, by path. Every value is an object.
Fault documents_fault(const Json* documents, bool (*is_document)(std::string_view, const Json&)) {
  if (is_null(documents)) return "the consolidated metadata has no 'metadata'";
  if (Fault fault = object_fault(*documents, "metadata")) return fault;
  for (const auto& [name, value] : *documents->as_object())
    if (value.as_object() == nullptr || !is_document(name, value))
      return "'" + name + "' of the consolidated metadata is not metadata of an array or group";
  return std::nullopt;
}

bool is_v2_document(std::string_view name, const Json& /*value*/) {
  const std::string_view last = name_of(name);
  return last == ".zarray" || last == ".zgroup" || last == ".zattrs";
}

bool is_v3_document(std::string_view /*path*/, const Json& value) {
  const Json* type = value.find("node_type");
  return type != nullptr && (*type == Json("array") || *type == Json("group"));
}

Fault consolidated_fault(const Json& consolidated) {
  if (Fault fault = object_fault(consolidated, "consolidated_metadata")) return fault;
  const Json* kind = consolidated.find("kind");
  if (kind == nullptr || *kind != Json("inline"))
    return "the consolidated metadata is not of the kind \"inline\"";
  return documents_fault(consolidated.find("metadata"), is_v3_document);
}

Fault v3_group_fault(const Json& root) {
  if (Fault fault = format_fault(root, 3)) return fault;
  if (const Json* attributes = root.find("attributes"); !is_null(attributes))
    if (Fault fault = object_fault(*attributes, "attributes")) return fault;
  if (const Json* consolidated = root.find("consolidated_metadata"); !is_null(consolidated))
    if (Fault fault = consolidated_fault(*consolidated)) return fault;
  constexpr std::string_view kKnown[] = {"zarr_format", "node_type", "attributes",
                                         "consolidated_metadata"};
  for (const auto& [name, value] : *root.as_object())
    if (std::ranges::find(kKnown, name) == std::end(kKnown) && !may_be_skipped(value))
      return "unknown member '" + name + "'";
  return std::nullopt;
}

}  // namespace

bool is_group_document(std::string_view name) {
  return name == ".zgroup" || name == ".zattrs" || name == ".zmetadata" || name == "zarr.json";
}

Fault find_group_fault(std::string_view name, std::string_view json) {
  const Json root = parse_json(without_byte_order_mark(json));
  if (name == ".zattrs" && root.is_null()) return std::nullopt;
  if (Fault fault = object_fault(root, "the document")) return fault;
  if (name == ".zgroup") return format_fault(root, 2);
  if (name == "zarr.json") return v3_group_fault(root);
  if (name == ".zattrs") return std::nullopt;
  return documents_fault(root.find("metadata"), is_v2_document);
}

}  // namespace cairn::inline v0::zarr
