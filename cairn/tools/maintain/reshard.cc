// reshard.cc -- rewrites a checkpoint in the pieces that another set of devices will read.
#include <cairn/array/byte_count.h>
#include <cairn/convert.h>
#include <cairn/inspect.h>

#include <cairn/io/directory.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/tools/convert/kept_items.h>
#include <cairn/tools/convert/plan.h>
#include <cairn/tools/convert/target_format.h>
#include <cairn/tools/convert/to_orbax.h>
#include <cairn/tools/convert/write_plan.h>
#include <cairn/tools/report/json_text.h>
#include <cairn/tools/source/consistency.h>
#include <cairn/tools/source/name_match.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

void check_options(const ReshardOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(Code::kInvalidArgument, what); };
  if (!options.mesh && !options.specs.empty())
    refuse("specs need a mesh: give the devices that will read the arrays");
  if (!options.mesh && !options.orbax.chunk_bytes && !options.dcp.chunk_bytes)
    refuse("nothing to do: give a mesh, a size of chunks, or both");
  if (options.format && !is_folder_format(*options.format))
    refuse("'" + format_text(*options.format) +
           "' has no chunks; only Orbax and dcp checkpoints can be resharded");
  if (options.mesh && options.dcp.chunk_bytes)
    refuse("give a mesh or a size of chunks for dcp, not both: each device's box is one chunk");
  if (!options.mesh) return;
  check_sharding({*options.mesh, {}});
  for (const auto& [glob, spec] : options.specs)
    with_context([&, g = glob] { return "'" + g + "'"; },
                 [&, s = spec] {
                   check_sharding({*options.mesh, s});
                 });
}

// The format of the source, if Orbax or Cairn wrote it.
TargetFormat format_of(const Checkpoint& source, const ReshardOptions& options) {
  if (options.format) return *options.format;
  const orbax::OrbaxCheckpoint* from = orbax_source(source);
  if (from == nullptr || from->info().format != "orbax") return TargetFormat::kOrbax;
  return stored_orbax_format(source).value_or(TargetFormat::kOrbax);
}

// Chooses the sharding of each array.
class Chooser {
 public:
  Chooser(const ReshardOptions& options, const TensorList& leaves)
      : options_(options), used_(options.specs.size(), false) {
    for (const auto& [glob, spec] : options.specs) patterns_.emplace_back(glob, leaves);
  }

  // nullopt: the array gets none.
  std::optional<Sharding> sharding_of(const TensorInfo& tensor) {
    if (!options_.mesh) return stored_sharding(tensor);
    for (std::size_t i = 0; i < options_.specs.size(); ++i) {
      if (!patterns_[i].matches(tensor)) continue;
      used_[i] = true;
      return NamedSharding{*options_.mesh, options_.specs[i].second};
    }
    if (tensor.typestr == "jax.Array") return NamedSharding{*options_.mesh, {}};
    return std::nullopt;
  }

  void check_all_used() const {
    const auto unused = std::find(used_.begin(), used_.end(), false);
    if (unused == used_.end()) return;
    throw Error(Code::kInvalidArgument,
                "'" + options_.specs[static_cast<std::size_t>(unused - used_.begin())].first +
                    "' matches no array, or only arrays that an earlier spec matches");
  }

 private:
  static std::optional<Sharding> stored_sharding(const TensorInfo& tensor) {
    if (tensor.sharding.empty()) return std::nullopt;
    auto sharding = try_call([&] { return parse_sharding(tensor.sharding); });
    // A sharding that cannot be applied (unknown type, or it does not divide the array) stays as it
    // is, but does not determine chunks.
    if (!sharding || !try_call([&] { return shard_shape(sharding.value(), tensor.shape); }))
      return std::nullopt;
    return std::move(sharding).value();
  }

  const ReshardOptions& options_;
  std::vector<NamePattern> patterns_;  // of the specs
  std::vector<bool> used_;
};

bool is_placeable(const TensorInfo& tensor) {
  return tensor.is_array() && tensor.typestr != "scalar" && tensor.typestr != "complex" &&
         tensor.typestr != "np.generic";
}

// Fills in the plan's relayouts.
ReshardReport place_all(const Checkpoint& source, const ReshardOptions& options,
                        ConvertPlan& plan) {
  ReshardReport report;
  Chooser chooser(options, source.tensors());
  plan.relayouts.resize(plan.indices.size());
  for (std::size_t i = 0; i < plan.indices.size(); ++i) {
    const TensorInfo& tensor = source.tensors()[plan.indices[i]];
    if (!is_placeable(tensor)) continue;
    with_context([&] { return tensor.full_name(); },
                 [&] {
                   const auto sharding = chooser.sharding_of(tensor);
                   const Shape box = sharding ? shard_shape(*sharding, tensor.shape) : tensor.shape;
                   if (options.mesh && !sharding) return;  // a host array keeps its layout
                   plan.relayouts[i].piece = box;
                   for (std::int64_t& extent : plan.relayouts[i].piece)
                     extent = std::max<std::int64_t>(1, extent);
                   if (options.mesh) {
                     plan.relayouts[i].sharding = sharding_json(*sharding).value_or("");
                     report.device_bytes += byte_count(box, tensor.dtype);
                   }
                   report.arrays.push_back({tensor.full_name(), tensor.dtype_name, tensor.shape,
                                            box, sharding ? sharding_text(*sharding) : ""});
                 });
  }
  chooser.check_all_used();
  return report;
}

void add_options(const ReshardOptions& options, distributed::ConsistencyCheck& check) {
  check.add("mesh",
            options.mesh ? sharding_json(NamedSharding{*options.mesh, {}}).value_or("") : "none");
  for (const auto& [glob, spec] : options.specs)
    check.add("spec of '" + glob + "'",
              sharding_json(NamedSharding{*options.mesh, spec}).value_or(""));
  check.add("replace", option_text(options.if_exists == IfExists::kReplace));
  check.add("dry_run", option_text(options.dry_run));
}

}  // namespace

ReshardReport reshard(const Checkpoint& source, const std::string& target,
                      const ReshardOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  ConvertOptions convert;
  convert.orbax = options.orbax;
  convert.dcp = options.dcp;
  convert.if_exists = options.if_exists;
  convert.store = options.store;
  convert.resources = options.resources;
  convert.progress = options.progress;
  convert.multiprocessing = options.multiprocessing;
  ConvertPlan plan;
  ReshardReport report;
  check_consistency(
      group, "reshard: plan",
      [&] {
        check_options(options);
        convert.format = format_of(source, options);
        plan = plan_conversion(source, target, convert);
        if (plan.items) plan.items->as_stored = !options.format;
        report = place_all(source, options, plan);
        // Without a mesh, the size of the chunks decides.
        if (convert.format == TargetFormat::kDcp && !options.mesh) plan.relayouts.clear();
        if (!options.dry_run) check_capacity(source, target, plan, options.orbax.compression);
      },
      [&](ToolConsistencyCheck& check) {
        check.options.add("the target",
                          is_store_url(target) ? normal_path(target) : absolute_path(target));
        check.options.add("format", format_text(plan.report.format));
        add_options(options, check.options);
        add_orbax_options(options.orbax, check.options);
        add_opened(source, "", check.opened);
      });
  if (!options.dry_run) write_plan(source, plan, target, convert);
  report.written = std::move(plan.report);
  return report;
}

std::string reshard_json(const ReshardReport& report) {
  JsonArray arrays;
  for (const ReshardReport::Leaf& leaf : report.arrays)
    arrays.push_back(
        JsonObject{{"name", leaf.name},
                   {"dtype", leaf.dtype},
                   {"shape", shape_json(leaf.shape)},
                   {"box", shape_json(leaf.box)},
                   {"sharding", leaf.sharding.empty() ? Json() : Json(leaf.sharding)}});
  const Json out = JsonObject{{"format", format_text(report.written.format)},
                              {"files", strings_json(report.written.files)},
                              {"tensors", report.written.tensors},
                              {"bytes", report.written.bytes},
                              {"device_bytes", report.device_bytes},
                              {"arrays", std::move(arrays)},
                              {"dequantized", dequantized_json(report.written.dequantized)},
                              {"items", strings_json(report.written.items)},
                              {"left_out", reasons_json(report.written.left_out, "item")},
                              {"compression", compression_json(report.written.compression)}};
  return to_text(out, JsonStyle::kPretty) + "\n";
}

}  // namespace cairn::inline v0
