#!/usr/bin/env bash
# Gets Ceph's S3 server for the tests: fetch-radosgw.sh FOLDER. Downloads the Debian packages that
# this machine lacks and extracts them into FOLDER, once. Needs no root and installs nothing. If it
# cannot, it prints one line that says why and exits with 1.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/debian-packages.sh"
folder=$1
[ -f "$folder/complete" ] && exit 0

# Not needed by a monitor, a store in memory and a gateway.
unneeded='cryptsetup-bin|gdisk|hdparm|logrotate|uuid-runtime|nvme-cli|libnvme1|dmidecode'
unneeded+='|parted|libparted2|smartmontools|xfsprogs|lvm2|liblvm2cmd.*|libdevmapper-event.*'
unneeded+='|dmeventd|sudo'

fail() {
  echo "radosgw: $1"
  exit 1
}
error_of_apt() { grep -m 1 '^E:' <<<"$apt_output"; }
command -v apt-get >/dev/null || fail "this system has no apt"
rm -rf "$folder" && mkdir -p "$folder/root"
plan_packages "$unneeded" radosgw ceph-mon ceph-osd ceph-common ||
  fail "apt does not find Ceph's packages: $(error_of_apt)"
download_packages 120 "$folder/packages" ||
  fail "cannot download Ceph's packages: $(error_of_apt || echo "apt took over 120 seconds")"
extract_packages "$folder/packages" "$folder/root" || fail "$apt_output"
touch "$folder/complete"
