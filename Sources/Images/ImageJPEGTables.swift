// The JPEG segments that contain more than framing: the frame, its scans, and the tables that scans name.
//
// Strict: a scan names tables that have been defined, although some decoders have default ones for frames of MJPEG; no
// Huffman code of only ones, which libjpeg rejects; the parameters of progressive scans, which libjpeg checks.
//
// Tests: ImageJPEGTests.

import Bytes

/// SOF (B.2.2).
struct JPEGFrame {
  struct Component {
    let identifier: Int
    let blocksPerUnit: Int
    let quantizationTable: Int
  }

  /// The most components: what decoders accept, and what a progressive frame may have (table B.2).
  private static let mostComponents = 4

  let isProgressive: Bool
  let isArithmetic: Bool
  /// 0 until DNL gives it.
  var lines: Int
  let samplesPerLine: Int
  private(set) var components: [Component] = []

  init(_ segment: inout ImageReader, _ code: UInt8) throws(ContentFault) {
    isProgressive = code == 0xc2 || code == 0xca
    isArithmetic = code >= 0xc9
    let precision = try segment.uint8("a sample precision")
    guard precision == 8 || precision == 12 && code != 0xc0 else {
      throw ContentFault("expected a sample precision of 8 or 12 bits, found \(precision)", offset: segment.at - 1)
    }
    lines = try segment.uint16("a number of lines")
    samplesPerLine = try segment.uint16("a number of samples per line")
    // DNL may give the lines later; until then there is at least one.
    try segment.requireDimensions(samplesPerLine, max(lines, 1), at: segment.at - 4)
    let count = try segment.uint8("a number of components")
    guard 1...Self.mostComponents ~= count else {
      throw ContentFault("expected 1 to 4 components, found \(count)", offset: segment.at - 1)
    }
    for _ in 0..<count { components.append(try Self.component(&segment)) }
  }

  private static func component(_ segment: inout ImageReader) throws(ContentFault) -> Component {
    let identifier = try segment.uint8("a component identifier")
    let sampling = try segment.uint8("sampling factors")
    let (horizontal, vertical) = (sampling >> 4, sampling & 15)
    guard 1...4 ~= horizontal, 1...4 ~= vertical else {
      throw ContentFault(
        "expected sampling factors of 1 to 4, found \(horizontal) and \(vertical)", offset: segment.at - 1)
    }
    let table = try segment.uint8("a quantization table")
    guard table <= 3 else {
      throw ContentFault("expected a quantization table 0 to 3, found \(table)", offset: segment.at - 1)
    }
    return Component(identifier: identifier, blocksPerUnit: horizontal * vertical, quantizationTable: table)
  }
}

/// SOS (B.2.3).
struct JPEGScan {
  struct Component {
    let component: JPEGFrame.Component
    let directTable: Int
    let alternatingTable: Int
  }

  /// The most blocks in a unit of several components (B.2.3).
  private static let mostBlocksPerUnit = 10
  /// The greatest shift of a progressive scan: 13 bits (table B.3).
  private static let greatestShift = 13

  private(set) var components: [Component] = []
  let spectralStart: Int
  let isRefinement: Bool

  init(_ segment: inout ImageReader, of frame: JPEGFrame) throws(ContentFault) {
    let start = segment.at
    let count = try segment.uint8("a number of components")
    guard 1...frame.components.count ~= count else {
      throw ContentFault(
        "expected 1 to \(frame.components.count) components in a scan, found \(count)", offset: start)
    }
    for _ in 0..<count { components.append(try Self.component(&segment, of: frame)) }
    let blocks = components.reduce(0) { $0 + $1.component.blocksPerUnit }
    guard count == 1 || blocks <= Self.mostBlocksPerUnit else {
      throw ContentFault("expected at most 10 blocks in a unit of a scan, found \(blocks)", offset: start)
    }
    let selection = segment.at
    spectralStart = try segment.uint8("a spectral selection")
    let spectralEnd = try segment.uint8("a spectral selection")
    let approximation = try segment.uint8("a successive approximation")
    let (high, low) = (approximation >> 4, approximation & 15)
    isRefinement = high > 0
    guard frame.isProgressive else { return }
    // G.1.1.1: DC and AC coefficients are separate, the latter for one component; each refinement adds a bit.
    let isDirect = spectralStart == 0 && spectralEnd == 0
    let isAlternating = spectralStart > 0 && spectralStart <= spectralEnd && spectralEnd <= 63 && count == 1
    guard isDirect || isAlternating, low <= Self.greatestShift, high == 0 || low == high - 1 else {
      throw ContentFault(
        "expected legal parameters of a progressive scan, found \(spectralStart) to \(spectralEnd), \(high), \(low)",
        offset: selection)
    }
  }

  private static func component(
    _ segment: inout ImageReader, of frame: JPEGFrame
  ) throws(ContentFault) -> Component {
    let identifier = try segment.uint8("a component selector")
    guard let component = frame.components.first(where: { $0.identifier == identifier }) else {
      throw ContentFault("expected a component of the frame, found \(identifier)", offset: segment.at - 1)
    }
    let selectors = try segment.uint8("table selectors")
    guard selectors >> 4 <= 3, selectors & 15 <= 3 else {
      throw ContentFault(
        "expected entropy coding tables 0 to 3, found \(selectors >> 4) and \(selectors & 15)", offset: segment.at - 1)
    }
    return Component(component: component, directTable: selectors >> 4, alternatingTable: selectors & 15)
  }
}

/// The tables that have been defined.
struct JPEGTables {
  private static let coefficients = 64
  private static let longestCode = 16

  private var quantization = [false, false, false, false]
  private var direct = [false, false, false, false]
  private var alternating = [false, false, false, false]

  /// DQT (B.2.4.1).
  mutating func readQuantizationTables(_ segment: inout ImageReader) throws(ContentFault) {
    while !segment.isAtEnd {
      let byte = try segment.uint8("a quantization table")
      let (precision, table) = (byte >> 4, byte & 15)
      guard precision <= 1, table <= 3 else {
        throw ContentFault(
          "expected a quantization table 0 to 3 of 8 or 16 bits, found 0x\(String(byte, radix: 16))",
          offset: segment.at - 1)
      }
      try segment.skip(Self.coefficients * (precision + 1), "a quantization table")
      quantization[table] = true
    }
  }

  /// DHT (B.2.4.2).
  mutating func readHuffmanTables(_ segment: inout ImageReader) throws(ContentFault) {
    while !segment.isAtEnd {
      let byte = try segment.uint8("a Huffman table")
      let (isAlternating, table) = (byte >> 4 == 1, byte & 15)
      guard byte >> 4 <= 1, table <= 3 else {
        throw ContentFault(
          "expected a Huffman table 0 to 3 of class 0 or 1, found 0x\(String(byte, radix: 16))",
          offset: segment.at - 1)
      }
      try Self.readHuffmanTable(&segment)
      if isAlternating { alternating[table] = true } else { direct[table] = true }
    }
  }

  /// The number of codes of each length, and their values. Codes are assigned in order (C.2). There must be enough of
  /// them, and the one of only ones is not a code.
  private static func readHuffmanTable(_ segment: inout ImageReader) throws(ContentFault) {
    let start = segment.at
    var values = 0
    var nextCode = 0
    for length in 1...longestCode {
      let codes = try segment.uint8("a number of Huffman codes")
      nextCode = nextCode << 1 + codes
      values += codes
      guard codes == 0 || nextCode < 1 << length else {
        throw ContentFault("expected fewer Huffman codes of \(length) bits, found \(codes)", offset: segment.at - 1)
      }
    }
    guard 1...256 ~= values else {
      throw ContentFault("expected 1 to 256 Huffman codes, found \(values)", offset: start)
    }
    try segment.skip(values, "Huffman values")
  }

  func requireTables(of scan: JPEGScan, in frame: JPEGFrame, at offset: Int) throws(ContentFault) {
    for selected in scan.components {
      guard quantization[selected.component.quantizationTable] else {
        throw Self.missing("quantization", selected.component.quantizationTable, at: offset)
      }
      if frame.isArithmetic { continue }
      let needsDirect = scan.spectralStart == 0 && !scan.isRefinement
      if needsDirect || !frame.isProgressive, !direct[selected.directTable] {
        throw Self.missing("DC Huffman", selected.directTable, at: offset)
      }
      let needsAlternating = scan.spectralStart > 0 || !frame.isProgressive
      if needsAlternating, !alternating[selected.alternatingTable] {
        throw Self.missing("AC Huffman", selected.alternatingTable, at: offset)
      }
    }
  }

  private static func missing(_ kind: StaticString, _ table: Int, at offset: Int) -> ContentFault {
    ContentFault("expected the \(kind) table \(table) before the scan, found none", offset: offset)
  }
}
