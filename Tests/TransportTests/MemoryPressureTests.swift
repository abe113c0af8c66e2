// Whether memory is short, by what the service manager says and by the kernel.

import Glibc
import TestSupport
import Testing

@testable import Transport

@Suite struct MemoryPressureTests {
  @Test func whatIsSaidByAFIFOIsHeard() throws {
    var template = Array("/tmp/sallyport-pressure-XXXXXX".utf8CString)
    let directory = String(cString: try #require(mkdtemp(&template)))
    let path = "\(directory)/watch"
    defer { remove(path); rmdir(directory) }
    #expect(mkfifo(path, 0o600) == 0)
    let pressure = try #require(MemoryPressure(watch: path, group: nil))
    #expect(!pressure.wait(milliseconds: 0))
    let writer = open(path, O_WRONLY | O_NONBLOCK)
    #expect(write(writer, "x", 1) == 1)
    #expect(pressure.wait())
    #expect(!pressure.wait(milliseconds: 0), "it was said once")
    close(writer)
    #expect(!pressure.wait(milliseconds: 0), "its writer has left")
  }

  @Test func nobodyTells() {
    #expect(MemoryPressure(watch: "/dev/null", group: nil) == nil)
    #expect(MemoryPressure(watch: "/nowhere", group: nil) == nil)
    #expect(MemoryPressure(watch: nil, group: nil, machine: "/nowhere") == nil)
    // A file of a disk takes the trigger and tells of nothing; one that cannot be written to is none.
    #expect(MemoryPressure(watch: nil, group: "/nowhere", machine: "/proc/self/status") == nil)
  }

  @Test func theKernelTakesTheTrigger() throws {
    guard access("/proc/pressure/memory", W_OK) == 0 else { return }
    let pressure = try #require(MemoryPressure(watch: nil, group: nil))
    #expect(!pressure.wait(milliseconds: 0))
  }
}
