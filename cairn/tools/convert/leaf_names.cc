// leaf_names.cc -- renames leaves, nests their paths, and refuses names that exclude each other or
// that a format cannot hold.
#include <cairn/tools/convert/leaf_names.h>

#include <cairn/base/text.h>
#include <cairn/base/utf8.h>
#include <cairn/formats/zip/zip_directory.h>
#include <cairn/inspect.h>
#include <cairn/kvstore/file_key.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/tree/names.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

KeyPath split_at(const std::string& name, std::string_view separator) {
  KeyPath path;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t end = std::min(name.find(separator, start), name.size());
    path.push_back({name.substr(start, end - start), KeyType::kDict});
    start = end + separator.size();
  }
  return path;
}

// A leaf's path under its new name. The name is split at dots if the old path had more than one
// key.
KeyPath renamed_path(const KeyPath& old, const std::string& name) {
  if (old.size() <= 1) return {{name, KeyType::kDict}};
  return split_at(name, ".");
}

KeyPath nested_path(const KeyPath& path, std::string_view separator) {
  KeyPath out;
  for (const Key& key : path) {
    if (key.type == KeyType::kSequence) {
      out.push_back(key);
      continue;
    }
    for (Key& part : split_at(key.text, separator)) out.push_back(std::move(part));
  }
  return out;
}

bool is_below(const KeyPath& path, const KeyPath& above) {
  return above.size() < path.size() && std::equal(above.begin(), above.end(), path.begin());
}

// Why Orbax cannot restore an array from a folder of this name; "" if it can.
std::string folder_obstacle(std::string_view name) {
  if (const char* flaw = orbax::flaw_of_folder_name(name)) return flaw;
  if (name.ends_with('/')) name.remove_suffix(1);  // TensorStore ignores it
  if (name.empty()) return "";                     // the folder of the checkpoint
  if (const char* flaw = flaw_of_file_key(name)) return flaw + std::string(", as no folder can");
  return "";
}

// Throws for a reference to a group as Cairn wrote it once: $1, $&, $$.
void check_dollars(const std::string& text) {
  for (auto at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    if (at + 1 == text.size()) return;
    const char next = text[at + 1];
    if (next != '&' && next != '$' && (next < '0' || next > '9')) continue;
    const std::string wanted = next == '&'   ? "'\\g<0>' is the whole match"
                               : next == '$' ? "'$' stands for itself"
                                             : std::string("'\\") + next + "' is a group";
    throw Error(Code::kInvalidArgument, "replacement '" + text + "': '$" + next +
                                            "' is not supported: " + wanted +
                                            "; '\\044' is a dollar sign anywhere");
  }
}

}  // namespace

LeafNames::LeafNames(const ConvertOptions& options, bool slashes_in_names)
    : function_(options.rename_fn), separator_(options.nest) {
  for (const auto& [pattern, text] : options.rename) {
    check_dollars(text);
    Rule& rule = rules_.emplace_back(Rule{Regex(pattern, Regex::Extent::kPart), text, {}});
    rule.regex.check_template(text);
    if (!slashes_in_names && pattern.find('/') != std::string::npos)
      rule.dotted.emplace(with_dots_in_expression(pattern), Regex::Extent::kPart);
  }
}

std::string LeafNames::Rule::apply(const std::string& name) {
  std::string replaced = replace(name);
  if (replaced != name || valid_utf8(name)) return replaced;
  const std::string shown = printable_text(name);
  replaced = replace(shown);
  return replaced == shown ? name : replaced;
}

std::string LeafNames::Rule::replace(const std::string& name) {
  std::string as_typed = regex.replace_all(name, text);
  if (!dotted || as_typed != name) return as_typed;
  return dotted->replace_all(name, with_dots(text));
}

LeafNames::Name LeafNames::rename(const std::string& stored, KeyPath path) {
  Name out{stored, std::move(path)};
  for (Rule& rule : rules_) out.name = rule.apply(out.name);
  if (function_) out.name = function_(out.name);
  if (out.name != stored) {
    out.renamed = true;
    out.path = renamed_path(out.path, out.name);
  }
  if (!separator_.empty()) {
    KeyPath nested = nested_path(out.path, separator_);
    out.nested = nested != out.path;
    out.path = std::move(nested);
    if (out.nested) out.name = param_name(out.path);
  }
  return out;
}

void LeafNames::take(const std::string& tree, const Name& name, const std::string& old) {
  const auto [other, added] = taken_.try_emplace({tree, name.name}, Leaf{name.path, old});
  if (!added)
    throw Error(Code::kInvalidArgument,
                "two leaves would both be named '" + printable_text(name.name) +
                    "': " + printable_text(other->second.old) + " and " + printable_text(old) +
                    "; choose with --item or --exclude, or --rename one");
}

void LeafNames::check_containers() const {
  std::vector<std::pair<std::string_view, const Leaf*>> sorted;
  sorted.reserve(taken_.size());
  for (const auto& [key, leaf] : taken_) sorted.emplace_back(key.first, &leaf);
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : key_path_less(a.second->path, b.second->path);
  });
  // The leaves below a path follow it directly.
  for (std::size_t i = 0; i + 1 < sorted.size(); ++i) {
    const Leaf& above = *sorted[i].second;
    const Leaf& below = *sorted[i + 1].second;
    if (sorted[i].first == sorted[i + 1].first && is_below(below.path, above.path))
      throw Error(Code::kInvalidArgument,
                  "'" + printable_text(param_name(above.path)) +
                      "' would be a leaf and a container of leaves at once: " +
                      printable_text(above.old) + " and " + printable_text(below.old) +
                      "; --rename one of them, or leave one out with --exclude");
  }
}

std::string name_obstacle(const LeafNames::Name& named, NameHolder holder) {
  std::string why;
  switch (holder) {
    case NameHolder::kBytes:
      return "";
    case NameHolder::kZipMember:
      if (const char* flaw = flaw_of_zip_name(named.name)) why = flaw;
      break;
    case NameHolder::kText:
    case NameHolder::kFolder:
      if (!valid_utf8(named.name))
        why = "is not UTF-8";
      else if (holder == NameHolder::kFolder)
        why = folder_obstacle(param_name(named.path));
  }
  return why.empty() ? "" : "a name that " + why;
}

}  // namespace cairn::inline v0
