// compression_choice.cc -- measures the store and the coder, and compares their times.
#include <cairn/zarr/write/compression_choice.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

using std::chrono::nanoseconds;

constexpr double kSecond = 1e9;
constexpr double kLeastGain = 0.05;  // the share of the time that compression must save
// An average forgets what lies this many bytes back. The store may become slower or faster during a
// save: its cache fills up, or other programs use it.
constexpr double kMemory = double{64U << 20U};
// The weight of the store's expected pace against measured bytes. The first bytes of a file also
// wait for the file to be created, which says little about the rate.
constexpr double kExpectedWeight = double{8U << 20U};
// Small chunks get no trial: 5 nanoseconds for a byte are the time of zstd for some KiB.
constexpr double kSmallCodingTime = 5;
// While the coder is the slower one, the store's pace is unknown. A chunk is then stored raw to
// measure it, if that is this many times smaller than what was compressed before.
constexpr double kProbeShare = 16;
constexpr double kLeastProbeRatio = 0.5;  // data that shrinks more loses too much by a probe
// The share of the measured pace of the coder that a trial leaves. After many chunks that were only
// tried, the trials count.
constexpr double kFading = 0.95;
constexpr double kLeastMeasured = double{1U << 20U};
// A trial is a short burst. Where other programs use the cores, whole chunks take longer.
constexpr double kTrialCaution = 2;

std::string rate_text(double rate) {
  return rate < 0.995e9 ? fmt::format("{:.0f} MB/s", rate / 1e6)
                        : fmt::format("{:.1f} GB/s", rate / 1e9);
}

}  // namespace

ChunkOutcome& ChunkOutcome::operator+=(const ChunkOutcome& other) {
  compressed_bytes += other.compressed_bytes;
  compressed_size += other.compressed_size;
  raw_bytes += other.raw_bytes;
  incompressible_bytes += other.incompressible_bytes;
  coding += other.coding;
  elapsed_coding += other.elapsed_coding;
  is_small = is_small || other.is_small;
  return *this;
}

void CompressionChoice::Pace::add(double more_bytes, double more_nanoseconds) {
  const double kept = std::exp(-more_bytes / kMemory);
  bytes = bytes * kept + more_bytes;
  nanoseconds = nanoseconds * kept + more_nanoseconds;
}

double CompressionChoice::Coder::coding_time() const {
  return measured.bytes >= kLeastMeasured || best_trial == 0 ? measured.per_byte()
                                                             : kTrialCaution * best_trial;
}

CompressionChoice::CompressionChoice(std::size_t threads, StoreExpectation store, Clock clock)
    : threads_(static_cast<double>(std::max<std::size_t>(threads, 1))),
      expected_(store),
      clock_(clock
                 ? std::move(clock)
                 : [] { return nanoseconds(std::chrono::steady_clock::now().time_since_epoch()); }),
      store_time_(kSecond / store.rate),
      small_coding_time_(kSmallCodingTime),
      store_{.bytes = kExpectedWeight, .nanoseconds = kExpectedWeight * kSecond / store.rate} {}

bool CompressionChoice::pays(double ratio, double coding_time) const {
  const double raw = store_time_.load(std::memory_order_relaxed);
  const double compressed = std::max(ratio * raw, (coding_time + ratio * raw) / threads_);
  return compressed < (1 - kLeastGain) * raw;
}

bool CompressionChoice::should_probe(double ratio, std::uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (expected_.is_ceiling || ratio < kLeastProbeRatio || unprobed_bytes_ < kProbeShare * size)
    return false;
  unprobed_bytes_ = 0;
  return true;
}

bool CompressionChoice::stores_small_as_is() const {
  return !pays(0, small_coding_time_.load(std::memory_order_relaxed));
}

bool CompressionChoice::should_compress(const CompressionEstimate& estimate, std::uint64_t bytes) {
  if (!estimate.is_worthwhile) return false;
  if (estimate.coding_time == 0)
    return pays(estimate.ratio, small_coding_time_.load(std::memory_order_relaxed));
  const std::scoped_lock lock(mutex_);
  Coder& coder =
      coders_[std::min(kClasses - 1, static_cast<std::size_t>(estimate.ratio * kClasses))];
  coder.best_trial = coder.best_trial == 0 ? estimate.coding_time
                                           : std::min(coder.best_trial, estimate.coding_time);
  coder.measured.bytes *= kFading;
  coder.measured.nanoseconds *= kFading;
  coder.seen += bytes;
  return pays(estimate.ratio, coder.coding_time()) && !should_probe(estimate.ratio, bytes);
}

// Brings storing_time_ up to date. Threads may arrive in another order than they read the clock.
double CompressionChoice::advance(nanoseconds at) {
  if (at > last_) {
    storing_time_ += storing_ * static_cast<double>((at - last_).count());
    last_ = at;
  }
  return storing_time_;
}

void CompressionChoice::count_storing(int change) {
  const nanoseconds at = clock_();
  const std::scoped_lock lock(mutex_);
  advance(at);
  storing_ += change;
}

void CompressionChoice::add_store_pace(double bytes, double nanoseconds) {
  store_.add(bytes, nanoseconds);
  const double least = expected_.is_ceiling ? kSecond / expected_.rate : 0;
  store_time_.store(std::max(store_.per_byte(), least), std::memory_order_relaxed);
  is_measured_ = is_measured_ || store_.bytes >= 2 * kExpectedWeight;
  unprobed_bytes_ = 0;
}

// Learns from chunks that took `elapsed` nanoseconds, in which all threads together stored for
// `storing` nanoseconds. Each of them had an equal share of the store.
void CompressionChoice::learn(const ChunkOutcome& outcome, double elapsed, double storing) {
  total_ += outcome;
  const auto compressed = static_cast<double>(outcome.compressed_bytes);
  const auto raw = static_cast<double>(outcome.raw_bytes + outcome.incompressible_bytes);
  if (compressed == 0 && raw > 0 && elapsed > 0)
    return add_store_pace(raw, elapsed * elapsed / storing);
  if (compressed == 0) return;
  const auto coding = static_cast<double>(outcome.coding.count());
  if (outcome.is_small) {
    small_.add(compressed, coding);
    small_coding_time_.store(small_.per_byte(), std::memory_order_relaxed);
    return;
  }
  const double ratio = static_cast<double>(outcome.compressed_size) / compressed;
  coders_[std::min(kClasses - 1, static_cast<std::size_t>(ratio * kClasses))].measured.add(
      compressed, coding);
  // The store may keep what it has not yet stored in a buffer, and so seem fast; but not if the
  // thread had to wait for it.
  if (elapsed > static_cast<double>(outcome.elapsed_coding.count()))
    add_store_pace(static_cast<double>(outcome.compressed_size), elapsed * elapsed / storing);
  else
    unprobed_bytes_ += compressed;
}

CompressionChoice::Work::Work(CompressionChoice* choice) : choice_(choice) {
  if (choice_ == nullptr) return;
  begun_ = choice_->clock_();
  const std::scoped_lock lock(choice_->mutex_);
  storing_before_ = choice_->advance(begun_);
  ++choice_->storing_;
}

CompressionChoice::Work::~Work() {
  if (choice_ != nullptr) choice_->count_storing(-1);
}

void CompressionChoice::Work::begin_storing() {
  if (choice_ == nullptr) return;
  begun_ = choice_->clock_();
  const std::scoped_lock lock(choice_->mutex_);
  storing_before_ = choice_->advance(begun_);
}

void CompressionChoice::Work::finish(const ChunkOutcome& outcome) {
  if (choice_ == nullptr) return;
  const nanoseconds at = choice_->clock_();
  const std::scoped_lock lock(choice_->mutex_);
  const auto elapsed = static_cast<double>((at - begun_).count());
  // This thread stored all the time, though the parts of its chunk may have been compressed by
  // others.
  const double storing = std::max(choice_->advance(at) - storing_before_, elapsed);
  choice_->learn(outcome, elapsed, storing);
}

std::string CompressionChoice::reason(double coder_rate) const {
  const double store_rate = kSecond / store_time_.load(std::memory_order_relaxed);
  const std::string store = (is_measured_ ? "the store takes " : "the store is expected to take ") +
                            rate_text(store_rate);
  const std::string coder =
      fmt::format("{} thread{} compress{} {}", threads_, threads_ == 1 ? "" : "s",
                  threads_ == 1 ? "es" : "", rate_text(coder_rate));
  if (total_.compressed_bytes == 0 && total_.raw_bytes == 0)
    return total_.incompressible_bytes == 0 ? "" : "nothing shrinks by a tenth";
  if (coder_rate == 0) return store + ", and all chunks are small";
  return store + ", " + coder;
}

CompressionReport CompressionChoice::report() const {
  const std::scoped_lock lock(mutex_);
  const auto coder =
      std::max_element(coders_.begin(), coders_.end(),
                       [](const Coder& a, const Coder& b) { return a.seen < b.seen; });
  double rate = 0;
  if (coder->seen > 0)
    rate = threads_ * kSecond / coder->coding_time();
  else if (small_.bytes > 0)
    rate = threads_ * kSecond / small_.per_byte();
  return {.compressed_bytes = total_.compressed_bytes,
          .compressed_size = total_.compressed_size,
          .raw_bytes = total_.raw_bytes,
          .incompressible_bytes = total_.incompressible_bytes,
          .store_rate = kSecond / store_time_.load(std::memory_order_relaxed),
          .coder_rate = rate,
          .reason = reason(rate)};
}

}  // namespace cairn::inline v0::zarr
