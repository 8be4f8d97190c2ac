// step_curves.cc -- reads the same tensors of several steps.
#include <cairn/tools/page/step_curves.h>

#include <cairn/base/errors.h>
#include <cairn/base/magnitude.h>
#include <cairn/inspect.h>
#include <cairn/open.h>
#include <cairn/orbax/read/orbax_reader.h>
#include <cairn/tools/page/page_text.h>
#include <cairn/tools/source/derived_checkpoint.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <unordered_map>

namespace cairn::inline v0::page {
namespace {

constexpr std::size_t kMostSteps = 100;
constexpr std::size_t kMostPoints = 60'000;
constexpr std::size_t kMostNotes = 10;

bool is_floating(const TensorInfo& leaf) {
  const DTypeKind kind = dtype_kind(leaf.dtype);
  return has_numbers(leaf) && (kind == DTypeKind::kFloat || kind == DTypeKind::kComplex);
}

// The root of the sum of the squares of the finite values.
std::optional<double> norm_of(const TensorStats& stats) {
  if (!stats.mean || !stats.stddev) return std::nullopt;
  const auto finite = static_cast<double>(stats.count - stats.nans - stats.infs);
  return magnitude(*stats.mean, *stats.stddev) * std::sqrt(finite);
}

// The item that all leaves are in, if one is opened. "": a tree without items, and the item that
// Orbax gives to one.
std::string only_item(const Checkpoint& checkpoint) {
  if (const auto* derived = dynamic_cast<const DerivedCheckpoint*>(&checkpoint))
    return only_item(derived->source());
  const auto* orbax = dynamic_cast<const orbax::OrbaxCheckpoint*>(&checkpoint);
  if (orbax == nullptr || orbax->opened_items().size() != 1) return "";
  const std::string& item = orbax->opened_items().front().item.name;
  return item == "default" ? "" : item;
}

// The name of a leaf, which is the same whether its step has other items or not.
std::string name_in_run(const TensorInfo& leaf, const std::string& only_item) {
  return leaf.item || only_item.empty() ? leaf.full_name() : only_item + "/" + leaf.name;
}

// One step: where its leaves are.
class OpenedStep {
 public:
  OpenedStep(const std::string& path, const OpenOptions& options)
      : checkpoint_(cairn::open(path, options)) {
    const TensorList leaves = checkpoint_->tensors();
    const std::string item = only_item(*checkpoint_);
    for (std::size_t i = 0; i < leaves.size(); ++i)
      by_name_.try_emplace(name_in_run(leaves[i], item), i);
  }
  // Throws not_found for a name that the step lacks, else as tensor_stats().
  [[nodiscard]] TensorStats stats_of(const std::string& name, const Resources& resources) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) throw Error(Code::kNotFound, "there is no tensor " + name);
    return tensor_stats(*checkpoint_, found->second, resources);
  }

 private:
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

Json all_json(std::vector<JsonArray> columns) {
  JsonArray out;
  for (JsonArray& column : columns) out.emplace_back(std::move(column));
  return out;
}

}  // namespace

// The columns while steps are added. All inner lists have a number for each step.
class StepCurves::Curves {
 public:
  Curves(std::size_t rows, std::vector<std::string> notes)
      : mean_(rows), std_(rows), norm_(rows), notes_(std::move(notes)) {}

  void begin_step() {
    squares_ = 0;
    bad_ = 0;
    has_any_ = false;
  }
  void add(std::size_t i, const std::optional<TensorStats>& stats) {
    const auto norm = stats ? norm_of(*stats) : std::nullopt;
    mean_[i].push_back(stats ? rounded(stats->mean) : Json());
    std_[i].push_back(stats ? rounded(stats->stddev) : Json());
    norm_[i].push_back(rounded(norm));
    if (!stats) return;
    has_any_ = true;
    squares_ += norm.value_or(0) * norm.value_or(0);
    bad_ += stats->nans + stats->infs;
  }
  void end_step() {
    norms_.push_back(has_any_ ? rounded(std::sqrt(squares_)) : Json());
    nonfinite_.push_back(has_any_ ? Json(bad_) : Json());
  }
  void note(std::string text) {
    if (notes_.size() < kMostNotes)
      notes_.push_back(std::move(text));
    else
      ++more_notes_;
  }
  JsonObject json() && {
    JsonArray notes;
    for (const std::string& text : notes_) notes.push_back(shown_text(text));
    if (more_notes_ > 0) notes.emplace_back(fmt::format("And {} more.", more_notes_));
    return {{"mean", all_json(std::move(mean_))}, {"std", all_json(std::move(std_))},
            {"norm", all_json(std::move(norm_))}, {"norms", std::move(norms_)},
            {"nonfinite", std::move(nonfinite_)}, {"skipped", std::move(notes)}};
  }

 private:
  std::vector<JsonArray> mean_, std_, norm_;  // by chosen row
  JsonArray norms_, nonfinite_;               // of all chosen rows together
  std::vector<std::string> notes_;
  std::size_t more_notes_ = 0;
  double squares_ = 0;     // of the norms of this step
  std::uint64_t bad_ = 0;  // NaN and infinities of this step
  bool has_any_ = false;
};

StepCurves::StepCurves(const std::string& run, std::size_t count, const OpenOptions& open,
                       const Checkpoint& checkpoint, const Rows& rows)
    : open_(open), item_(only_item(checkpoint)), rows_(rows) {
  if (count == 0 || count > kMostSteps)
    invalid_argument(fmt::format("{} steps: a page draws 1 to {}", count, kMostSteps));
  open_.step.reset();
  for (StepRecord& record : read_steps(run, open.store))
    if (record.complete) steps_.push_back(std::move(record));
  if (steps_.empty()) throw Error(Code::kNotFound, run + ": has no complete step");
  if (steps_.size() > count)
    steps_.erase(steps_.begin(), steps_.end() - static_cast<std::ptrdiff_t>(count));
  for (std::size_t row = 0; row < rows.size(); ++row)
    if (is_floating(rows.leaf(row))) chosen_.push_back(row);
  const std::size_t most = kMostPoints / steps_.size();
  if (chosen_.size() <= most) return;
  notes_.push_back(
      fmt::format("The curves are those of the {} largest of {} tensors.", most, chosen_.size()));
  std::ranges::stable_sort(
      chosen_, [&](auto a, auto b) { return rows.leaf(a).nbytes > rows.leaf(b).nbytes; });
  chosen_.resize(most);
  std::ranges::sort(chosen_);
}

std::uint64_t StepCurves::bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t step = 0; step < steps_.size(); ++step)
    for (const std::size_t row : chosen_) add_capped(bytes, rows_.leaf(row).nbytes);
  return bytes;
}

Json StepCurves::read(const Resources& resources, Phases& phases) const {
  Curves curves(chosen_.size(), notes_);
  JsonArray numbers, rows;
  for (const StepRecord& record : steps_) {
    numbers.emplace_back(record.step);
    add_step(record, resources, phases, curves);
  }
  for (const std::size_t row : chosen_) rows.emplace_back(std::uint64_t{row});
  JsonObject out = std::move(curves).json();
  out.emplace_back("steps", std::move(numbers));
  out.emplace_back("rows", std::move(rows));
  return out;
}

void StepCurves::add_step(const StepRecord& record, const Resources& resources, Phases& phases,
                          Curves& curves) const {
  std::optional<OpenedStep> opened;
  try {
    opened.emplace(record.path, open_);
  } catch (const Error& e) {
    if (e.code() == Code::kCancelled) throw;
    curves.note(fmt::format("Step {} cannot be opened: {}.", record.step, e.message()));
  }
  curves.begin_step();
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    const TensorInfo& leaf = rows_.leaf(chosen_[i]);
    std::optional<TensorStats> stats;
    try {
      if (opened) stats = opened->stats_of(name_in_run(leaf, item_), resources);
    } catch (const Error& e) {
      if (e.code() == Code::kCancelled) throw;
      curves.note(fmt::format("Step {}: {}.", record.step, e.message()));
    }
    curves.add(i, stats);
    phases.add(leaf.nbytes);
  }
  curves.end_step();
}

}  // namespace cairn::inline v0::page
