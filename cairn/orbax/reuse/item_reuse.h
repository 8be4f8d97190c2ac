// item_reuse.h -- how the save of an item shares values with an earlier one, and prepares for later
// ones.
#pragma once

#include <cairn/handlers/array_writer.h>
#include <cairn/handlers/incompressible.h>
#include <cairn/kvstore/value_fingerprints.h>
#include <cairn/observer.h>
#include <cairn/orbax/reuse/earlier_item.h>
#include <cairn/orbax/reuse/shared_values.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::orbax {

// Which stored values a save shares with an earlier one.
struct ItemReuse {
  std::string from = {};   // the earlier checkpoint or item; "": none
  bool for_later = false;  // large values get data files of their own, which later saves can share
  // What this process has stored in files. Null: nothing is remembered.
  std::shared_ptr<ValueFingerprints> known = {};
  Observer observer = {};  // told what is shared; null: nobody
};

// The values of an array can be shared only if its codecs are equal in both items. So an array that
// the earlier item has with zstd keeps it, also if it does not shrink: sets `sampled` to kShrinks.
// For items of Zarr v3.
void keep_earlier_codecs(const ItemReuse& reuse, const ItemTarget& target,
                         std::span<const StoreArray> arrays,
                         std::vector<handlers::Sampled>& sampled);

// Finds the values that the new item shares with the earlier one, writes those that have changed,
// and tells the observer. Returns null if it shares none because the earlier one cannot be used.
// writer.write_values() writes the rest.
std::unique_ptr<SharedValues> share_values(const ItemReuse& reuse, const ItemTarget& target,
                                           handlers::ArrayWriter& writer, ValueSink& sink,
                                           const handlers::FetchBoxesFn& fetch);
// Remembers what the files of the new item contain, for the next save. Call it when all values are
// written, and before the files are synced.
void remember_values(SavedFingerprints& fingerprints, const ItemTarget& target);

}  // namespace cairn::inline v0::orbax
