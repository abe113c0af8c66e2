// PEM texts (RFC 7468; headers as in RFC 1421). They are read here because OpenSSL's reader ignores whatever it does
// not understand. A block that is cut off, or that begins after a byte order mark, is an error with its line: otherwise
// a pin could be missing without notice until the others fail. Tests: PEMTests.

import Bytes

enum PEM {
  struct Block: Equatable {
    /// `CERTIFICATE`
    let label: String
    /// The header says so: a key in OpenSSL's old format.
    let isEncrypted: Bool
    /// Never empty.
    let der: [UInt8]
  }

  // Without the following blank, so that they are found both before and after blanks are trimmed.
  private static let begin = Array("-----BEGIN".utf8)
  private static let end = Array("-----END".utf8)
  private static let dashes = Array("-----".utf8)
  private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]

  /// Whether a block begins anywhere in `bytes`.
  static func isText(_ bytes: [UInt8]) -> Bool { contains(bytes[...], begin) }

  /// The blocks, in order; none if `isText` is false. Text between them is ignored.
  static func blocks(_ bytes: [UInt8]) -> Result<[Block], CertificateFault> {
    var blocks: [Block] = []
    var open: OpenBlock?
    var number = 0
    var rest = bytes[...]
    if rest.starts(with: byteOrderMark) { rest = rest.dropFirst(byteOrderMark.count) }
    while !rest.isEmpty {
      let length = rest.firstIndex(of: 0x0a).map { $0 - rest.startIndex } ?? rest.count
      let line = trimmed(rest.prefix(length))
      rest = rest.dropFirst(length + 1)
      number += 1
      if let block = open {
        guard !contains(line, begin) else { return .failure(block.isCutOff) }
        if line.starts(with: end) {
          switch block.closed(by: line) {
          case .success(let closed): blocks.append(closed)
          case .failure(let fault): return .failure(fault)
          }
          open = nil
        } else {
          open?.append(line)
        }
      } else if line.starts(with: begin), let label = label(of: line, behind: begin) {
        open = OpenBlock(label: label, line: number)
      } else if contains(line, begin) || contains(line, end) {
        return .failure(CertificateFault("line \(number): expected text or a line like '-----BEGIN CERTIFICATE-----'"))
      }
    }
    if let open { return .failure(open.isCutOff) }
    return .success(blocks)
  }

  /// A block whose END has not been read yet.
  private struct OpenBlock {
    let label: String
    let line: Int
    var isEncrypted = false
    var base64: [UInt8] = []

    init(label: String, line: Int) {
      self.label = label
      self.line = line
    }

    var isCutOff: CertificateFault {
      CertificateFault("line \(line): the \(label) that begins here is cut off: it has no END line")
    }

    mutating func append(_ text: ArraySlice<UInt8>) {
      // A colon is not a base64 digit: the line is a header.
      guard text.contains(0x3a) else { return base64.append(contentsOf: text) }
      if PEM.contains(text, Array("ENCRYPTED".utf8)) { isEncrypted = true }
    }

    func closed(by text: ArraySlice<UInt8>) -> Result<Block, CertificateFault> {
      guard PEM.label(of: text, behind: PEM.end) == label else { return .failure(isCutOff) }
      guard let der = Base64.decode(base64), !der.isEmpty else {
        return .failure(CertificateFault("line \(line): the \(label) that begins here is no base64"))
      }
      return .success(Block(label: label, isEncrypted: isEncrypted, der: der))
    }
  }

  /// The text between `-----BEGIN ` and the dashes at the end of the line.
  private static func label(of line: ArraySlice<UInt8>, behind opening: [UInt8]) -> String? {
    let text = line.dropFirst(opening.count)
    guard text.count > dashes.count + 1, text.first == 0x20, text.suffix(dashes.count).elementsEqual(dashes) else {
      return nil
    }
    return printable(text.dropFirst().dropLast(dashes.count))
  }

  private static func trimmed(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 || byte == 0x0d }
    var line = line.drop(while: isBlank)
    while let last = line.last, isBlank(last) { line.removeLast() }
    return line
  }

  private static func contains(_ bytes: ArraySlice<UInt8>, _ wanted: [UInt8]) -> Bool {
    var rest = bytes
    while let first = rest.firstIndex(of: wanted[0]) {
      rest = rest[first...]
      if rest.starts(with: wanted) { return true }
      rest = rest.dropFirst()
    }
    return false
  }
}
