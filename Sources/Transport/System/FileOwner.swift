// Whether a file may be the daemon's own. In a directory where others may write, anybody can prepare one: with contents
// that the daemon would believe, or to read later what the daemon writes to it. Tests: ClaimedFileTests, test_ask.py.

import Glibc

enum FileOwner {
  /// Whether the file of `status` belongs to root, to the caller, or to the owner of the directory of `path`, who may
  /// replace it anyway.
  static func isPlausible(_ status: stat, at path: String) -> Bool {
    if status.st_uid == 0 || status.st_uid == geteuid() { return true }
    var directory = stat()
    return stat(GuardedPath.parent(of: path).directory, &directory) == 0 && directory.st_uid == status.st_uid
  }
}
