// Extensions of test certificates, octet by octet: what OpenSSL's configuration language does not let anybody write.

import COpenSSL

public enum TestDER {
  /// Tag, length, contents.
  public static func element(_ tag: UInt8, _ contents: [UInt8]) -> [UInt8] {
    let count = contents.count
    if count < 0x80 { return [tag, UInt8(count)] + contents }
    return [tag, 0x82, UInt8(count >> 8), UInt8(count & 0xff)] + contents
  }

  public static func sequence(_ parts: [[UInt8]]) -> [UInt8] { element(0x30, parts.flatMap { $0 }) }

  /// A general name: dNSName, rfc822Name, uniformResourceIdentifier.
  public static func domain(_ text: String) -> [UInt8] { element(0x82, Array(text.utf8)) }
  public static func mail(_ text: String) -> [UInt8] { element(0x81, Array(text.utf8)) }
  public static func resource(_ text: String) -> [UInt8] { element(0x86, Array(text.utf8)) }
  public static func address(_ bytes: [UInt8]) -> [UInt8] { element(0x87, bytes) }
  public static func registered(_ identifier: String) -> [UInt8] {
    [0x88] + objectIdentifier(identifier).dropFirst()
  }
  /// An otherName whose value is NULL.
  public static func other(_ identifier: String) -> [UInt8] {
    element(0xa0, objectIdentifier(identifier) + element(0xa0, [0x05, 0x00]))
  }
  /// A directoryName of one common name.
  public static func directory(commonName: String) -> [UInt8] {
    let pair = sequence([objectIdentifier("2.5.4.3"), element(0x0c, Array(commonName.utf8))])
    return element(0xa4, sequence([element(0x31, pair)]))
  }

  /// NameConstraints of these bases; nil: the list is absent.
  public static func constraints(permitted: [[UInt8]]? = nil, excluded: [[UInt8]]? = nil) -> [UInt8] {
    func list(_ tag: UInt8, _ bases: [[UInt8]]?) -> [UInt8] {
      bases.map { element(tag, $0.flatMap { sequence([$0]) }) } ?? []
    }
    return sequence([list(0xa0, permitted), list(0xa1, excluded)])
  }

  public static func objectIdentifier(_ text: String) -> [UInt8] {
    guard let object = OBJ_txt2obj(text, 1) else { fatalError("no object identifier: \(text)") }
    defer { ASN1_OBJECT_free(object) }
    return written { i2d_ASN1_OBJECT(object, $0) }
  }
}

/// Object identifiers of extensions.
public enum TestExtension: String, Sendable {
  case subjectKeyIdentifier = "2.5.29.14"
  case keyUsage = "2.5.29.15"
  case names = "2.5.29.17"
  case basicConstraints = "2.5.29.19"
  case nameConstraints = "2.5.29.30"
  case policies = "2.5.29.32"
  case authorityKeyIdentifier = "2.5.29.35"
  case policyConstraints = "2.5.29.36"
  case purposes = "2.5.29.37"
  case inhibitAnyPolicy = "2.5.29.54"
  case authorityInformation = "1.3.6.1.5.5.7.1.1"
  case unknown = "1.3.6.1.4.1.99999.1"

  /// Adds it, beside one that may be there.
  public func add(_ der: [UInt8], critical: Bool = false, to x509: OpaquePointer) {
    guard let object = OBJ_txt2obj(rawValue, 1), let value = ASN1_OCTET_STRING_new() else { fatalError("no memory") }
    defer {
      ASN1_OBJECT_free(object)
      ASN1_OCTET_STRING_free(value)
    }
    ASN1_OCTET_STRING_set(value, der, Int32(der.count))
    let made = X509_EXTENSION_create_by_OBJ(nil, object, critical ? 1 : 0, value)
    X509_add_ext(x509, made, -1)
    X509_EXTENSION_free(made)
  }

  /// The DER in it.
  public func value(in x509: OpaquePointer) -> [UInt8] {
    guard let object = OBJ_txt2obj(rawValue, 1) else { fatalError("no memory") }
    defer { ASN1_OBJECT_free(object) }
    guard let data = X509_EXTENSION_get_data(X509_get_ext(x509, X509_get_ext_by_OBJ(x509, object, -1))) else {
      return []
    }
    return Array(UnsafeBufferPointer(start: ASN1_STRING_get0_data(data), count: Int(ASN1_STRING_length(data))))
  }

  public func remove(from x509: OpaquePointer) {
    guard let object = OBJ_txt2obj(rawValue, 1) else { fatalError("no memory") }
    defer { ASN1_OBJECT_free(object) }
    let index = X509_get_ext_by_OBJ(x509, object, -1)
    if index >= 0 { X509_EXTENSION_free(X509_delete_ext(x509, index)) }
  }

  /// Puts it in the place of one that may be there.
  public func set(_ der: [UInt8], critical: Bool = false, in x509: OpaquePointer) {
    remove(from: x509)
    add(der, critical: critical, to: x509)
  }

  /// Changes the mark alone.
  public func mark(critical: Bool, in x509: OpaquePointer) {
    guard let object = OBJ_txt2obj(rawValue, 1) else { fatalError("no memory") }
    defer { ASN1_OBJECT_free(object) }
    X509_EXTENSION_set_critical(X509_get_ext(x509, X509_get_ext_by_OBJ(x509, object, -1)), critical ? 1 : 0)
  }
}
