// file_system.cc -- names file systems by the magic numbers that statfs reports.
#include <cairn/kvstore/file_system.h>

#include <linux/magic.h>
#include <sys/vfs.h>

#include <cstdint>

namespace cairn::inline v0 {
namespace {

struct Known {
  std::uint32_t magic;
  const char* name;
  bool is_remote = false;
};

// FUSE counts as remote: the common uses for checkpoints are mounts of object stores and of other
// machines.
constexpr Known kKnown[] = {{EXT4_SUPER_MAGIC, "ext4"},
                            {XFS_SUPER_MAGIC, "xfs"},
                            {BTRFS_SUPER_MAGIC, "btrfs"},
                            {TMPFS_MAGIC, "tmpfs"},
                            {OVERLAYFS_SUPER_MAGIC, "overlay"},
                            {F2FS_SUPER_MAGIC, "f2fs"},
                            {0x2fc12fc1U, "zfs"},
                            {NFS_SUPER_MAGIC, "nfs", true},
                            {FUSE_SUPER_MAGIC, "fuse", true},
                            {V9FS_MAGIC, "9p", true},
                            {AFS_SUPER_MAGIC, "afs", true},
                            {CEPH_SUPER_MAGIC, "ceph", true},
                            {SMB_SUPER_MAGIC, "smb", true},
                            {0xfe534d42U, "smb2", true},
                            {0xff534d42U, "cifs", true},
                            {0x0bd00bd0U, "lustre", true},
                            {0x47504653U, "gpfs", true},
                            {0x19830326U, "beegfs", true}};

}  // namespace

FileSystem file_system_of(const std::string& folder) {
  struct statfs about {};
  if (statfs(folder.c_str(), &about) != 0) return {.name = "an unknown file system"};
  const auto magic = static_cast<std::uint32_t>(about.f_type);
  for (const Known& known : kKnown)
    if (known.magic == magic) return {.name = known.name, .is_remote = known.is_remote};
  return {.name = "file system " + std::to_string(magic)};
}

}  // namespace cairn::inline v0
