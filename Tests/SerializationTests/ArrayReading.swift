// The readers of this module over arrays, for the macros of swift-testing take no spans.

import Bytes

@testable import Serialization

extension MediaType {
  init?(_ value: [UInt8]) { self.init(value.span) }

  func equals(_ type: StaticString, _ subtype: StaticString, in value: [UInt8]) -> Bool {
    equals(type, subtype, in: value.span)
  }
}

extension MediaRange {
  func matches(_ type: MediaType, in value: [UInt8]) -> Bool { matches(type, in: value.span) }
}

extension MultipartBoundary {
  init?(_ type: MediaType, in value: [UInt8]) { self.init(type, in: value.span) }
}

extension FormDecoding {
  static func decode(_ body: [UInt8]) -> Result<[ParameterEntry], ContentFault> { decode(body.span) }

  static func decode(_ body: [UInt8], into tree: inout BracketTree) -> ContentFault? {
    decode(body.span, into: &tree)
  }
}
