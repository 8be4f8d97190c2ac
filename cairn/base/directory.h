// directory.h -- whole folders: removed, made durable, put into place in one step. Errors name the path and the system's
// reason, as those of files do.
#pragma once

#include <string>
#include <vector>

namespace cairn {

// The path from the root, without "." and "..", and without a '/' at its end (but for the root itself).
std::string absolute_path(const std::string& path);

// Removes the folder (or file) with everything below it; links are removed, not followed. Fine if nothing is there.
void remove_tree(const std::string& path);

// Makes every file and folder below `path`, and itself, survive a loss of power. Files that are on disk already cost
// nothing.
void sync_tree(const std::string& path);
// The same for some files and folders, all of which lie below `path`.
void sync_some(const std::string& path, std::vector<std::string> files, const std::vector<std::string>& folders);

// Gives the folder its final name, in one step; durable once the folder that it is in is synced. already_exists if something has that
// name: of two who try, one wins.
void rename_tree(const std::string& from, const std::string& to);

// Lets two folders of one parent swap names in one step; durable once the parent is synced. False: the file system cannot, and nothing has
// changed.
bool swap_trees(const std::string& a, const std::string& b);

}  // namespace cairn
