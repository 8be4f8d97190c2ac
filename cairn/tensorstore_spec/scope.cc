// scope.cc -- looks up the resources that specs define and name.
#include <cairn/tensorstore_spec/scope.h>

#include <cairn/tensorstore_spec/members.h>

#include <set>
#include <utility>

namespace cairn::inline v0::tensorstore_spec {
namespace {

// The name of a resource of that kind. A value of another form is not shown: it may be a secret.
std::string resource_name(const Json& value, std::string_view kind, const std::string& pointer) {
  const std::string* name = value.as_string();
  if (name && (*name == kind || name->starts_with(std::string(kind) + "#"))) return *name;
  refuse(pointer, "expected an object, or a name: \"" + std::string(kind) + "\" or \"" +
                      std::string(kind) + "#<name>\"");
}

}  // namespace

Scope Scope::inside(Members& members) const {
  Scope scope = *this;
  const Json* context = members.take("context");
  if (!context) return scope;
  if (!context->as_object()) refuse(members.pointer("context"), "expected an object");
  scope.contexts_.push_back({context, members.pointer("context")});
  return scope;
}

// The innermost value of that name. A null is as good as none.
Resource Scope::lookup(const std::string& name) const {
  for (auto at = contexts_.rbegin(); at != contexts_.rend(); ++at) {
    const Json* value = at->settings->find(name);
    if (value && !value->is_null()) return {value, at->pointer + "/" + name};
  }
  return {};
}

Resource Scope::find(Members& members, std::string_view kind) const {
  Resource found{members.take(kind), members.pointer(kind)};
  std::string name(kind);
  std::set<std::string> seen;
  if (!found.settings) found = lookup(name);
  while (found.settings && !found.settings->as_object()) {
    name = resource_name(*found.settings, kind, found.pointer);
    if (!seen.insert(name).second) refuse(found.pointer, "\"" + name + "\" names itself");
    const std::string from = std::exchange(found, lookup(name)).pointer;
    if (!found.settings && name != kind)
      refuse(from, "no \"context\" of the spec defines \"" + name + "\"");
  }
  return found;
}

}  // namespace cairn::inline v0::tensorstore_spec
