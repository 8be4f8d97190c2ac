// checks.h -- makes the entries of a report.
#pragma once

#include <cairn/storage/store_options.h>
#include <cairn/tools/doctor/doctor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0::doctor {

// Parts of check_place().
std::vector<Check> check_folder(const std::string& path);
std::vector<Check> check_url(const std::string& url, const StoreOptions& options);

// The checks of one section, in order.
class Section {
 public:
  explicit Section(std::string_view name) : name_(name) {}

  void good(std::string name, std::string value) {
    add(std::move(name), CheckResult::kGood, std::move(value), "");
  }
  void note(std::string name, std::string value, std::string advice) {
    add(std::move(name), CheckResult::kNote, std::move(value), std::move(advice));
  }
  void problem(std::string name, std::string value, std::string advice) {
    add(std::move(name), CheckResult::kProblem, std::move(value), std::move(advice));
  }
  // A size: kNote with `advice` if there is one, otherwise kGood.
  void size(std::string name, std::uint64_t bytes, std::string advice = "") {
    const CheckResult result = advice.empty() ? CheckResult::kGood : CheckResult::kNote;
    add(std::move(name), result, "", std::move(advice));
    checks_.back().bytes = bytes;
  }
  // Yes or no; kNote if the answer is no. `why` is the reason for it, "" if unknown.
  void feature(std::string name, bool works, const std::string& why, const std::string& advice) {
    if (works) return good(std::move(name), "yes");
    note(std::move(name), why.empty() ? "no" : "no: " + why, advice);
  }

  [[nodiscard]] std::vector<Check> take() && { return std::move(checks_); }

 private:
  void add(std::string name, CheckResult result, std::string value, std::string advice) {
    checks_.push_back({.section = name_,
                       .name = std::move(name),
                       .result = result,
                       .value = std::move(value),
                       .advice = std::move(advice)});
  }

  std::string name_;
  std::vector<Check> checks_;
};

}  // namespace cairn::inline v0::doctor
