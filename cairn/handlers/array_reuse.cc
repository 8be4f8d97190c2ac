// array_reuse.cc -- finds what an earlier save has already stored.
#include <cairn/array/box.h>
#include <cairn/handlers/array_writer.h>
#include <cairn/zarr/metadata/chunk_grid.h>

namespace cairn::inline v0::handlers {

// Which arrays have the same metadata in the earlier save, up to its spelling.
std::vector<bool> ArrayWriter::with_unchanged_metadata(const ReusableValues& earlier) const {
  zarr::MetadataCache cache;
  std::vector<bool> unchanged(arrays_.size());
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const std::string& text = metadata_text(i);
    // Metadata that cannot be read, or that Cairn would not write, is not that of the new array.
    const auto respelled = try_call([&]() -> std::string {
      const std::optional<Bytes> stored = earlier.read(metadata_key(i));
      if (!stored || as_text(*stored) == text) return stored ? text : "";
      return zarr::metadata_text(*cache.parse(options_.zarr_format, as_text(*stored)));
    });
    unchanged[i] = respelled && respelled.value() == text;
  }
  return unchanged;
}

void ArrayWriter::write_changed(ReusableValues& earlier, ValueSink& sink,
                                const FetchBoxesFn& fetch) {
  const std::vector<bool> unchanged = with_unchanged_metadata(earlier);
  for_each_batch([&](const Portion& portion) { return unchanged[portion.array]; }, fetch,
                 [&](auto writes, const zarr::WriteContext& context) {
                   zarr::write_changed(writes, earlier, sink, context);
                 });
  earlier_ = &earlier;
}

// Returns whether all chunks of the portion are shared or written, so that its elements are not
// needed.
bool ArrayWriter::is_done(const Portion& portion) const {
  if (earlier_ == nullptr || portion.box.empty()) return false;
  for (zarr::ChunkCursor chunk(portion.box, chunk_shape(portion.array)); !chunk.done();
       chunk.next())
    if (!earlier_->has(opened_[portion.array].chunk_key(chunk.part().position))) return false;
  return true;
}

}  // namespace cairn::inline v0::handlers
