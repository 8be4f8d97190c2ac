// pending_upload.h -- PendingUpload, a checkpoint that is written to a store. A store has no
// folders to rename, so it is written in place, as Orbax writes to gs:// (in_place.h):
//
//   <target>/_CHECKPOINT_METADATA   first, with the start time alone: it claims the place
//   <target>/...                    the items
//   <target>/_CHECKPOINT_METADATA   again, with the commit time
//   <target>/commit_success.txt     last
//
// Each value is created and none replaced (create_only_store.h), the marker too: of two saves, at
// most one succeeds.
// A save cannot tell whether the writer of an unfinished checkpoint still lives. It replaces the
// record, which then no longer is the one that the other save would complete, and so claims the
// place. Then it removes everything else and begins anew, as Orbax does.
#pragma once

#include <cairn/error.h>
#include <cairn/kvstore/folders/create_only_store.h>
#include <cairn/orbax/commit/pending_place.h>
#include <cairn/storage/store_options.h>
#include <cairn/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {

// The prefix of one save. Not safe for concurrent use; its folder() is.
class PendingUpload final : public PendingPlace {
 public:
  // Removes what an interrupted save has left, or with kReplace an older checkpoint. Throws
  // already_exists if a checkpoint exists and may not be replaced, or if there is anything besides
  // a checkpoint (contents.h). Throws invalid_argument for a URL that cannot name a checkpoint, and
  // unimplemented for a store that cannot be written.
  // `foreign` allows other files in an older checkpoint. Unless it is kRefuse, all goes that lies
  // beside the record of an unfinished one: handlers of the program's own may have written it.
  PendingUpload(const std::string& url, IfExists if_exists, const StoreOptions& options,
                ForeignFiles foreign = ForeignFiles::kRefuse);
  // Gives up removing after ten seconds. After a save that was pushed aside, leaves the record.
  ~PendingUpload() override;

  // Returns the URL without a final '/'. Throws as the constructor does for an invalid URL.
  static std::string url_for(const std::string& url);

  [[nodiscard]] OutputFolder folder() const override { return {store_, url_}; }
  [[nodiscard]] std::string target() const override { return url_; }
  [[nodiscard]] bool is_in_place() const override { return true; }
  void leave_if_not_committed() override {
    leave_ = is_shared_ = true;
    store_->share();
  }
  void remove_if_not_committed() override { leave_ = false; }
  [[nodiscard]] bool is_taken() override;
  void write_record(std::string_view name, std::string_view text) override;
  // Throws unavailable if another save has written to the place meanwhile.
  void commit(const std::function<void()>& write_metadata, SyncedFiles* synced) override;

 private:
  void clear_target(IfExists if_exists, ForeignFiles foreign);
  // Makes this save the only one that may commit.
  void claim(const FolderHandle& old);
  void remove_others() const;
  void remove_own();
  [[nodiscard]] bool has_own_records() const;

  std::string url_;
  StorePtr base_;
  std::shared_ptr<CreateOnlyStore> store_;
  std::map<std::string, std::string, std::less<>> records_;  // name -> what was written last
  bool committed_ = false;
  bool leave_ = false;
  bool is_shared_ = false;        // other processes have written, too
  std::optional<bool> is_taken_;  // nullopt: not asked yet
  bool was_unfinished_ = false;   // a save that may still live was pushed aside
};

}  // namespace cairn::inline v0::orbax
