// item_reuse.cc -- finds shared values, and reports them.
#include <cairn/orbax/reuse/item_reuse.h>

#include <cairn/base/observer/observe.h>
#include <cairn/error.h>

#include <utility>

namespace cairn::inline v0::orbax {

std::unique_ptr<SharedValues> share_values(const ItemReuse& reuse, const ItemTarget& target,
                                           handlers::ArrayWriter& writer, ValueSink& sink,
                                           const handlers::FetchBoxesFn& fetch) {
  if (reuse.from.empty()) return nullptr;
  const Stopwatch watch;
  const auto warn = [&](std::string_view why) {
    observe(reuse.observer, EventLevel::kWarning, "save.not_reused",
            {{"path", target.folder}, {"from", reuse.from}, {"message", why}});
  };
  auto opened = try_call([&] { return open_shared_values(reuse.from, target); });
  if (!opened) return warn(opened.error().message()), nullptr;
  std::unique_ptr<SharedValues> shared = std::move(opened).value();
  writer.write_changed(*shared, sink, fetch);
  shared->settle();
  const SharedCounts counts = shared->counts();
  if (!counts.refusal.empty()) warn(counts.refusal);
  observe(reuse.observer, EventLevel::kInfo, "save.reused",
          {{"path", target.folder},
           {"from", reuse.from},
           {"values", counts.values},
           {"bytes", counts.bytes}},
          watch.elapsed());
  return shared;
}

void remember_values(SavedFingerprints& fingerprints, const ItemTarget& target) {
  const StorePtr files = open_file_store(target.folder);
  fingerprints.finish(target.is_database ? *open_ocdbt(files) : *files);
}

}  // namespace cairn::inline v0::orbax
