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

// Where a process writes values of the new item.
struct ItemTarget {
  std::string folder;       // of the files: the item itself, or the database of one process in it
  bool is_database = true;  // false: each chunk is a file
};

// The values of an array can be shared only if its codecs are equal in both items. So an array that
// the earlier item has with zstd keeps it, also if it does not shrink: sets `sampled` to kShrinks.
// For items of Zarr v3.
void keep_earlier_codecs(EarlierItem& earlier, std::span<const StoreArray> arrays,
                         std::vector<handlers::Sampled>& sampled);

// What writes the values of the new item, and where it gets and puts them.
struct ValueWriting {
  handlers::ArrayWriter& writer;
  ValueSink& sink;
  const handlers::FetchBoxesFn& fetch;
};

// Finds the values that the files in `folder` share with the earlier item, writes those that have
// changed, and tells the observer (null: nobody). Returns null if it shares none because the
// earlier one cannot be used. writer.write_values() writes the rest.
std::unique_ptr<SharedValues> share_values(EarlierItem& earlier, const std::string& folder,
                                           const Observer& observer, const ValueWriting& writing);
// Remembers what the files of the new item contain, for the next save. Call it when all values are
// written, and before the files are synced.
void remember_values(SavedFingerprints& fingerprints, const ItemTarget& target);

}  // namespace cairn::inline v0::orbax
