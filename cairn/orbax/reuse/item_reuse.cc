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

void keep_earlier_codecs(EarlierItem& earlier, std::span<const StoreArray> arrays,
                         std::vector<Sampled>& sampled) {
  if (earlier.from().empty()) return;
  zarr::MetadataCache cache;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (sampled[i] != Sampled::kIncompressible) continue;
    // share_values() reports an earlier item that cannot be used.
    const auto keeps_zstd = try_call([&] {
      const auto text = earlier.read(zarr::ZarrArray::metadata_key(arrays[i].name, 3));
      return text && has_zstd(cache.parse(3, as_text(*text))->codecs);
    });
    if (keeps_zstd && keeps_zstd.value()) sampled[i] = Sampled::kShrinks;
  }
}

std::unique_ptr<SharedValues> share_values(EarlierItem& earlier, const std::string& folder,
                                           const Observer& observer, const ValueWriting& writing) {
  if (earlier.from().empty()) return nullptr;
  const Stopwatch watch;
  const auto warn = [&](std::string_view why) {
    observe(observer, EventLevel::kWarning, "save.not_reused",
            {{"path", folder}, {"from", earlier.from()}, {"message", why}});
  };
  auto opened = try_call([&] { return earlier.share_with(folder); });
  if (!opened) return warn(opened.error().message()), nullptr;
  std::unique_ptr<SharedValues> shared = std::move(opened).value();
  writing.writer.write_changed(*shared, writing.sink, writing.fetch);
  shared->settle();
  const SharedCounts counts = shared->counts();
  if (!counts.refusal.empty()) warn(counts.refusal);
  observe(observer, EventLevel::kInfo, "save.reused",
          {{"path", folder},
           {"from", earlier.from()},
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
