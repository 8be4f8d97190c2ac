// kept_metadata.cc -- carries custom metadata into safetensors files, and names what is lost.
#include <cairn/tools/convert/kept_types.h>

#include <cairn/base/json/json.h>
#include <cairn/inspect.h>
#include <cairn/tools/convert/target_format.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

// The metadata of an Orbax checkpoint and of its items as one object.
struct JoinedMetadata {
  JsonObject members;
  std::vector<std::string> lost;  // what does not fit into it
};

JoinedMetadata joined_metadata(const CheckpointInfo& info) {
  JoinedMetadata out;
  const auto add = [&](const std::string& text, const std::string& owner) {
    if (text.empty()) return;
    const auto parsed = try_call([&] { return parse_json(text); });
    const JsonObject* members = parsed ? parsed.value().as_object() : nullptr;
    if (members == nullptr) return out.lost.push_back("the value" + owner);
    for (const auto& member : *members) {
      const auto known =
          std::ranges::find(out.members, member.first, &JsonObject::value_type::first);
      if (known == out.members.end())
        out.members.push_back(member);
      else if (to_text(known->second) != to_text(member.second))
        out.lost.push_back(member.first + owner);
    }
  };
  add(info.custom_metadata, "");
  for (const auto& [item, text] : info.item_metadata)
    add(text, item.empty() ? " of the tree" : " of item " + item);
  return out;
}

// Loaders of safetensors ask it which framework wrote the file ("pt"). Nothing else needs it, so
// other formats lose nothing without it.
constexpr std::string_view kFramework = "format";

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names)
    out.append(out.empty() ? "'" : ", '").append(printable_text(name)).append("'");
  return out;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> text_metadata(const CheckpointInfo& info) {
  if (info.format == "safetensors") return info.file_metadata;
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [key, value] : joined_metadata(info).members)
    if (value.as_string() != nullptr) out.emplace_back(key, *value.as_string());
  return out;
}

std::string checkpoint_metadata(const CheckpointInfo& info) {
  if (info.format != "safetensors") return info.custom_metadata;
  JsonObject entries;  // of a set, the index has no custom metadata
  for (const auto& [key, value] : info.file_metadata) entries.emplace_back(key, value);
  return entries.empty() ? "" : to_text(Json(std::move(entries)));
}

void report_lost_metadata(const Checkpoint& source,
                          const std::vector<std::pair<std::string, std::string>>& set,
                          ConvertReport& report) {
  if (is_orbax_format(report.format)) return;
  const bool to_safetensors = report.format == TargetFormat::kSafetensors;
  const CheckpointInfo info = source.info();
  const bool from_safetensors = info.format == "safetensors";
  std::vector<std::string> lost;
  if (from_safetensors && !to_safetensors)
    for (const auto& [key, value] : info.file_metadata)
      if (key != kFramework) lost.push_back(key);
  if (!from_safetensors) {
    JoinedMetadata metadata = joined_metadata(info);
    lost = std::move(metadata.lost);
    for (const auto& [key, value] : metadata.members) {
      const auto is_set = [&, &name = key](const auto& entry) { return entry.first == name; };
      const bool kept = value.as_string() != nullptr || std::ranges::any_of(set, is_set);
      if (!kept || (!to_safetensors && key != kFramework)) lost.push_back(key);
    }
  }
  if (lost.empty()) return;
  report.left_out.emplace_back(
      from_safetensors ? "__metadata__" : "custom metadata",
      to_safetensors ? "safetensors holds only strings: " + joined(lost)
                     : format_text(report.format) + " has no place for " + joined(lost));
}

}  // namespace cairn::inline v0
