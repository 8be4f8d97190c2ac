// conversions.cc -- binds convert(), merge_checkpoints(), repair() and reshard(), which write a
// checkpoint again.
#include "conversions.h"

#include "calls.h"
#include "option_values.h"
#include "options.h"
#include "reader.h"
#include "store_options.h"
#include "values/text.h"

#include <cairn/convert.h>
#include <cairn/inspect.h>
#include <cairn/maintain.h>
#include <cairn/msgpack.h>
#include <cairn/open.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

// The options of all calls. What the others share with convert() is in `convert`.
struct Conversion {
  OpenOptions open;
  std::uint64_t memory = Resources().memory;  // of the whole call
  std::uint64_t transform_memory = 0;         // the share of the rules, and of dequantising
  bool dequantize = false;
  ConvertOptions convert;
  std::optional<StoreOptions> target_store;  // none: as open.store
  std::optional<std::uint64_t> shard_bytes;
  std::optional<std::string> rules;       // JSON text
  std::optional<std::string> rules_path;  // of a file with that text
  std::optional<std::string> model;       // a map's name or path
  TransformOptions transform;
  std::string assets;
  std::optional<Mesh> mesh;
  std::vector<std::pair<std::string, PartitionSpec>> specs;
  bool merges = false;
  MergeOptions merge;
  std::optional<std::size_t> average_last;
  RecoverOptions recover;
};

const Setters<Conversion>& reading_options() {
  static const Setters<Conversion> all{
      {"step", [](Conversion& o, const std::string& n,
                  nb::handle v) { o.open.step = cast_option<std::int64_t>(n, v, "an int"); }},
      {"item",
       [](Conversion& o, const std::string& n, nb::handle v) { o.open.item = text_option(n, v); }},
      {"allow_uncommitted", [](Conversion& o, const std::string& n,
                               nb::handle v) { o.open.allow_uncommitted = bool_option(n, v); }},
      {"allow_missing", [](Conversion& o, const std::string& n,
                           nb::handle v) { o.open.allow_missing = bool_option(n, v); }},
      {"storage_options", [](Conversion& o, const std::string& /*n*/,
                             nb::handle v) { o.open.store = store_options(v); }},
      {"metadata_key", [](Conversion& o, const std::string& n,
                          nb::handle v) { o.open.metadata_key = text_option(n, v); }},
      {"generation",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.open.version.generation = number_option<std::uint64_t>(n, v);
       }},
      {"commit_time_ns",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.open.version.commit_time_ns = number_option<std::uint64_t>(n, v);
       }},
      {"dequantize",
       [](Conversion& o, const std::string& n, nb::handle v) { o.dequantize = bool_option(n, v); }},
      {"threads",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.open.resources.threads = number_option<std::size_t>(n, v);
       }},
      {"memory",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.memory = working_memory(number_option<std::uint64_t>(n, v));
       }},
  };
  return all;
}

// What a target is, and the options of an Orbax checkpoint.
const Setters<Conversion>& writing_options() {
  static const Setters<Conversion> all{
      {"to",
       [](Conversion& o, const std::string& n, nb::handle v) {
         const std::string name = text_option(n, v);
         if (!name.empty()) o.convert.format = parse_target_format(name);
       }},
      {"overwrite",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.if_exists = bool_option(n, v) ? IfExists::kReplace : IfExists::kFail;
       }},
      {"dry_run", [](Conversion& o, const std::string& n,
                     nb::handle v) { o.convert.dry_run = bool_option(n, v); }},
      {"target_storage_options", [](Conversion& o, const std::string& /*n*/,
                                    nb::handle v) { o.target_store = store_options(v); }},
      {"compression",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.orbax.compression = parse_compression(text_option(n, v));
       }},
      {"chunk_bytes",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.orbax.chunk_bytes = number_option<std::int64_t>(n, v);
       }},
      {"target_file_bytes",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.orbax.target_file_bytes = number_option<std::int64_t>(n, v);
       }},
      {"as_item", [](Conversion& o, const std::string& n,
                     nb::handle v) { o.convert.orbax.item = text_option(n, v); }},
      {"durability", [](Conversion& o, const std::string& n,
                        nb::handle v) { o.convert.orbax.durability = durability_option(n, v); }},
      {"commit_protocol",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.orbax.commit_protocol = commit_protocol_option(n, v);
       }},
      {"follow_links", [](Conversion& o, const std::string& n,
                          nb::handle v) { o.convert.orbax.follow_links = bool_option(n, v); }},
  };
  return all;
}

const Setters<Conversion>& convert_options() {
  constexpr const char* kGlobs = "a glob or a list of globs";
  static const Setters<Conversion> all{
      {"include",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.include = cast_option<std::vector<std::string>>(n, v, kGlobs);
       }},
      {"exclude",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.exclude = cast_option<std::vector<std::string>>(n, v, kGlobs);
       }},
      {"dtype",
       [](Conversion& o, const std::string& n, nb::handle v) {
         const std::string name = text_option(n, v);
         o.convert.dtype = with_context([&] { return n; }, [&] { return parse_dtype(name); });
       }},
      {"metadata",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.safetensors.metadata = cast_option<TextPairs>(n, v, "a dict");
       }},
      {"shard_bytes", [](Conversion& o, const std::string& n,
                         nb::handle v) { o.shard_bytes = number_option<std::uint64_t>(n, v); }},
      {"dialect",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.msgpack.dialect = choice_option<MsgpackDialect>(
             n, v, {{"flax", MsgpackDialect::kFlaxState}, {"orbax", MsgpackDialect::kOrbax}});
       }},
      {"object_graph", [](Conversion& o, const std::string& n,
                          nb::handle v) { o.convert.tensorflow.plain_names = !bool_option(n, v); }},
      {"latest", [](Conversion& o, const std::string& n,
                    nb::handle v) { o.convert.tensorflow.name_latest = bool_option(n, v); }},
      {"skip_unsupported", [](Conversion& o, const std::string& n,
                              nb::handle v) { o.convert.skip_unsupported = bool_option(n, v); }},
  };
  return all;
}

// What gives leaves other names or values.
const Setters<Conversion>& changing_options() {
  static const Setters<Conversion> all{
      {"rename",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.convert.rename = cast_option<TextPairs>(n, v, "pairs of a regular expression and a str");
       }},
      {"nest", [](Conversion& o, const std::string& n,
                  nb::handle v) { o.convert.nest = text_option(n, v); }},
      {"rules",
       [](Conversion& o, const std::string& n, nb::handle v) { o.rules = text_option(n, v); }},
      {"transform",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.rules_path = cast_option<PathText>(n, v, "a path or a dict of rules").local();
       }},
      {"model",
       [](Conversion& o, const std::string& n, nb::handle v) { o.model = text_option(n, v); }},
      {"reverse", [](Conversion& o, const std::string& n,
                     nb::handle v) { o.transform.reverse = bool_option(n, v); }},
      {"values", [](Conversion& o, const std::string& n,
                    nb::handle v) { o.transform.values = cast_option<TextPairs>(n, v, "a dict"); }},
      {"config",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.transform.config = cast_option<PathText>(n, v, "a path").place();
       }},
      {"hf_assets", [](Conversion& o, const std::string& n,
                       nb::handle v) { o.assets = cast_option<PathText>(n, v, "a path").place(); }},
  };
  return all;
}

const Setters<Conversion>& merge_options() {
  static const Setters<Conversion> all{
      {"weights",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.merge.weights = cast_option<std::vector<double>>(n, v, "a list of numbers");
       }},
      {"ema", [](Conversion& o, const std::string& n,
                 nb::handle v) { o.merge.ema = cast_option<double>(n, v, "a number"); }},
      {"scale", [](Conversion& o, const std::string& n,
                   nb::handle v) { o.merge.scale = cast_option<double>(n, v, "a number"); }},
      {"take_first", [](Conversion& o, const std::string& n,
                        nb::handle v) { o.merge.take_first = bool_option(n, v); }},
      {"average_last", [](Conversion& o, const std::string& n,
                          nb::handle v) { o.average_last = number_option<std::size_t>(n, v); }},
  };
  return all;
}

const Setters<Conversion>& repair_options() {
  static const Setters<Conversion> all{
      {"others",
       [](Conversion& o, const std::string& n, nb::handle v) {
         for (const auto& path : cast_option<std::vector<PathText>>(n, v, "a list of paths"))
           o.recover.from.push_back(path.place());
       }},
      {"fill",
       [](Conversion& o, const std::string& n, nb::handle v) {
         const PathText fill = cast_option<PathText>(n, v, "\"nan\", \"zero\" or a path");
         const std::string text = fill.place();
         o.recover.lost_elements = text == "nan"    ? LostElements::kNan
                                   : text == "zero" ? LostElements::kZero
                                                    : LostElements::kCheckpoint;
         if (o.recover.lost_elements == LostElements::kCheckpoint) o.recover.fill_from = text;
       }},
  };
  return all;
}

const Setters<Conversion>& reshard_options() {
  static const Setters<Conversion> all{
      {"mesh",
       [](Conversion& o, const std::string& n, nb::handle v) {
         Shape shape;
         std::vector<std::string> names;
         for (auto& [axis, size] : cast_option<std::vector<std::pair<std::string, std::int64_t>>>(
                  n, v, "a dict of the axes and their numbers of devices")) {
           names.push_back(std::move(axis));
           shape.push_back(size);
         }
         o.mesh = with_context([&] { return n; },
                               [&] { return make_mesh(std::move(shape), std::move(names)); });
       }},
      {"specs",
       [](Conversion& o, const std::string& n, nb::handle v) {
         o.specs = cast_option<std::vector<std::pair<std::string, PartitionSpec>>>(
             n, v, "a dict of globs and the mesh axes of each dimension");
       }},
  };
  return all;
}

// Sets what depends on several options.
void complete(Conversion& o, const std::string& target) {
  const bool transforms = o.rules || o.rules_path || o.model;
  const bool computes = transforms || o.merges;
  const MemoryShares memory = divide_memory(o.memory, computes || o.dequantize);
  o.open.resources.memory = memory.reading;
  o.transform_memory = memory.transforming / (computes && o.dequantize ? 2 : 1);
  o.convert.resources = {.threads = o.open.resources.threads, .memory = memory.writing};
  o.convert.store = o.target_store.value_or(o.open.store);
  if (o.convert.format == TargetFormat::kDcp && o.convert.orbax.chunk_bytes) {
    if (*o.convert.orbax.chunk_bytes <= 0)
      throw Error(Code::kInvalidArgument, "chunk_bytes: expected a positive number");
    o.convert.dcp.chunk_bytes = static_cast<std::uint64_t>(*o.convert.orbax.chunk_bytes);
    o.convert.orbax.chunk_bytes.reset();
  }
  if (!o.shard_bytes) return;
  // A path without a known extension may be the folder of a model; convert() refuses others.
  const auto by_path = try_call([&] { return target_format_of(target); });
  const bool is_tensorflow = o.convert.format
                                 ? *o.convert.format == TargetFormat::kTensorFlow
                                 : by_path && by_path.value() == TargetFormat::kTensorFlow;
  (is_tensorflow ? o.convert.tensorflow.max_shard_bytes : o.convert.safetensors.max_shard_bytes) =
      o.shard_bytes;
}

std::shared_ptr<const Checkpoint> dequantized(std::shared_ptr<const Checkpoint> opened,
                                              const Conversion& o) {
  if (!o.dequantize) return opened;
  DequantizeOptions options{
      .store = o.open.store,
      .resources = {.threads = o.open.resources.threads, .memory = o.transform_memory}};
  if (o.convert.dtype && dtype_kind(*o.convert.dtype) == DTypeKind::kFloat)
    options.dtype = o.convert.dtype;
  return dequantize(std::move(opened), options).checkpoint;
}

std::shared_ptr<const Checkpoint> opened_source(const std::string& path, const Conversion& o) {
  return dequantized(cairn::open(path, o.open), o);
}

// What rules have made of a source, and the place for it.
struct RuleTarget {
  std::shared_ptr<const Checkpoint> source;
  std::unique_ptr<ModelFolder> folder;  // null without rules
};

std::unique_ptr<ModelFolder> model_folder(const TransformReport& report, const std::string& target,
                                          Conversion& o) {
  return std::make_unique<ModelFolder>(
      report, target,
      ModelFolderOptions{.assets = o.assets, .plain = o.dequantize, .store = o.open.store},
      o.convert);
}

// Applies the rules or the model map.
RuleTarget transformed(std::shared_ptr<const Checkpoint> source, Conversion& o,
                       const std::string& target) {
  if (!o.rules && !o.rules_path && !o.model) {
    if (o.transform.reverse || !o.transform.values.empty() || !o.transform.config.empty())
      throw Error(Code::kInvalidArgument, "reverse, set and config need a model or transform");
    return {std::move(source), o.assets.empty() ? nullptr : model_folder({}, target, o)};
  }
  TransformOptions options = o.transform;
  if (options.config.empty() && !o.assets.empty()) options.config = o.assets + "/config.json";
  options.store = o.open.store;
  options.resources = {.threads = o.open.resources.threads, .memory = o.transform_memory};
  options.scratch = scratch_folder(target);
  Transformed made;
  if (o.model)
    made = apply_model_map(std::move(source), *o.model, options);
  else if (o.rules_path)
    made = transform_checkpoint_by_file(std::move(source), *o.rules_path, options);
  else
    made = with_context([] { return std::string("transform"); },
                        [&] { return transform_checkpoint(std::move(source), *o.rules, options); });
  auto folder = model_folder(made.report, target, o);
  return {std::move(made.checkpoint), std::move(folder)};
}

// Runs the work of a call, which returns JSON text, with its progress and its cancellation.
template <class Work>
std::string run_conversion(Conversion& o, nb::handle progress, const Work& work) {
  std::string json;
  const auto run = [&](const CallControl& call) {
    o.convert.progress = call.progress;
    o.open.cancel = call.cancel;
    json = work();
  };
  run_long(progress, run, Outcome::kCommit);
  return json;
}

std::string convert_to_json(const PathText& source, const PathText& target, nb::dict options,
                            nb::handle progress) {
  Conversion chosen;
  set_options(options,
              {&reading_options(), &writing_options(), &convert_options(), &changing_options()},
              chosen);
  const std::string from = source.place(), to = target.place();
  complete(chosen, to);
  return run_conversion(chosen, progress, [&] {
    const RuleTarget made = transformed(opened_source(from, chosen), chosen, to);
    std::string json = convert_json(
        cairn::convert(*made.source, made.folder ? made.folder->target() : to, chosen.convert));
    return json;
  });
}

// A checkpoint to merge: one that is open, or a path.
struct MergeSource {
  std::shared_ptr<const Checkpoint> opened;
  std::string path;
};

MergeSource merge_source(nb::handle source) {
  if (auto opened = checkpoint_of(source)) return {std::move(opened), {}};
  return {nullptr, cast_option<PathText>("sources", source, "paths or checkpoints").place()};
}

std::vector<std::shared_ptr<const Checkpoint>> opened_sources(
    const std::vector<MergeSource>& sources, const Conversion& o) {
  std::vector<std::shared_ptr<const Checkpoint>> opened;
  if (o.average_last) {
    opened = open_last_steps(sources.at(0).path, *o.average_last, o.open);
    for (auto& step : opened) step = dequantized(step, o);
    return opened;
  }
  for (const MergeSource& source : sources)
    opened.push_back(source.opened ? source.opened : opened_source(source.path, o));
  return opened;
}

std::string merge_to_json(nb::list sources, nb::handle base, const PathText& target,
                          nb::dict options, nb::handle progress) {
  Conversion chosen{.merges = true};
  set_options(options,
              {&reading_options(), &writing_options(), &convert_options(), &merge_options()},
              chosen);
  std::vector<MergeSource> from;
  for (const nb::handle source : sources) from.push_back(merge_source(source));
  const MergeSource from_base = base.is_none() ? MergeSource() : merge_source(base);
  const std::string to = target.place();
  complete(chosen, to);
  chosen.merge.include = chosen.convert.include;
  chosen.merge.exclude = chosen.convert.exclude;
  chosen.merge.dtype = chosen.convert.dtype;
  chosen.merge.resources = {.threads = chosen.open.resources.threads,
                            .memory = chosen.transform_memory};
  return run_conversion(chosen, progress, [&] {
    auto opened = opened_sources(from, chosen);
    if (from_base.opened)
      chosen.merge.base = from_base.opened;
    else if (!from_base.path.empty())
      chosen.merge.base = opened_source(from_base.path, chosen);
    const auto merged = merge_checkpoints(std::move(opened), chosen.merge);
    return convert_json(cairn::convert(*merged, to, chosen.convert));
  });
}

std::string repair_to_json(const PathText& source, const PathText& target, nb::dict options,
                           nb::handle progress) {
  Conversion chosen;
  set_options(options,
              {&reading_options(), &writing_options(), &convert_options(), &repair_options()},
              chosen);
  if (chosen.dequantize)
    throw Error(Code::kInvalidArgument,
                "dequantize: repair keeps weights as they are; convert the result");
  const std::string from = source.place(), to = target.place();
  complete(chosen, to);
  return run_conversion(chosen, progress, [&] {
    chosen.recover.open = chosen.open;
    return repair_json(
        cairn::repair(from, to, {.recover = chosen.recover, .convert = chosen.convert}));
  });
}

std::string reshard_to_json(const PathText& source, const PathText& target, nb::dict options,
                            nb::handle progress) {
  Conversion chosen;
  set_options(options, {&reading_options(), &writing_options(), &reshard_options()}, chosen);
  const std::string from = source.place(), to = target.place();
  complete(chosen, to);
  ReshardOptions reshard{.mesh = chosen.mesh,
                         .specs = chosen.specs,
                         .format = chosen.convert.format,
                         .orbax = chosen.convert.orbax,
                         .if_exists = chosen.convert.if_exists,
                         .store = chosen.convert.store,
                         .dry_run = chosen.convert.dry_run,
                         .resources = chosen.convert.resources};
  return run_conversion(chosen, progress, [&] {
    reshard.progress = chosen.convert.progress;
    const auto opened = opened_source(from, chosen);
    return reshard_json(cairn::reshard(*opened, to, reshard));
  });
}

}  // namespace

void define_conversions(nb::module_& module) {
  module.def(
      "models_json",
      [](const std::string& name) {
        return model_maps_json(name.empty() ? model_maps() : std::vector{model_map(name)});
      },
      nb::arg("name"));
  module.def("convert_json", convert_to_json, nb::arg("source"), nb::arg("target"),
             nb::arg("options"), nb::arg("progress").none());
  module.def("merge_json", merge_to_json, nb::arg("sources"), nb::arg("base").none(),
             nb::arg("target"), nb::arg("options"), nb::arg("progress").none());
  module.def("repair_json", repair_to_json, nb::arg("source"), nb::arg("target"),
             nb::arg("options"), nb::arg("progress").none());
  module.def("reshard_json", reshard_to_json, nb::arg("source"), nb::arg("target"),
             nb::arg("options"), nb::arg("progress").none());
}

}  // namespace cairn::python
