// Encodes an exchange that has ended for the thread that writes the history (HistoryWriter), in the order of
// `HistoryWord.written`. It allocates nothing. Tests: HistoryEncodingTests.

import Bytes
import History
import Policy
import Session
import Transport

extension HistoryBatch {
  /// `text` contains method and target at the record's ranges; `line`, what the log has besides the record.
  mutating func append(
    _ record: borrowing ExchangeRecord, _ line: borrowing AccessLine, text: Span<UInt8>
  ) {
    let target = text.extracting(record.text.target)
    let origin = Self.originEnd(target)
    begin(
      HistoryNumbers(
        // By the clock at its beginning, so that the history and the log agree.
        endedWall: record.times.begunWall + line.totalMicroseconds / 1000, reference: record.reference.value,
        status: UInt16(clamping: record.answer.status),
        bytesIn: record.traffic.bytesIn, bytesOut: record.traffic.bytesOut,
        totalMicroseconds: line.totalMicroseconds),
      path: target.extracting(origin..<target.count))
    word(IPAddress(line.client))
    word(record.sender.client.flatMap { $0.isUserInDoubt && $0.userID == LocalClient.noUser ? nil : $0.userID })
    word(record.sender.client?.user)
    if let client = record.sender.client { word(client.owners, between: 0x2c) } else { word(nil as StaticString?) }
    word(record.sender.client?.outcome.rawValue)
    word(record.sender.client?.cgroupPath)
    word(record.sender.client?.unit)
    word(record.sender.program)
    word(record.sender.proxyUser)
    word(text.extracting(record.text.method))
    word(target.extracting(0..<origin))
    word(record.ruled.link == .unknown ? nil : record.ruled.link.rawValue)
    word(record.sender.wire.rawValue)
    word(line.rule)
    word(line.place)
    word(record.ruled.decision?.verdict.rawValue)
    word(record.ruled.decision?.reason.rawValue)
    word(record.outcome.word)
    word(record.answer.violation?.token)
    word(record.found.report?.token)
    word(record.way.route)
    word(record.way.upstream)
    word(record.way.assurance?.rawValue)
    word(record.answer.cache?.rawValue)
  }

  /// Where the path begins in `https://a.example/path`; the end of `a.example:443`, and of anything without a path.
  private static func originEnd(_ target: Span<UInt8>) -> Int {
    var slashes = 0
    for index in 0..<target.count where target[index] == 0x2f {
      slashes += 1
      if slashes == 3 { return index }
    }
    return target.count
  }
}
