#!/usr/bin/env bash
# Gets Ceph's S3 server for the tests: fetch-radosgw.sh FOLDER. Downloads the Debian packages that
# this machine lacks and extracts them into FOLDER, once. Needs no root and installs nothing. If it
# cannot, it prints one line that says why and exits with 1.
set -euo pipefail
folder=$1
[ -f "$folder/complete" ] && exit 0

# Not needed by a monitor, a store in memory and a gateway.
unneeded='^(cryptsetup-bin|gdisk|hdparm|logrotate|uuid-runtime|nvme-cli|libnvme1|dmidecode'
unneeded+='|parted|libparted2|smartmontools|xfsprogs|lvm2|liblvm2cmd.*|libdevmapper-event.*'
unneeded+='|dmeventd|sudo)$'

fail() {
  echo "radosgw: $1"
  exit 1
}
command -v apt-get >/dev/null || fail "this system has no apt"
rm -rf "$folder" && mkdir -p "$folder/packages" "$folder/root"
cd "$folder/packages"
plan=$(apt-get install -s --no-install-recommends radosgw ceph-mon ceph-osd ceph-common 2>&1) ||
  fail "apt does not find Ceph's packages: $(grep -m 1 '^E:' <<<"$plan")"
mapfile -t names < <(awk '/^Inst/ {print $2}' <<<"$plan" | grep -Ev "$unneeded")
if [ ${#names[@]} -gt 0 ]; then
  errors=$(timeout 120 apt-get download -qq "${names[@]}" 2>&1) ||
    fail "cannot download Ceph's packages: $(grep -m 1 '^E:' <<<"$errors")"
fi
for file in *.deb; do
  dpkg -x "$file" ../root || fail "cannot extract $file"
done
cd ..
rm -rf packages
touch complete
