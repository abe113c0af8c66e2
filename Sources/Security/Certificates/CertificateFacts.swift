// What the path requirements check in one certificate: its extensions as encoded, and the values of the common ones.
// Read for each path that OpenSSL accepts.

import COpenSSL

/// An extension as encoded.
struct CertificateExtension {
  /// NID_undef if OpenSSL does not know it.
  let kind: Int32
  let isCritical: Bool
  /// Its DER value; valid while the certificate lives.
  let value: UnsafeBufferPointer<UInt8>
  fileprivate let identifier: OpaquePointer?
}

struct CertificateFacts {
  let certificate: OpaquePointer
  let extensions: [CertificateExtension]
  /// basicConstraints; nil if missing or malformed.
  let basicConstraints: BasicConstraints?
  /// Bit 0 of the first octet is the highest; nil as above.
  let keyUsage: [UInt8]?
  /// The names of subjectAltName; nil as above.
  let names: [GeneralName]?
  let nameConstraints: NameConstraints?

  struct BasicConstraints {
    let isAuthority: Bool
    let hasPathLength: Bool
  }

  /// `certificate` must live as long as this value.
  init(_ certificate: OpaquePointer) {
    self.certificate = certificate
    extensions = (0..<max(0, X509_get_ext_count(certificate))).compactMap { index in
      guard let one = X509_get_ext(certificate, index), let data = X509_EXTENSION_get_data(one) else { return nil }
      let identifier = X509_EXTENSION_get_object(one)
      return CertificateExtension(
        kind: OBJ_obj2nid(identifier), isCritical: X509_EXTENSION_get_critical(one) != 0,
        value: UnsafeBufferPointer(start: ASN1_STRING_get0_data(data), count: Int(ASN1_STRING_length(data))),
        identifier: identifier)
    }
    let all = extensions
    func value(_ kind: Int32) -> UnsafeBufferPointer<UInt8>? { all.first { $0.kind == kind }?.value }
    basicConstraints = value(NID_basic_constraints).flatMap(Self.basicConstraints)
    keyUsage = value(NID_key_usage).flatMap { DERReader.element(DERElement.bitString, $0) }
      .map { Array($0.content.dropFirst()) }
    names = value(NID_subject_alt_name).flatMap(DERReader.sequence)?.map(GeneralName.init)
    nameConstraints = value(NID_name_constraints).flatMap(NameConstraints.init)
  }

  /// The extension of this kind; the first if there are several.
  subscript(kind: Int32) -> CertificateExtension? { extensions.first { $0.kind == kind } }

  /// keyCertSign is bit 5.
  var signsCertificates: Bool { (keyUsage?.first ?? 0) & 0x04 != 0 }

  var isAuthority: Bool { basicConstraints?.isAuthority ?? false }

  /// Subject and issuer have the same name. This says nothing about the key.
  var isSelfNamed: Bool {
    X509_NAME_cmp(X509_get_subject_name(certificate), X509_get_issuer_name(certificate)) == 0
  }

  /// The purposes of extKeyUsage (NID_…); nil if there is none.
  var purposes: [Int32]? {
    guard let value = self[NID_ext_key_usage]?.value else { return nil }
    return (DERReader.sequence(value) ?? []).map { Self.identifier(of: $0) }
  }

  /// The name of an extension that occurs twice.
  var duplicate: String? {
    for (index, one) in extensions.enumerated()
    where extensions[..<index].contains(where: { OBJ_cmp($0.identifier, one.identifier) == 0 }) {
      return Self.title(one)
    }
    return nil
  }

  static func title(_ one: CertificateExtension) -> String {
    var text = [CChar](repeating: 0, count: 80)
    OBJ_obj2txt(&text, Int32(text.count), one.identifier, 0)
    let bytes = text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
    return printable(bytes)
  }

  /// NID_undef if OpenSSL does not know it.
  private static func identifier(of element: DERElement) -> Int32 {
    let bytes = DER.element(element.tag, Array(element.content))
    var object: OpaquePointer? = nil
    bytes.withUnsafeBufferPointer { buffer in
      var at = buffer.baseAddress
      object = d2i_ASN1_OBJECT(nil, &at, buffer.count)
    }
    defer { ASN1_OBJECT_free(object) }
    return object.map { OBJ_obj2nid($0) } ?? NID_undef
  }

  private static func basicConstraints(_ value: UnsafeBufferPointer<UInt8>) -> BasicConstraints? {
    guard let elements = DERReader.sequence(value) else { return nil }
    let isAuthority = elements.first.map { $0.tag == DERElement.boolean && $0.content.first != 0 } ?? false
    return BasicConstraints(
      isAuthority: isAuthority, hasPathLength: elements.contains { $0.tag == DERElement.integer })
  }
}
