// Writes the text format of Prometheus: families, samples, labels. It writes bytes directly, because a page has some
// two hundred lines and may be asked for a thousand times a second. Tests: AdminResourcesTests.

import Bytes

struct MetricsText: ~Copyable {
  /// The size of the page for a small policy, in bytes: one block from the start.
  private static let usualBytes = 16 << 10

  private(set) var bytes = ByteBuffer()
  private var name: StaticString = ""

  init() { bytes.reserve(Self.usualBytes) }

  /// Begins a family: its samples follow.
  mutating func begin(_ name: StaticString, _ type: StaticString, help: StaticString) {
    self.name = name
    bytes.append("# HELP ")
    bytes.append(name)
    bytes.append(" ")
    bytes.append(help)
    bytes.append("\n# TYPE ")
    bytes.append(name)
    bytes.append(" ")
    bytes.append(type)
    bytes.append("\n")
  }

  mutating func sample(_ value: UInt64) {
    bytes.append(name)
    end(value)
  }

  mutating func sample(_ value: UInt64, _ labels: KeyValuePairs<StaticString, String>) {
    bytes.append(name)
    var mark: StaticString = "{"
    for (label, text) in labels {
      bytes.append(mark)
      bytes.append(label)
      bytes.append("=\"")
      append(escaped: text)
      bytes.append("\"")
      mark = ","
    }
    bytes.append("}")
    end(value)
  }

  mutating func histogram(_ name: StaticString, _ help: StaticString, histogram: Histogram) {
    begin(name, "histogram", help: help)
    var sum: UInt64 = 0
    for index in histogram.bounds.microseconds.indices {
      sum += histogram.counts[index]
      bytes.append(name)
      bytes.append("_bucket{le=\"")
      append(seconds: UInt64(histogram.bounds.microseconds[index]))
      bytes.append("\"}")
      end(sum)
    }
    bytes.append(name)
    bytes.append("_bucket{le=\"+Inf\"}")
    end(histogram.count)
    bytes.append(name)
    bytes.append("_sum ")
    append(seconds: histogram.sumMicroseconds)
    bytes.append("\n")
    bytes.append(name)
    bytes.append("_count")
    end(histogram.count)
  }

  private mutating func end(_ value: UInt64) {
    bytes.append(" ")
    bytes.append(decimal: value)
    bytes.append("\n")
  }

  /// `1.512`, without zeros after the last digit.
  private mutating func append(seconds microseconds: UInt64) {
    bytes.append(decimal: microseconds / 1_000_000)
    var rest = microseconds % 1_000_000
    if rest == 0 { return }
    var width = 6
    while rest % 10 == 0 {
      rest /= 10
      width -= 1
    }
    bytes.append(".")
    bytes.append(decimal: rest, width: width)
  }

  private mutating func append(escaped text: String) {
    if text.utf8.allSatisfy({ $0 != 0x5c && $0 != 0x22 && $0 != 0x0a }) { return bytes.append(text) }
    for byte in text.utf8 {
      switch byte {
      case 0x5c: bytes.append("\\\\")
      case 0x22: bytes.append("\\\"")
      case 0x0a: bytes.append("\\n")
      default: bytes.append(byte)
      }
    }
  }
}
