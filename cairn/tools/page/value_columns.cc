// value_columns.cc -- reads values, and keeps a few numbers of each array.
#include <cairn/tools/page/value_columns.h>

#include <cairn/inspect.h>
#include <cairn/tools/page/page_text.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cairn::inline v0::page {
namespace {

constexpr double kHighest = 63;  // of a bin: one digit

// One digit a bin, in proportion to the fullest. A bin that is not empty has at least 1.
Json histogram_json(const std::vector<std::uint64_t>& bins) {
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
  if (bins.empty()) return "";
  const auto most = static_cast<double>(*std::ranges::max_element(bins));
  std::string digits;
  for (const std::uint64_t count : bins) {
    const double height = most > 0 ? static_cast<double>(count) / most * kHighest : 0;
    digits += kDigits[count == 0 ? 0 : static_cast<std::size_t>(std::max(1.0, height + 0.5))];
  }
  return digits;
}

// The columns while rows are added.
class ColumnsBuilder {
 public:
  void add(const TensorStats& stats) {
    const std::string row = std::to_string(zeros_.size());
    min_.push_back(rounded(stats.min));
    max_.push_back(rounded(stats.max));
    mean_.push_back(rounded(stats.mean));
    std_.push_back(rounded(stats.stddev));
    zeros_.emplace_back(stats.zeros);
    histograms_.push_back(histogram_json(stats.histogram));
    if (stats.nans > 0) nans_.emplace_back(row, stats.nans);
    if (stats.infs > 0) infs_.emplace_back(row, stats.infs);
  }
  void add_none() {
    for (JsonArray* column : {&min_, &max_, &mean_, &std_, &zeros_}) column->emplace_back();
    histograms_.emplace_back("");
  }
  void add_error(const std::string& message) {
    errors_.emplace_back(std::to_string(zeros_.size()), shown_text(message));
    add_none();
  }
  ValueColumns finish() {
    const std::size_t unreadable = errors_.size();
    return {JsonObject{{"min", std::move(min_)},
                       {"max", std::move(max_)},
                       {"mean", std::move(mean_)},
                       {"std", std::move(std_)},
                       {"zeros", std::move(zeros_)},
                       {"nans", std::move(nans_)},
                       {"infs", std::move(infs_)},
                       {"histograms", std::move(histograms_)},
                       {"errors", std::move(errors_)}},
            unreadable};
  }

 private:
  JsonArray min_, max_, mean_, std_, zeros_, histograms_;
  JsonObject nans_, infs_, errors_;  // by row
};

}  // namespace

ValueColumns value_columns(const Checkpoint& checkpoint, const Rows& rows,
                           const Resources& resources, Phases& phases) {
  ColumnsBuilder columns;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (!has_numbers(rows.leaf(row))) {
      columns.add_none();
      continue;
    }
    const auto stats =
        try_call([&] { return tensor_stats(checkpoint, rows.index(row), resources); });
    if (stats.ok())
      columns.add(stats.value());
    else if (stats.error().code() == Code::kCancelled)
      throw stats.error();
    else
      columns.add_error(stats.error().message());
    phases.add(rows.leaf(row).nbytes);
  }
  return columns.finish();
}

}  // namespace cairn::inline v0::page
