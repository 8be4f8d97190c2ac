// verify.cc -- verifies a checkpoint, which may be too damaged to open, or all checkpoints of a
// root.
#include <cairn/base/byte_io.h>
#include <cairn/formats/safetensors/set.h>
#include <cairn/inspect.h>
#include <cairn/io/file.h>
#include <cairn/io/retry.h>
#include <cairn/tools/source/consistency.h>
#include <cairn/tools/source/multiprocess.h>
#include <cairn/tools/source/open_to_verify.h>
#include <cairn/tree/verifiable_checkpoint.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// Checks each shard, if `path` is a safetensors index or a model folder that has one.
std::vector<Finding> check_shards(const std::string& path) {
  return check_safetensors_set(directory_exists(path) ? path + "/model.safetensors.index.json"
                                                      : path);
}

// Reports the error that prevented opening as a finding. For a set, the findings of its shards take
// its place, because they may show more damage.
VerifyReport verify_closed(const std::string& path, const Error& error) {
  VerifyReport report;
  report.findings = check_shards(path);
  if (report.findings.empty())
    report.findings.push_back({severity_of(error.code()), "", path, 0, error.message()});
  return report;
}

// Whether an error of one process becomes a finding for all. Damage does, because the processes
// must not disagree about it. So does a shard that cannot be read: the others are still checked.
bool is_finding(const std::string& path, const Error& error) {
  if (error.code() == Code::kDataLoss || error.code() == Code::kOutOfRange) return true;
  return error.code() == Code::kIo && !check_shards(path).empty();
}

// A collective step in which each process contributes the result of `work`, or the damage that it
// met. Returns the results. Sets `damage` to this process's own, if any, or else to the first one.
std::vector<Bytes> exchange_or_damage(const distributed::ProcessGroup& group, std::string_view step,
                                      const std::function<Bytes()>& work, const std::string& path,
                                      std::optional<Error>& damage) {
  std::vector<Bytes> messages = group.gather(step, distributed::StepKind::kIo, [&] {
    ByteWriter out;
    try {
      const Bytes done = work();
      out.u8(0).bytes(done);
    } catch (const Error& e) {
      if (!is_finding(path, e)) throw;
      damage = e;
      out.u8(1).text(e.message());
    }
    return std::move(out).take();
  });
  for (std::size_t p = 0; p < messages.size(); ++p) {
    const bool is_damaged = messages[p].at(0) != std::byte{0};
    messages[p].erase(messages[p].begin());
    if (is_damaged && !damage)
      damage.emplace(Code::kDataLoss,
                     "process " + std::to_string(p) + ": " + std::string(as_text(messages[p])));
  }
  return messages;
}

// Every reader of the library verifies in parts.
const VerifiableCheckpoint& in_parts(const Checkpoint& checkpoint) {
  return dynamic_cast<const VerifiableCheckpoint&>(checkpoint);
}

VerifyReport named(VerifyReport report, const CheckpointInfo& info) {
  report.path = info.path;
  report.step = info.step;
  return report;
}

// Verifies one of several steps: a step that cannot be opened must not prevent checking the others.
// Returns nullopt if a manager has removed the step meanwhile.
std::optional<VerifyReport> verify_step(const std::string& path, const VerifyOptions& options,
                                        const distributed::ProcessGroup& group) {
  try {
    return verify(path, options);
  } catch (const Error& e) {
    if (group.is_single() && !file_exists(path)) return std::nullopt;
    // the other processes are gone
    if (e.code() == Code::kUnavailable && !group.is_single()) throw;
    VerifyReport report;
    report.path = path;
    report.findings.push_back({severity_of(e.code()), "", path, 0, e.message()});
    return report;
  }
}

}  // namespace

namespace {

VerifyReport verify_once(const std::string& path, const VerifyOptions& options,
                         const distributed::ProcessGroup& group) {
  std::unique_ptr<Checkpoint> checkpoint;
  std::optional<Error> damage;
  distributed::ConsistencyCheck opened("sees");
  const auto messages = exchange_or_damage(
      group, "verify: open",
      [&] {
        checkpoint = open_to_verify(path, options.open);
        if (!group.is_single()) add_opened(*checkpoint, "", opened);
        return opened.message();
      },
      path, damage);
  if (!damage) {
    check_opened(messages, opened, group, "verify: open");
    const auto checked = exchange_or_damage(
        group, "verify: check",
        [&] {
          return encode_verify_part(
              in_parts(*checkpoint).verify_part(share_of(group), options.progress));
        },
        path, damage);
    std::vector<VerifyPart> parts;
    if (!damage)
      for (const Bytes& part : checked) parts.push_back(decode_verify_part(part));
    if (!damage)
      return named(in_parts(*checkpoint).join_verified(std::move(parts)), checkpoint->info());
  }
  const auto reports =
      group.gather("verify: why it does not open", distributed::StepKind::kIo, [&] {
        return group.is_primary()
                   ? encode_verify_part({.around = verify_closed(path, *damage), .arrays = {}})
                   : Bytes();
      });
  VerifyReport report = decode_verify_part(reports[group.primary()]).around;
  report.path = path;
  return report;
}

}  // namespace

VerifyReport verify(const std::string& path, const VerifyOptions& options) {
  constexpr int kAttempts = 4;
  const distributed::ProcessGroup group(options.multiprocessing);
  // Processes that share the work would have to agree on every new attempt.
  return retry_if_unavailable(group.is_single() ? kAttempts : 1,
                              [&] { return verify_once(path, options, group); });
}

std::vector<VerifyReport> verify_steps(const std::string& path, const VerifyOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  // Steps may be added meanwhile, and hosts may mount the root at different paths. So all processes
  // use the names that the first process lists.
  const auto steps = group.gather("verify: list the steps", distributed::StepKind::kIo, [&] {
    ByteWriter out;
    if (!group.is_primary()) return Bytes();
    for (const auto& step : list_steps(path, options.open)) {
      const std::string name = std::filesystem::path(step).filename().string();
      out.u64(name.size()).text(name);
    }
    return std::move(out).take();
  });
  std::vector<VerifyReport> reports;
  for (ByteReader names(steps[group.primary()]); names.remaining() > 0;) {
    const std::string step = (std::filesystem::path(path) / names.text(names.u64())).string();
    std::optional<VerifyReport> report = verify_step(step, options, group);
    if (report) reports.push_back(*std::move(report));
  }
  return reports;
}

}  // namespace cairn::inline v0
