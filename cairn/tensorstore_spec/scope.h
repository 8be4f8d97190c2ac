// scope.h -- what a store in a spec gets from around it: the caller's SpecContext, and the
// resources that the members "context" of the enclosing objects define.
//
//   {"driver":"ocdbt","context":{"aws_credentials":{"type":"anonymous"}},
//    "base":{"driver":"s3","bucket":"b"}}        the base is read with these credentials
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/kvstore/object/credentials/credentials.h>
#include <cairn/storage/tensorstore_spec.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::tensorstore_spec {

class Members;

// The settings of a resource, and their place in the spec. Null: nothing defines the resource.
struct Resource {
  const Json* settings = nullptr;  // an object
  std::string pointer;
};

// Borrows the spec, which must outlive it. Only parsing needs it.
class Scope {
 public:
  explicit Scope(SpecContext context,
                 object::Surroundings surroundings = object::process_surroundings(nullptr))
      : context_(std::move(context)), surroundings_(std::move(surroundings)) {}

  [[nodiscard]] const SpecContext& context() const { return context_; }
  [[nodiscard]] const object::Surroundings& surroundings() const { return surroundings_; }
  // Returns the scope inside an object: takes its member "context", if there is one.
  [[nodiscard]] Scope inside(Members& members) const;
  // Takes the member `kind`, which holds settings or names a resource ("kind", "kind#name"), and
  // finds the settings. Without the member, it is "kind". Throws invalid_argument for a name that
  // is not defined, and for names that lead in a circle.
  [[nodiscard]] Resource find(Members& members, std::string_view kind) const;

 private:
  [[nodiscard]] Resource lookup(const std::string& name) const;

  SpecContext context_;
  object::Surroundings surroundings_;
  std::vector<Resource> contexts_;  // outermost first
};

}  // namespace cairn::inline v0::tensorstore_spec
