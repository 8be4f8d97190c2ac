// gcs_upload.h -- writes an object from front to back.
#pragma once

#include <cairn/kvstore/object/gcs/gcs_client.h>
#include <cairn/kvstore/upload_memory.h>
#include <cairn/storage/kvstore.h>

#include <memory>
#include <string>

namespace cairn::inline v0::object {

// An object of up to one piece is stored with one request, a larger one in pieces. One piece is sent
// while the next one fills, so an appender holds two. The protocol takes the pieces of an object one
// after another. So a save that fills the link writes several objects at once.
//
// `where` names the object in messages; `piece` is a multiple of 256 KiB.
std::unique_ptr<Appender> make_gcs_appender(std::shared_ptr<const GcsClient> client,
                                            std::string name, std::string where,
                                            std::size_t piece = kUploadPart);

}  // namespace cairn::inline v0::object
