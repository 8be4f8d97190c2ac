// policies.cc -- binds step_policies.h. The tests compare the policies of cairn.orbax with these.
#include "policies.h"

#include <cairn/step_policies.h>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace cairn::python {
namespace {

// A step, its time in nanoseconds since 1970, and its metrics.
using GivenStep = std::tuple<std::int64_t, std::int64_t, std::optional<Metrics>>;

std::vector<StepInfo> infos_of(const std::vector<GivenStep>& given) {
  std::vector<StepInfo> infos;
  for (const auto& [step, time, metrics] : given)
    infos.push_back({.step = step,
                     .time = std::chrono::system_clock::time_point(std::chrono::nanoseconds(time)),
                     .metrics = metrics});
  return infos;
}

}  // namespace

void define_policies(nb::module_& module) {
  nb::class_<KeepPolicy>(module, "KeepPolicy", "Selects the steps to keep.")
      .def_static("all", &keep_policy::all)
      .def_static("latest", &keep_policy::latest, nb::arg("count"))
      .def_static("every_n_steps", &keep_policy::every_n_steps, nb::arg("interval"),
                  nb::arg("exact"), nb::arg("max_to_keep").none())
      .def_static("every_n_steps_closest", &keep_policy::every_n_steps_closest, nb::arg("interval"),
                  nb::arg("max_to_keep").none())
      .def_static(
          "every",
          [](std::int64_t interval) {
            return keep_policy::every(std::chrono::nanoseconds(interval));
          },
          nb::arg("interval_nsecs"))
      .def_static(
          "best",
          [](std::size_t count, const std::string& name, bool smallest, bool without_metrics) {
            return keep_policy::best(count, metric(name),
                                     smallest ? BestMode::kMin : BestMode::kMax, without_metrics);
          },
          nb::arg("count"), nb::arg("metric"), nb::arg("smallest"), nb::arg("without_metrics"))
      .def_static("custom_steps", &keep_policy::custom_steps, nb::arg("steps"))
      .def_static(
          "latest_duration",
          [](std::int64_t duration) {
            return keep_policy::latest_duration(std::chrono::nanoseconds(duration));
          },
          nb::arg("duration_nsecs"))
      .def_static("any_of", &keep_policy::any_of, nb::arg("policies"))
      .def(
          "select",
          [](const KeepPolicy& policy, const std::vector<GivenStep>& steps) {
            return policy.select(infos_of(steps));
          },
          nb::arg("steps"));
  nb::class_<SavePolicy>(module, "SavePolicy", "Decides whether to save a step.")
      .def_static("fixed_interval", &save_policy::fixed_interval, nb::arg("interval"))
      .def_static("specific_steps", &save_policy::specific_steps, nb::arg("steps"))
      .def_static(
          "continuous",
          [](std::int64_t interval) {
            return save_policy::continuous(std::chrono::nanoseconds(interval));
          },
          nb::arg("interval_nsecs"))
      .def_static("preemption", &save_policy::preemption)
      .def_static("initial", &save_policy::initial)
      .def_static("any_of", &save_policy::any_of, nb::arg("policies"))
      .def(
          "decide",
          [](const SavePolicy& policy, std::int64_t step, const std::vector<GivenStep>& saved,
             bool is_saving, bool is_preempted) {
            const std::vector<StepInfo> infos = infos_of(saved);
            return policy.decide({.step = step,
                                  .saved = infos,
                                  .is_saving = is_saving,
                                  .is_preempted = is_preempted});
          },
          nb::arg("step"), nb::arg("saved"), nb::arg("is_saving"), nb::arg("is_preempted"));
}

}  // namespace cairn::python
