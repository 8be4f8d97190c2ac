// checkpoint_transaction.cc -- the collective steps of a save before and after the writing.
#include <cairn/orbax/commit/checkpoint_transaction.h>

#include <cairn/base/cancellation.h>
#include <cairn/base/observer/observe.h>
#include <cairn/distributed/consistency.h>
#include <cairn/orbax/commit/pending_place.h>

#include <memory>
#include <string_view>
#include <utility>

namespace cairn::inline v0::orbax {

using distributed::StepKind;

namespace {

constexpr std::string_view kFirstStep = "save: start";

// The items, with the handlers, because the processes take the same steps only for items of the
// same kinds.
std::string items_text(const CheckpointContent& content) {
  std::string text = "the items";
  for (const auto& [name, handler] : content.items) {
    text.append(" ").append(name);
    if (!handler.empty()) text.append(" (").append(handler).append(")");
  }
  return text;
}

}  // namespace

CheckpointTransaction::CheckpointTransaction(const std::string& path, const SaveOptions& options,
                                             const CheckpointContent& content,
                                             distributed::ProcessGroup group)
    : group_(std::move(group)), folder_("") {
  distributed::ConsistencyCheck consistency("writes");
  const auto messages = group_.gather(kFirstStep, StepKind::kControl, [&] {
    folder_ = OutputFolder::at(pending_path(path, options), options.store)
                  .child(options.item.value_or(""));
    if (!group_.writes_separately())
      consistency.add("the processes do not save the same checkpoint", "to " + folder_.path());
    consistency.add("the processes do not save the same checkpoint", items_text(content));
    return consistency.message();
  });
  consistency.check(messages, group_, "save: other checkpoints");
  group_.step("save: temporary directory", StepKind::kControl, [&] {
    if (!group_.is_primary()) return;
    pending_.emplace(path, options, content);
    folder_ = pending_->folder();
    if (!group_.is_single()) pending_->share();
  });
}

void CheckpointTransaction::give_up() {
  if (group_.is_single()) return;
  const CancellationScope none{Cancellation()};  // all processes must come
  const auto all_here = try_call([&] {
    group_.step("save: give up", StepKind::kIo, [] {});
    return true;
  });
  if (all_here && pending_) pending_->remove();
}

void CheckpointTransaction::commit(const std::function<void()>& finalize, SyncedFiles* synced) {
  bool in_place = false;
  // Another process may have committed when this one would stop.
  const CancellationScope scope(pending_ ? current_cancellation() : Cancellation());
  try {
    group_.step("save: commit", StepKind::kIo, [&] {
      if (!pending_) return;
      finalize();
      pending_->commit(synced);
      in_place = true;
    });
  } catch (Error& e) {
    if (in_place)
      e.add_context(folder_.path() +
                    ": is in place under its final name, but not all processes were told");
    throw;
  }
}

void before_save(const distributed::ProcessGroup& group, const std::function<void()>& work) {
  try {
    work();
  } catch (...) {
    group.step(kFirstStep, StepKind::kControl, [] { throw; });
  }
}

std::function<void()> start_save(CheckpointSave save) {
  const Stopwatch watch;
  const Cancellation cancellation(save.options.cancel, save.options.save_timeout);
  const Observer observer = save.options.observer;
  std::shared_ptr<CheckpointTransaction> transaction;
  auto write = reporting_failure(observer, "save.failed", save.path, [&] {
    return with_cancellation(cancellation, save.path, [&] {
      transaction = std::make_shared<CheckpointTransaction>(save.path, save.options, save.content,
                                                            std::move(save.group));
      observe(observer, EventLevel::kDebug, "save.directory_made", {{"path", save.path}},
              watch.elapsed());
      return save.prepare(transaction->folder());
    });
  });
  const auto finish = [transaction, write = std::move(write), finalize = std::move(save.finalize),
                       gives_up = save.gives_up, synced = std::move(save.synced), observer,
                       path = save.path] {
    try {
      write();
      const Stopwatch committing;
      transaction->commit([&] { finalize(transaction->folder()); }, synced.get());
      observe(observer, EventLevel::kDebug, "save.committed", {{"path", path}},
              committing.elapsed());
    } catch (const Error& e) {
      if (gives_up) transaction->give_up();
      const bool is_damage = e.code() == Code::kDataLoss || e.code() == Code::kNotFound;
      const bool is_taken = is_damage && transaction->is_taken();
      transaction->end();  // now, not when somebody asks for the error
      if (!is_taken) throw;
      throw Error(Code::kUnavailable, path +
                                          ": another save writes to the same place and has "
                                          "removed what this one had written: " +
                                          e.what());
    } catch (...) {
      if (gives_up) transaction->give_up();
      transaction->end();
      throw;
    }
    transaction->end();
  };
  return [finish, observer, path = save.path, cancellation, watch] {
    reporting_failure(observer, "save.failed", path,
                      [&] { with_cancellation(cancellation, path, finish); });
    observe(observer, EventLevel::kInfo, "save.finished", {{"path", path}}, watch.elapsed());
  };
}

}  // namespace cairn::inline v0::orbax
