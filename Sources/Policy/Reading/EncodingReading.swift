// `encoding` of a request table: the encoding in which parameters are written and forms are read.
// Tests: SerializerReadingTests.

import Serialization

/// `encoding` of one table.
struct EncodingDraft {
  /// nil is UTF-8.
  let encoding: TextEncoding?
}

extension EncodingDraft {
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> EncodingDraft? {
    guard let name = reading.string(setting) else { return nil }
    if TextEncoding.isUTF8(name) { return EncodingDraft(encoding: nil) }
    switch TextEncoding.find(name) {
    case .success(let encoding): return EncodingDraft(encoding: encoding)
    case .failure(.malformed):
      reading.error(setting, "expected the name of an encoding, such as \"gb18030\", found \(name.quoted)")
    case .failure(.unknown):
      reading.error(
        setting,
        "expected an encoding that iconv(3) knows, found \(name.quoted); 'iconv -l' lists those of this machine")
    case .failure(.notASCII):
      reading.error(
        setting,
        "expected an encoding in which letters, digits and the separators of a form are those of ASCII, found \(name.quoted)"
      )
    }
    return nil
  }
}

extension ParameterValue {
  /// Whether the encoding has each character of the texts in it, including names.
  func fits(_ encoding: TextEncoding) -> Bool {
    switch self {
    case .string(let text): encoding.canEncode(text)
    case .integer, .real, .boolean: true
    case .array(let elements): elements.allSatisfy { $0.fits(encoding) }
    case .dictionary(let entries): entries.allSatisfy { encoding.canEncode($0.key) && $0.value.fits(encoding) }
    }
  }
}
