# Functions that download and extract Debian packages. Source this file. They need no root and
# install nothing. apt verifies the signatures of its lists and the hashes of the packages.
# A function that fails returns 1, and $apt_output then says why: it is what apt printed.
apt_options=()
apt_output=

# Runs apt in a folder: run_apt SECONDS FOLDER ARGUMENT... (0 seconds: without a limit)
run_apt() {
  apt_output=$(cd "$2" && timeout "$1" apt-get "${apt_options[@]}" "${@:3}" 2>&1) || return 1
}

# From here on apt takes no package as installed, keeps its lists below FOLDER, and leaves those of
# the machine as they are: update_own_lists SECONDS FOLDER [OPTION...]. The options are apt's.
update_own_lists() {
  local folder=$2
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
  : >"$folder/status"
  apt_options=(-o "Dir::State=$folder" -o "Dir::State::lists=$folder/lists"
               -o "Dir::State::status=$folder/status" -o "Dir::Cache=$folder/cache"
               -o Acquire::Languages=none -o APT::Sandbox::User=root -o Debug::NoLocking=true
               "${@:3}")
  run_apt "$1" "$folder" -qq update || return 1
  [ -z "$apt_output" ] || echo "$apt_output" >&2  # warnings
}

# Sets package_names to the packages and those that they depend on, without the installed ones and
# those whose names match UNNEEDED, a regular expression: plan_packages UNNEEDED PACKAGE...
plan_packages() {
  run_apt 0 / install -s --no-install-recommends "${@:2}" || return 1
  mapfile -t package_names < <(awk '/^Inst/ { print $2 }' <<<"$apt_output" | grep -Ev "^($1)\$")
}

# Downloads package_names into a new FOLDER: download_packages SECONDS FOLDER
download_packages() {
  mkdir "$2"
  [ ${#package_names[@]} -eq 0 ] || run_apt "$1" "$2" download -qq "${package_names[@]}"
}

# Extracts the packages of FOLDER into TARGET, and removes FOLDER: extract_packages FOLDER TARGET
extract_packages() {
  local file
  for file in "$1"/*.deb; do
    dpkg -x "$file" "$2" || { apt_output="cannot extract ${file##*/}"; return 1; }
  done
  rm -rf "$1"
}
