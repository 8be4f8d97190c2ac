// item_reuse.cc -- finds shared values, and reports them.
#include <cairn/orbax/reuse/item_reuse.h>

#include <cairn/base/observer/observe.h>
#include <cairn/error.h>

#include <utility>

namespace cairn::inline v0::orbax {
namespace {

using handlers::Sampled;

bool has_zstd(const zarr::CodecChain& chain) {
  if (chain.shard) return has_zstd(chain.shard->codecs);
  return chain.steps.size() == 1 && zarr::is_zstd(chain.steps[0]);
}

}  // namespace

void keep_earlier_codecs(const ItemReuse& reuse, const ItemTarget& target,
                         std::span<const StoreArray> arrays, std::vector<Sampled>& sampled) {
  if (reuse.from.empty()) return;
  // share_values() reports an earlier item that cannot be used.
  const auto earlier = try_call([&] { return open_shared_values(reuse.from, target); });
  if (!earlier) return;
  zarr::MetadataCache cache;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (sampled[i] != Sampled::kIncompressible) continue;
    const auto keeps_zstd = try_call([&] {
      const auto text = earlier.value()->read(zarr::ZarrArray::metadata_key(arrays[i].name, 3));
      return text && has_zstd(cache.parse(3, as_text(*text))->codecs);
    });
    if (keeps_zstd && keeps_zstd.value()) sampled[i] = Sampled::kShrinks;
  }
}

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
