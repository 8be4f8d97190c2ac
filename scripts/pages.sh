#!/bin/sh
# Writes the man pages and the completions of a cairn: pages.sh CAIRN FOLDER [EMULATOR...]. EMULATOR
# is the command line that runs a cairn of another processor.
set -eu
cairn=$1
folder=$2
shift 2
to_man=$(dirname "$0")/man.awk
rm -rf "$folder"
mkdir -p "$folder/man" "$folder/bash" "$folder/zsh" "$folder/fish"

commands=$("$@" "$cairn" --help | awk '/^[A-Z].*:$/ { inside = $0 == "Commands:" } inside && /^  [a-z]/ { print $1 }')
[ -n "$commands" ] || { echo "pages.sh: $cairn --help names no commands" >&2; exit 1; }
# The release and no date: a page is the same whenever it is built.
release=$("$@" "$cairn" --version | head -n 1)

page() {  # NAME, of the help in $folder/help
  awk -v name="$1" -v release="$release" -f "$to_man" "$folder/help" >"$folder/man/$1.1"
}
"$@" "$cairn" --help >"$folder/help"
page cairn
for command in $commands; do
  "$@" "$cairn" "$command" --help >"$folder/help"
  page "cairn-$command"
done
rm "$folder/help"

"$@" "$cairn" completion bash >"$folder/bash/cairn"
"$@" "$cairn" completion zsh >"$folder/zsh/_cairn"
"$@" "$cairn" completion fish >"$folder/fish/cairn.fish"
