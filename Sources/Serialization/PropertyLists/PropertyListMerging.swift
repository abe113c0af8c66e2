// Adds parameters to a property list whose root is a dictionary.
//
// An XML list keeps its text, in any encoding: only replaced values and the place before the end of the dictionary
// change. A binary list is written again by BinaryPropertyListMerging. Tests: PropertyListMergingTests, fuzzed as
// PropertyLists.

import Bytes

/// The result of a merge.
public enum PropertyListMergeOutcome: Equatable, Sendable {
  case merged
  /// The root is something else, to which no member can be added.
  case notADictionary(PropertyListKind)
  case invalid(ContentFault)
}

public enum PropertyListMerging {
  /// Appends `body` with `parameters` as members of its root dictionary. The value of an existing key is replaced in
  /// place; new members come last. All other values stay the same: in XML to the letter, in its encoding; in a binary
  /// list to the byte. Nothing is appended unless the result is `merged`.
  ///
  /// - Parameters:
  ///   - parameters: no key twice, and nothing that `PropertyListWriting.fault(in:)` reports.
  ///   - charset: as for `PropertyListCheck`.
  public static func merge(
    _ parameters: [ParameterEntry], into body: Span<UInt8>, charset: [UInt8]?, to out: inout ByteBuffer
  ) -> PropertyListMergeOutcome {
    if BinaryPropertyListLayout.isAnnounced(by: body) {
      return BinaryPropertyListMerging.merge(parameters, into: body, to: &out)
    }
    let list = PropertyListXMLReader.read(body, charset: charset, keeping: .membersOfRoot)
    if let fault = list.fault { return .invalid(fault) }
    guard let root = list.root else { return .invalid(ContentFault("expected a value, found none", offset: 0)) }
    guard root.kind == .dictionary else { return .notADictionary(root.kind) }
    splice(parameters, body, members: list.members, root: root, insertion: Insertion(encoding: list.encoding), to: &out)
    return .merged
  }

  private static func splice(
    _ parameters: [ParameterEntry], _ body: Span<UInt8>, members: [PropertyListXMLReader.Member],
    root: PropertyListXMLReader.Root, insertion: consuming Insertion, to out: inout ByteBuffer
  ) {
    var added = parameters
    var copied = 0
    for member in members {
      guard let index = added.firstIndex(where: { $0.key == member.key }) else { continue }
      out.append(body.extracting(copied..<member.value.lowerBound))
      insertion.write(to: &out) { PropertyListWriting.writeValue(added[index].value, tabs: 1, in: $0, to: &$1) }
      copied = member.value.upperBound
      added.remove(at: index)
    }
    let isEmptyTag = root.endTag.isEmpty
    out.append(body.extracting(copied..<(isEmptyTag ? root.startTag : root.endTag).lowerBound))
    insertion.write(to: &out) { text, out in
      if isEmptyTag { out.append("<dict>\n") }
      for entry in added { PropertyListWriting.writeMember(entry, tabs: 1, in: text, to: &out) }
      if isEmptyTag { out.append("</dict>") }
    }
    out.append(body.extracting(root.endTag.lowerBound..<body.count))
  }
}

/// Inserts ASCII into a document of any encoding, or UTF-8 if the document is UTF-8.
private struct Insertion: ~Copyable {
  private enum Unit {
    case oneByte
    case twoBytes(bigEndian: Bool)
  }

  private let text: PropertyListWriting.Text
  private let unit: Unit
  private var scratch = ByteBuffer()

  init(encoding: XMLEncoding) {
    text = encoding == .utf8 ? .utf8 : .references
    switch encoding {
    case .utf16, .utf16BigEndian: unit = .twoBytes(bigEndian: true)
    case .utf16LittleEndian: unit = .twoBytes(bigEndian: false)
    case .utf8, .latin1, .ascii, .table: unit = .oneByte
    }
  }

  mutating func write(to out: inout ByteBuffer, _ body: (PropertyListWriting.Text, inout ByteBuffer) -> Void) {
    guard case .twoBytes(let bigEndian) = unit else { return body(text, &out) }
    body(text, &scratch)
    for index in 0..<scratch.count {
      let byte = scratch.bytes[index]
      out.append(bigEndian ? 0 : byte)
      out.append(bigEndian ? byte : 0)
    }
    scratch.removeAll()
  }
}
