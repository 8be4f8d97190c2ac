// stats.cc -- statistics of a tensor's values: one pass for the moments, one for the histogram,
// each in parallel.
#include <cairn/inspect.h>

#include <cairn/array/box.h>
#include <cairn/base/executor.h>
#include <cairn/base/magnitude.h>
#include <cairn/tools/report/json_text.h>
#include <cairn/tools/source/capacity.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

namespace cairn::inline v0 {
namespace {

// elements; their float64 copies fit the second-level cache
constexpr std::size_t kStatsBlock = 16384;
constexpr std::size_t kBins = 16;

// Moments of finite values. Threads compute them separately and merge them (Chan's parallel form of
// the variance).
struct Moments {
  std::uint64_t count = 0, zeros = 0, nans = 0, infs = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double mean = 0, m2 = 0;  // of the finite values

  [[nodiscard]] std::uint64_t finite() const { return count - nans - infs; }

  void merge(const Moments& other) {
    const auto a = static_cast<double>(finite());
    const auto b = static_cast<double>(other.finite());
    count += other.count;
    zeros += other.zeros;
    nans += other.nans;
    infs += other.infs;
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    if (b == 0) return;
    const double delta = other.mean - mean;
    mean += delta * (b / (a + b));
    m2 += other.m2 + delta * delta * (a * b / (a + b));
  }
};

Moments moments_of(std::span<const double> values) {
  Moments m;
  m.count = values.size();
  double sum = 0;
  for (const double v : values) {
    const bool is_nan = v != v;
    const bool is_inf = std::abs(v) == std::numeric_limits<double>::infinity();
    const bool finite = !is_nan && !is_inf;
    m.nans += is_nan ? 1U : 0U;
    m.infs += is_inf ? 1U : 0U;
    m.zeros += v == 0 ? 1U : 0U;
    m.min = finite && v < m.min ? v : m.min;
    m.max = finite && v > m.max ? v : m.max;
    sum += finite ? v : 0;
  }
  if (m.finite() == 0) return m;
  m.mean = sum / static_cast<double>(m.finite());
  for (const double v : values) {
    const double delta = std::isfinite(v) ? v - m.mean : 0;
    m.m2 += delta * delta;
  }
  return m;
}

// The values of contiguous elements as float64; for complex numbers their absolute values.
std::span<const double> as_doubles(ByteView bytes, DType dtype, std::vector<double>& scratch) {
  const auto n = static_cast<std::int64_t>(bytes.size() / dtype_size(dtype));
  const bool is_complex = dtype_kind(dtype) == DTypeKind::kComplex;
  scratch.resize(static_cast<std::size_t>(is_complex ? 2 * n : n));
  const MutableByteView out(reinterpret_cast<std::byte*>(scratch.data()),
                            scratch.size() * sizeof(double));
  cast_elements(make_view(bytes, dtype, {n}),
                make_view(out, is_complex ? DType::kComplex128 : DType::kFloat64, {n}));
  if (!is_complex) return scratch;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
    scratch[i] = magnitude(scratch[2 * i], scratch[2 * i + 1]);
  return std::span(scratch).first(static_cast<std::size_t>(n));
}

// Splits a piece into blocks for the workers; calls f(values, block) with each block as float64.
template <class F>
void for_each_block(Executor& executor, ByteView piece, DType dtype, F f) {
  const std::size_t bytes = kStatsBlock * dtype_size(dtype);
  executor.for_each((piece.size() + bytes - 1) / bytes, [&](std::size_t block) {
    static thread_local std::vector<double> scratch;
    f(as_doubles(piece.subspan(block * bytes, std::min(bytes, piece.size() - block * bytes)), dtype,
                 scratch),
      block);
  });
}

// Merges blocks in their order, so that the result does not depend on the number of threads.
void add_moments(Executor& executor, ByteView piece, DType dtype, Moments& total) {
  std::vector<Moments> parts(piece.size() / (kStatsBlock * dtype_size(dtype)) + 1);
  for_each_block(executor, piece, dtype, [&](std::span<const double> values, std::size_t block) {
    parts[block] = moments_of(values);
  });
  for (const auto& part : parts) total.merge(part);
}

void add_histogram(Executor& executor, ByteView piece, DType dtype, const Moments& moments,
                   std::vector<std::uint64_t>& bins) {
  // Half the range, because max - min may overflow float64.
  const double half_range = moments.max / 2 - moments.min / 2;
  std::mutex mutex;
  for_each_block(executor, piece, dtype, [&](std::span<const double> values, std::size_t) {
    std::array<std::uint64_t, kBins> counts{};
    for (const double v : values) {
      if (!std::isfinite(v)) continue;
      const double place =
          half_range > 0 ? (v / 2 - moments.min / 2) / half_range * static_cast<double>(kBins) : 0;
      ++counts[std::min(static_cast<std::size_t>(place), kBins - 1)];
    }
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < kBins; ++i) bins[i] += counts[i];
  });
}

}  // namespace

TensorStats tensor_stats(const Checkpoint& checkpoint, std::size_t index,
                         const Resources& resources) {
  const TensorInfo& tensor = checkpoint.tensors()[index];
  if (!tensor.error.empty()) throw Error(Code::kDataLoss, tensor.name + ": " + tensor.error);
  if (!tensor.is_array() || tensor.dtype == DType::kOpaque)
    throw Error(Code::kInvalidArgument,
                tensor.name + ": cannot compute statistics of " +
                    (tensor.dtype_name.empty() ? tensor.typestr : tensor.dtype_name));
  check_dense(tensor);
  const Workers workers(resources.threads);
  Executor& executor = workers.executor();
  const Box whole = Box::whole(tensor.shape);
  Moments moments;
  TensorStats stats;
  stats.name = tensor.name;
  stats.item = tensor.item;
  stats.dtype_name = tensor.dtype_name;
  stats.shape = tensor.shape;
  // A tensor that fits is read once and kept for the second pass.
  Buffer kept;
  ByteView all;
  if (tensor.nbytes <= resources.memory) {
    kept = Buffer(static_cast<std::size_t>(tensor.nbytes));
    const MutableByteView bytes(kept.data(), kept.size());
    const ReadRequest request{index, whole, make_view(bytes, tensor.dtype, tensor.shape)};
    checkpoint.read(std::span(&request, 1), {});
    all = bytes;
    add_moments(executor, all, tensor.dtype, moments);
  } else {
    stream_box(checkpoint, index, whole, resources.memory,
               [&](ByteView piece) { add_moments(executor, piece, tensor.dtype, moments); });
  }
  stats.count = moments.count;
  stats.zeros = moments.zeros;
  stats.nans = moments.nans;
  stats.infs = moments.infs;
  if (moments.finite() == 0) return stats;
  stats.min = moments.min;
  stats.max = moments.max;
  stats.mean = moments.mean;
  stats.stddev = std::sqrt(moments.m2 / static_cast<double>(moments.finite()));
  stats.histogram.assign(kBins, 0);
  const auto second_pass = [&](ByteView piece) {
    add_histogram(executor, piece, tensor.dtype, moments, stats.histogram);
  };
  if (kept.size() > 0)
    second_pass(all);
  else
    stream_box(checkpoint, index, whole, resources.memory, second_pass);
  return stats;
}

std::string stats_json(std::span<const TensorStats> stats) {
  const auto entry = [&](std::size_t i) -> Json {
    const TensorStats& s = stats[i];
    JsonObject out;
    if (s.step) out.emplace_back("step", *s.step);
    if (s.item) out.emplace_back("item", *s.item);
    out.emplace_back("name", text_json(s.name));
    out.emplace_back("dtype", s.dtype_name);
    out.emplace_back("shape", shape_json(s.shape));
    out.emplace_back("count", s.count);
    const auto number = [](const std::optional<double>& v) { return v ? number_json(*v) : Json(); };
    out.emplace_back("min", number(s.min));
    out.emplace_back("max", number(s.max));
    out.emplace_back("mean", number(s.mean));
    out.emplace_back("std", number(s.stddev));
    out.emplace_back("zeros", s.zeros);
    out.emplace_back("nans", s.nans);
    out.emplace_back("infs", s.infs);
    JsonArray bins;
    for (const auto n : s.histogram) bins.emplace_back(n);
    out.emplace_back("histogram", std::move(bins));
    return out;
  };
  std::string text;
  lines_json(stats.size(), entry, [&](std::string_view piece) { text += piece; });
  return text;
}

}  // namespace cairn::inline v0
