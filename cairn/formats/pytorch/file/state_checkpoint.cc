#include <cairn/formats/pytorch/file/state_checkpoint.h>

#include <cairn/base/errors.h>
#include <cairn/formats/raw/raw_verify.h>

#include <fmt/format.h>

namespace cairn::inline v0::pytorch {

VerifyPart StateCheckpoint::verify_part(WorkShare share, const ProgressFn& progress) const {
  VerifyPart part = RawCheckpoint::verify_part(share, progress);
  if (share.index != 0) return part;
  for (const UnusedStorage& storage : unused_) check(storage, part.around);
  return part;
}

void StateCheckpoint::check(const UnusedStorage& storage, VerifyReport& report) const {
  const RawArray& all = storage.bytes->all();
  report.bytes += all.stored_bytes();
  const auto checked = try_call([&] {
    if (all.stream) all.stream->check_whole(files());
    if (all.checksum) check_checksum(all, checksum_of(executor(), files(), all, memory()));
    return true;
  });
  if (checked) return;
  const Error& e = checked.error();
  if (e.code() == Code::kUnavailable) throw Error(e);
  const RawRun run = all.runs.empty() ? RawRun{} : all.runs.front();
  report.findings.push_back(
      {.severity = severity_of(e.code()),
       .file = files()[run.file].path(),
       .offset = run.offset,
       .message = fmt::format("storage \"{}\", of which no tensor is read: {}", storage.key,
                              e.message())});
}

}  // namespace cairn::inline v0::pytorch
