// scope.h -- the values of a map: its options, its `let` block, the model's config.json, and the
// loop variables of the rule that is applied.
#pragma once

#include <cairn/tools/model_map/expression.h>
#include <cairn/tools/model_map/source_leaves.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// The indices of loop variables.
using Indices = std::map<std::string, std::int64_t, std::less<>>;

class Scope final : public ValueNames {
 public:
  // `leaves`: those of the checkpoint that is converted, which has() and shape() ask for.
  explicit Scope(const SourceLeaves& leaves) : leaves_(leaves) {}

  // Gives a value a name; the last one counts.
  void set(const std::string& name, Json value);
  // Gives loop variables their indices, in place of all others.
  void set_indices(const Indices& indices);

  [[nodiscard]] const Json* find(std::string_view name) const override;
  [[nodiscard]] std::vector<std::string> all() const override;
  // has('TEMPLATE'), shape('NAME', AXIS), rank('NAME')
  [[nodiscard]] Json call(std::string_view function,
                          const std::vector<Json>& arguments) const override;

 private:
  const SourceLeaves& leaves_;
  std::map<std::string, Json, std::less<>> values_;
  std::map<std::string, Json, std::less<>> indices_;
};

}  // namespace cairn::inline v0
