// save_progress.cc -- adds up what the writers of a save count.
#include <cairn/orbax/save/save_progress.h>

#include <cairn/base/observer/progress_pump.h>
#include <cairn/orbax/save/item_writer.h>

namespace cairn::inline v0::orbax {

void SaveProgress::expect(SaveItem& item) {
  if (!call_) return;
  item.progress = &counter_;
  item.expected_bytes = stored_bytes(item);
  counter_.total += item.expected_bytes;
}

void SaveProgress::run(const std::function<void()>& write) const {
  with_progress(counter_, call_, write);
}

}  // namespace cairn::inline v0::orbax
