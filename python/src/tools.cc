// tools.cc -- binds the tools; reports travel as JSON.
#include "tools.h"

#include "calls.h"
#include "gil.h"
#include "option_values.h"
#include "store_options.h"
#include "values/text.h"

#include <cairn/convert.h>
#include <cairn/diff.h>
#include <cairn/inspect.h>
#include <cairn/maintain.h>
#include <cairn/open.h>
#include <cairn/steps.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

using Globs = std::vector<std::string>;
using Step = std::optional<std::int64_t>;
using Item = std::optional<std::string>;

std::string verify(const PathText& path, Step step, Item item, bool strict,
                   nb::handle storage_options, nb::handle progress) {
  OpenOptions open{.step = step, .item = std::move(item), .store = store_options(storage_options)};
  std::string json;
  run_long(progress, [&](const CallControl& call) {
    open.cancel = call.cancel;
    const VerifyReport report = cairn::verify(path.text, {.open = open, .progress = call.progress});
    json = verify_json(report, strict);
  });
  return json;
}

std::string diff(const PathText& a, const PathText& b, const Globs& include, const Globs& exclude,
                 double rtol, double atol, bool ignore_dtype, bool allow_missing, bool dequantizes,
                 nb::handle storage_options, nb::handle progress) {
  OpenOptions open{.allow_missing = allow_missing, .store = store_options(storage_options)};
  std::string json;
  run_long(progress, [&](const CallControl& call) {
    open.cancel = call.cancel;
    const auto opened = [&](const PathText& path) -> std::unique_ptr<Checkpoint> {
      auto checkpoint = cairn::open(path.text, open);
      if (!dequantizes) return checkpoint;
      const MemoryShares memory = divide_memory(Resources().memory, true);
      return dequantize(std::move(checkpoint),
                        {.store = open.store, .resources = {.memory = memory.transforming}})
          .checkpoint;
    };
    const auto first = opened(a);
    const auto second = opened(b);
    json = diff_json(cairn::diff(*first, *second,
                                 {.include = include,
                                  .exclude = exclude,
                                  .rtol = rtol,
                                  .atol = atol,
                                  .ignore_dtype = ignore_dtype,
                                  .progress = call.progress}));
  });
  return json;
}

std::string prune(const PathText& path, nb::dict options, nb::handle storage_options) {
  static const Setters<PruneOptions> kSetters{
      {"keep_last", [](PruneOptions& o, const std::string& n,
                       nb::handle v) { o.keep_last = number_option<std::size_t>(n, v); }},
      {"keep_every", [](PruneOptions& o, const std::string& n,
                        nb::handle v) { o.keep_every = number_option<std::int64_t>(n, v); }},
      {"best",
       [](PruneOptions& o, const std::string& n, nb::handle v) { o.best = text_option(n, v); }},
      {"best_mode",
       [](PruneOptions& o, const std::string& n, nb::handle v) {
         o.best_mode =
             choice_option<BestMode>(n, v, {{"max", BestMode::kMax}, {"min", BestMode::kMin}});
       }},
      {"dry_run",
       [](PruneOptions& o, const std::string& n, nb::handle v) { o.dry_run = bool_option(n, v); }},
  };
  PruneOptions chosen;
  set_options(options, {&kSetters}, chosen);
  chosen.store = store_options(storage_options);
  const std::string place = path.place();
  std::string json;
  run_long(nb::none(), [&](const CallControl& call) {
    chosen.cancel = call.cancel;
    json = prune_json(prune_steps(place, chosen));
  });
  return json;
}

std::string clean(const PathText& path, bool dry_run, bool foreign, nb::handle storage_options) {
  CleanOptions options{.mode = dry_run ? CleanMode::kShow : CleanMode::kRemove,
                       .foreign = foreign ? ForeignFiles::kRemove : ForeignFiles::kRefuse,
                       .store = store_options(storage_options)};
  const std::string place = path.place();
  std::string json;
  run_long(nb::none(), [&](const CallControl& call) {
    options.cancel = call.cancel;
    json = clean_json(clean_leftovers(place, options));
  });
  return json;
}

std::string compact(const PathText& path, nb::dict options, nb::handle storage_options,
                    nb::handle progress) {
  static const Setters<CompactOptions> kSetters{
      {"step", [](CompactOptions& o, const std::string& n,
                  nb::handle v) { o.step = cast_option<std::int64_t>(n, v, "an int"); }},
      {"item",
       [](CompactOptions& o, const std::string& n, nb::handle v) { o.item = text_option(n, v); }},
      {"remove_orphans", [](CompactOptions& o, const std::string& n,
                            nb::handle v) { o.remove_orphans = bool_option(n, v); }},
  };
  CompactOptions chosen;
  set_options(options, {&kSetters}, chosen);
  chosen.store = store_options(storage_options);
  const std::string place = path.place();
  std::string json;
  const auto work = [&](const CallControl& call) {
    chosen.progress = call.progress;
    chosen.cancel = call.cancel;
    json = compact_json(compact_databases(place, chosen));
  };
  run_long(progress, work, Outcome::kCommit);
  return json;
}

}  // namespace

void define_tools(nb::module_& module) {
  module.def("verify_json", verify, nb::arg("path"), nb::arg("step").none(), nb::arg("item").none(),
             nb::arg("strict"), nb::arg("storage_options").none(), nb::arg("progress").none());
  module.def("diff_json", diff, nb::arg("a"), nb::arg("b"), nb::arg("include"), nb::arg("exclude"),
             nb::arg("rtol"), nb::arg("atol"), nb::arg("ignore_dtype"), nb::arg("allow_missing"),
             nb::arg("dequantize"), nb::arg("storage_options").none(), nb::arg("progress").none());
  module.def("prune_json", prune, nb::arg("path"), nb::arg("options"),
             nb::arg("storage_options").none() = nb::none());
  module.def("clean_json", clean, nb::arg("path"), nb::arg("dry_run"), nb::arg("foreign"),
             nb::arg("storage_options").none() = nb::none());
  module.def("compact_json", compact, nb::arg("path"), nb::arg("options"),
             nb::arg("storage_options").none() = nb::none(),
             nb::arg("progress").none() = nb::none());
  module.def(
      "steps_json",
      [](const PathText& path, nb::handle storage_options) {
        const StoreOptions store = store_options(storage_options);
        const WithoutGil unlocked;
        return steps_json(read_steps(path.place(), store));
      },
      nb::arg("path"), nb::arg("storage_options").none() = nb::none());
  module.def(
      "incomplete_reason",
      [](const PathText& path) {
        const WithoutGil unlocked;
        return incomplete_reason(path.place());
      },
      nb::arg("path"));
}

}  // namespace cairn::python
