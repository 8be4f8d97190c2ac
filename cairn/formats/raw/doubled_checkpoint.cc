#include <cairn/formats/raw/doubled_checkpoint.h>

#include <cairn/array/box.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace cairn::inline v0 {
namespace {

constexpr std::int64_t kComparedBytes = std::int64_t{8} << 20U;

Bytes read_box(const RawCheckpoint& from, std::size_t tensor, const TensorInfo& type,
               const Box& box) {
  const auto count = static_cast<std::size_t>(element_count(box.shape));
  Bytes bytes(count * type.element_size);
  const ReadRequest request{.tensor = tensor,
                            .box = box,
                            .out = make_view(MutableByteView(bytes), type.dtype, box.shape)};
  from.read({&request, 1}, {});
  return bytes;
}

}  // namespace

DoubledCheckpoint::DoubledCheckpoint(const OpenOptions& options, CheckpointInfo info,
                                     Contents contents, std::vector<DoubledPart> doubles,
                                     std::unique_ptr<RawCheckpoint> again)
    : RawCheckpoint(options, std::move(info), std::move(contents)),
      doubles_(std::move(doubles)),
      again_(std::move(again)) {}

VerifyPart DoubledCheckpoint::verify_part(WorkShare share, const ProgressFn& progress) const {
  VerifyPart part = RawCheckpoint::verify_part(share, progress);
  if (share.index == 0 && again_) compare_doubles(part);
  return part;
}

void DoubledCheckpoint::compare_doubles(VerifyPart& part) const {
  VerifyReport report = again_->verify({});
  std::move(report.findings.begin(), report.findings.end(),
            std::back_inserter(part.around.findings));
  for (std::size_t i = 0; i < doubles_.size(); ++i) {
    const RawRun& place = doubles_[i].place;
    // What cannot be read has been reported.
    const auto found = try_call([&] { return difference(i); });
    if (!found || found.value().empty()) continue;
    part.around.findings.push_back({.severity = Severity::kDamage,
                                    .tensor = tensor(doubles_[i].tensor).name,
                                    .file = files()[place.file].path(),
                                    .offset = place.offset,
                                    .message = found.value()});
  }
}

std::string DoubledCheckpoint::difference(std::size_t i) const {
  const DoubledPart& doubled = doubles_[i];
  const TensorInfo& info = tensor(doubled.tensor);
  Box part = doubled.box;  // of the tensor, in slabs along the first axis
  const std::int64_t rows = part.rank() == 0 ? 1 : part.shape[0];
  const auto row_bytes = static_cast<std::int64_t>(info.element_size) *
                         (element_count(part.shape) / std::max<std::int64_t>(rows, 1));
  const std::int64_t step =
      std::max<std::int64_t>(kComparedBytes / std::max<std::int64_t>(row_bytes, 1), 1);
  for (std::int64_t row = 0; row < rows; row += step) {
    if (part.rank() > 0) {
      part.origin[0] = doubled.box.origin[0] + row;
      part.shape[0] = std::min(step, rows - row);
    }
    const Bytes first = read_box(*this, doubled.tensor, info, part);
    const Bytes second = read_box(*again_, i, info, relative_to(part, doubled.box.origin));
    if (first == second) continue;
    return fmt::format("this chunk and a later one hold different values of {}", box_text(part));
  }
  return "";
}

}  // namespace cairn::inline v0
