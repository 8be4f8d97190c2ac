// verify.cc -- verifies a checkpoint, which may be too damaged to open, or all checkpoints of a
// root.
#include <cairn/base/byte_io.h>
#include <cairn/base/cancellation.h>
#include <cairn/inspect.h>
#include <cairn/io/file.h>
#include <cairn/kvstore/folders/resolve.h>
#include <cairn/orbax/layout/retry.h>
#include <cairn/orbax/read/verify.h>
#include <cairn/tools/source/consistency.h>
#include <cairn/tools/source/multiprocess.h>
#include <cairn/tools/source/open_to_verify.h>
#include <cairn/tree/verifiable_checkpoint.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {
namespace {

// Reports the error that prevented opening as a finding.
VerifyReport verify_closed(const std::string& path, const Error& error) {
  VerifyReport report;
  report.findings.push_back({severity_of(error.code()), "", path, 0, error.message()});
  return report;
}

// Whether an error of one process becomes a finding for all. Damage does, because the processes
// must not disagree about it.
bool is_finding(const Error& error) {
  return error.code() == Code::kDataLoss || error.code() == Code::kOutOfRange;
}

// A collective step in which each process contributes the result of `work`, or the damage that it
// met. Returns the results. Sets `damage` to this process's own, if any, or else to the first one.
std::vector<Bytes> exchange_or_damage(const distributed::ProcessGroup& group, std::string_view step,
                                      const std::function<Bytes()>& work,
                                      std::optional<Error>& damage) {
  std::vector<Bytes> messages = group.gather(step, distributed::StepKind::kIo, [&] {
    ByteWriter out;
    try {
      const Bytes done = work();
      out.u8(0).bytes(done);
    } catch (const Error& e) {
      if (!is_finding(e)) throw;
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
      damage);
  if (!damage) {
    check_opened(messages, opened, group, "verify: open");
    const auto checked = exchange_or_damage(
        group, "verify: check",
        [&] {
          return encode_verify_part(
              in_parts(*checkpoint).verify_part(share_of(group), options.progress));
        },
        damage);
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

// Verifies one of several checkpoints: one that cannot be opened must not prevent checking the
// others. Damage is in the report already; of other errors, a step that is empty or gone counts as
// damage.
VerifyReport verify_one(const std::string& path, bool is_step, const VerifyOptions& options) {
  try {
    return verify(path, options);
  } catch (const Error& e) {
    // the other processes are gone
    const bool is_single = distributed::ProcessGroup(options.multiprocessing).is_single();
    if (e.code() == Code::kUnavailable && !is_single) throw;
    VerifyReport report;
    report.path = path;
    const Severity severity = is_step ? severity_of(e.code()) : Severity::kNotChecked;
    report.findings.push_back({severity, "", path, 0, e.message()});
    return report;
  }
}

// Verifies what the steps of a root share.
VerifyReport verify_root(const std::string& path, const VerifyOptions& options,
                         const distributed::ProcessGroup& group) {
  const auto parts = group.gather("verify: the root", distributed::StepKind::kIo, [&] {
    if (!group.is_primary()) return Bytes();
    VerifyReport found;
    orbax::verify_root_metadata(*open_folder(normal_path(path), options.open.store), found);
    return encode_verify_part({.around = std::move(found), .arrays = {}});
  });
  VerifyReport report = decode_verify_part(parts[group.primary()]).around;
  report.path = path;
  return report;
}

// Whether a manager has removed a checkpoint that was listed. `path` may be the prefix of one of
// TensorFlow.
bool is_gone(const std::string& path, const StoreOptions& store) {
  const auto tree = try_call([&] { return tree_around(path, store); });
  if (!tree.ok()) return tree.error().code() == Code::kNotFound;
  return !tree.value().exists(path) && !tree.value().exists(path + ".index");
}

}  // namespace

VerifyReport verify(const std::string& path, const VerifyOptions& options) {
  constexpr int kAttempts = 4;
  const auto start = std::chrono::steady_clock::now();
  const distributed::ProcessGroup group(options.multiprocessing);
  // Processes that share the work would have to agree on every new attempt.
  VerifyReport report = stoppable_by(options.open.cancel, [&] {
    return retry_if_unavailable(group.is_single() ? kAttempts : 1,
                                [&] { return verify_once(path, options, group); });
  });
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

std::vector<VerifyReport> verify_steps(const std::string& path, const VerifyOptions& options) {
  const distributed::ProcessGroup group(options.multiprocessing);
  // Steps may be added meanwhile, and hosts may mount the root at different paths. So all processes
  // use the names that the first process lists.
  const auto listed = group.gather("verify: list the steps", distributed::StepKind::kIo, [&] {
    ByteWriter out;
    if (!group.is_primary()) return Bytes();
    for (const ListedCheckpoint& found : list_checkpoints(path, options.open)) {
      const std::string name = std::filesystem::path(found.path).filename().string();
      out.u64(name.size()).text(name);
      out.u8(found.step ? 1 : 0).u64(static_cast<std::uint64_t>(found.step.value_or(0)));
    }
    return std::move(out).take();
  });
  std::vector<VerifyReport> reports;
  for (ByteReader in(listed[group.primary()]); in.remaining() > 0;) {
    const std::string found = (std::filesystem::path(path) / in.text(in.u64())).string();
    const bool is_step = in.u8() != 0;
    const auto step = static_cast<std::int64_t>(in.u64());
    VerifyReport report = verify_one(found, is_step, options);
    if (group.is_single() && report.verdict() != Verdict::kGood &&
        is_gone(found, options.open.store))
      continue;
    if (is_step) report.step = step;
    reports.push_back(std::move(report));
  }
  if (VerifyReport root = verify_root(path, options, group); !root.findings.empty())
    reports.push_back(std::move(root));
  return reports;
}

std::vector<VerifyReport> verify_all(std::span<const std::string> paths,
                                     const VerifyOptions& options) {
  std::vector<VerifyReport> reports;
  for (const std::string& path : paths) reports.push_back(verify_one(path, false, options));
  return reports;
}

}  // namespace cairn::inline v0
