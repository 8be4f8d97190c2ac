// tools.cc -- binds the tools; reports travel as JSON.
#include "tools.h"

#include "calls.h"
#include "gil.h"
#include "options.h"
#include "values/text.h"

#include <cairn/convert.h>
#include <cairn/diff.h>
#include <cairn/inspect.h>
#include <cairn/open.h>
#include <cairn/steps.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

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

std::string verify(const PathText& path, Step step, Item item, bool strict, nb::handle progress) {
  std::string json;
  run_long(progress, [&](const CallControl& call) {
    const VerifyReport report = cairn::verify(
        path.local(), {.open = {.step = step, .item = std::move(item)}, .progress = call.progress});
    json = verify_json(report, strict);
  });
  return json;
}

std::string diff(const PathText& a, const PathText& b, const Globs& include, const Globs& exclude,
                 double rtol, double atol, bool ignore_dtype, nb::handle progress) {
  std::string json;
  run_long(progress, [&](const CallControl& call) {
    const auto first = cairn::open(a.local());
    const auto second = cairn::open(b.local());
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

// Options of a conversion that Python passes by position.
struct Conversion {
  std::string format;
  Globs include, exclude;
  std::vector<std::pair<std::string, std::string>> rename;
  std::string nest;
  std::optional<std::string> dtype;
  bool skip_unsupported = false, follow_links = false, replace = false, dry_run = false;
};

std::string convert(const PathText& source, const PathText& target, Step step, Item item,
                    const Conversion& chosen, nb::handle progress) {
  ConvertOptions options{.include = chosen.include,
                         .exclude = chosen.exclude,
                         .rename = chosen.rename,
                         .nest = chosen.nest,
                         .skip_unsupported = chosen.skip_unsupported,
                         .if_exists = chosen.replace ? IfExists::kReplace : IfExists::kFail,
                         .dry_run = chosen.dry_run};
  options.orbax.follow_links = chosen.follow_links;
  if (!chosen.format.empty()) options.format = parse_target_format(chosen.format);
  if (chosen.dtype) {
    options.dtype = dtype_from_name(*chosen.dtype);
    if (!options.dtype)
      throw Error(Code::kInvalidArgument, "unknown element type '" + *chosen.dtype + "'");
  }
  std::string json;
  const auto work = [&](const CallControl& call) {
    options.progress = call.progress;
    const auto opened = cairn::open(source.local(), {.step = step, .item = std::move(item)});
    json = convert_json(cairn::convert(*opened, target.local(), options));
  };
  run_long(progress, work, Outcome::kCommit);
  return json;
}

}  // namespace

void define_tools(nb::module_& module) {
  module.def("verify_json", verify, nb::arg("path"), nb::arg("step").none(), nb::arg("item").none(),
             nb::arg("strict"), nb::arg("progress").none());
  module.def("diff_json", diff, nb::arg("a"), nb::arg("b"), nb::arg("include"), nb::arg("exclude"),
             nb::arg("rtol"), nb::arg("atol"), nb::arg("ignore_dtype"), nb::arg("progress").none());
  module.def(
      "convert_json",
      [](const PathText& source, const PathText& target, Step step, Item item, std::string format,
         Globs include, Globs exclude, std::vector<std::pair<std::string, std::string>> rename,
         std::string nest, std::optional<std::string> dtype, bool skip_unsupported,
         bool follow_links, bool replace, bool dry_run, nb::handle progress) {
        return convert(
            source, target, step, std::move(item),
            {std::move(format), std::move(include), std::move(exclude), std::move(rename),
             std::move(nest), std::move(dtype), skip_unsupported, follow_links, replace, dry_run},
            progress);
      },
      nb::arg("source"), nb::arg("target"), nb::arg("step").none(), nb::arg("item").none(),
      nb::arg("format"), nb::arg("include"), nb::arg("exclude"), nb::arg("rename"), nb::arg("nest"),
      nb::arg("dtype").none(), nb::arg("skip_unsupported"), nb::arg("follow_links"),
      nb::arg("replace"), nb::arg("dry_run"), nb::arg("progress").none());
  module.def(
      "steps_json",
      [](const PathText& path) {
        const WithoutGil unlocked;
        return steps_json(read_steps(path.local()));
      },
      nb::arg("path"));
  module.def(
      "incomplete_reason",
      [](const PathText& path) {
        const WithoutGil unlocked;
        return incomplete_reason(path.local());
      },
      nb::arg("path"));
}

}  // namespace cairn::python
