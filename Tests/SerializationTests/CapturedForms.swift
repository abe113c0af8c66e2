// Multipart bodies that clients sent to a socket, whole and as they came.

import Serialization
import TestSupport

/// A body that a client sent, and what it holds.
struct CapturedForm: Sendable {
  enum Outcome: Sendable {
    case fields(ParameterValue)
    case file(String)
    case fault(String, offset: Int)
  }

  let client: String
  /// Content-Type.
  let type: String
  let body: [UInt8]
  let outcome: Outcome

  static let all: [CapturedForm] = [
    CapturedForm(
      client: "curl 7.88.1 -F name=value -F 'a[b]=1' -F 'a[c][]=x y'",
      type: "multipart/form-data; boundary=------------------------cd66148bb1feabef",
      body: octets(
        "--------------------------cd66148bb1feabef\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\n"
          + "value\r\n--------------------------cd66148bb1feabef\r\n"
          + "Content-Disposition: form-data; name=\"a[b]\"\r\n\r\n1\r\n"
          + "--------------------------cd66148bb1feabef\r\nContent-Disposition: form-data; name=\"a[c][]\"\r\n"
          + "\r\nx y\r\n--------------------------cd66148bb1feabef--\r\n"),
      outcome: .fields(["name": "value", "a": ["b": "1", "c": ["x y"]]])),
    CapturedForm(
      client: "curl -F 'q\"u\\o=tes', a value of two lines, names and values in UTF-8",
      type: "multipart/form-data; boundary=------------------------26799feca1cf1ffa",
      body: octets(
        "--------------------------26799feca1cf1ffa\r\nContent-Disposition: form-data; name=\"q%22u\\o\"\r\n"
          + "\r\ntes\r\n--------------------------26799feca1cf1ffa\r\n"
          + "Content-Disposition: form-data; name=\"multi\"\r\n\r\nline1\r\nline2\r\n"
          + "--------------------------26799feca1cf1ffa\r\n"
          + "Content-Disposition: form-data; name=\"gr\u{c3}\u{bc}\u{c3}\u{9f}e\"\r\n\r\n"
          + "\u{c3}\u{bc}n\u{c3}\u{af}\r\n--------------------------26799feca1cf1ffa--\r\n"),
      outcome: .fields(["q\"u\\o": "tes", "multi": "line1\r\nline2", "grüße": "ünï"])),
    CapturedForm(
      client: "curl --form-escape -F 'q\"u\\o=tes'",
      type: "multipart/form-data; boundary=------------------------6a19909c9e2d49a0",
      body: octets(
        "--------------------------6a19909c9e2d49a0\r\n"
          + "Content-Disposition: form-data; name=\"q\\\"u\\\\o\"\r\n\r\ntes\r\n"
          + "--------------------------6a19909c9e2d49a0--\r\n"),
      outcome: .fields(["q\"u\\o": "tes"])),
    CapturedForm(
      client: "curl -F 'j={\"a\":1};type=application/json' -F 'e=;encoder=8bit'",
      type: "multipart/form-data; boundary=------------------------6010dbc1eefc1054",
      body: octets(
        "--------------------------6010dbc1eefc1054\r\nContent-Disposition: form-data; name=\"j\"\r\n"
          + "Content-Type: application/json\r\n\r\n{\"a\":1}\r\n--------------------------6010dbc1eefc1054\r\n"
          + "Content-Disposition: form-data; name=\"e\"\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\r\n"
          + "--------------------------6010dbc1eefc1054--\r\n"),
      outcome: .fields(["j": "{\"a\":1}", "e": ""])),
    CapturedForm(
      client: "curl -F a=1 -F 'file=@f.txt'",
      type: "multipart/form-data; boundary=------------------------c91a5bf7c22e9b09",
      body: octets(
        "--------------------------c91a5bf7c22e9b09\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n"
          + "1\r\n--------------------------c91a5bf7c22e9b09\r\n"
          + "Content-Disposition: form-data; name=\"file\"; filename=\"f.txt\"\r\nContent-Type: text/plain\r\n"
          + "\r\nhi\n\r\n--------------------------c91a5bf7c22e9b09--\r\n"),
      outcome: .file("file")),
    CapturedForm(
      client: "curl -F 'b=1;type=text/plain;encoder=base64'",
      type: "multipart/form-data; boundary=------------------------c7fd126fd745a552",
      body: octets(
        "--------------------------c7fd126fd745a552\r\nContent-Disposition: form-data; name=\"b\"\r\n"
          + "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nMQ==\r\n"
          + "--------------------------c7fd126fd745a552--\r\n"),
      outcome: .fault("expected the transfer encoding 7bit, 8bit or binary, found 'base64'", offset: 139)),
    CapturedForm(
      client: "Python requests 2.34.2, files without file names, one with a charset",
      type: "multipart/form-data; boundary=6e567c7d0712de525c7e657e75b460d6",
      body: octets(
        "--6e567c7d0712de525c7e657e75b460d6\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n"
          + "--6e567c7d0712de525c7e657e75b460d6\r\nContent-Disposition: form-data; name=\"c[b]\"\r\n\r\nx\r\n"
          + "--6e567c7d0712de525c7e657e75b460d6\r\nContent-Disposition: form-data; name=\"c[d][]\"\r\n\r\ny\r\n"
          + "--6e567c7d0712de525c7e657e75b460d6\r\n"
          + "Content-Disposition: form-data; name=\"gr\u{c3}\u{bc}\u{c3}\u{9f}e %22q%22\"\r\n\r\n\u{c3}\u{bc}\r\n"
          + "--6e567c7d0712de525c7e657e75b460d6\r\nContent-Disposition: form-data; name=\"t\"\r\n"
          + "Content-Type: text/plain; charset=utf-8\r\n\r\nv\r\n--6e567c7d0712de525c7e657e75b460d6--\r\n"),
      outcome: .fields(["a": "1", "c": ["b": "x", "d": ["y"]], "grüße \"q\"": "ü", "t": "v"])),
    CapturedForm(
      client: "Python requests, a name that is a value and a dictionary",
      type: "multipart/form-data; boundary=504ca79868739a5d554eab54f760097d",
      body: octets(
        "--504ca79868739a5d554eab54f760097d\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n"
          + "--504ca79868739a5d554eab54f760097d\r\nContent-Disposition: form-data; name=\"a[b]\"\r\n\r\nx\r\n"
          + "--504ca79868739a5d554eab54f760097d--\r\n"),
      outcome: .fault("expected 'a' to be a plain value as before, found a dictionary", offset: 119)),
    CapturedForm(
      client: "Python requests, a name that ends with a backslash",
      type: "multipart/form-data; boundary=6fdc011f9e26d3f5098acf0feb9c8e92",
      body: octets(
        "--6fdc011f9e26d3f5098acf0feb9c8e92\r\nContent-Disposition: form-data; name=\"q\\\"\r\n\r\n1\r\n"
          + "--6fdc011f9e26d3f5098acf0feb9c8e92--\r\n"),
      outcome: .fault("expected a parameter of Content-Disposition, found the end of the line", offset: 77)),
    CapturedForm(
      client: "Python requests, a line end in a name",
      type: "multipart/form-data; boundary=66c8486b13b8023c7990923cb51c8f07",
      body: octets(
        "--66c8486b13b8023c7990923cb51c8f07\r\nContent-Disposition: form-data; name=\"multi%0D%0Aline\"\r\n"
          + "\r\n1\r\n2\r\n--66c8486b13b8023c7990923cb51c8f07--\r\n"),
      outcome: .fields(["multi\r\nline": "1\r\n2"])),
    CapturedForm(
      client: "Python requests, a field and a file",
      type: "multipart/form-data; boundary=944d4913dcd2d902a0ff7750b4bee8f5",
      body: octets(
        "--944d4913dcd2d902a0ff7750b4bee8f5\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n"
          + "--944d4913dcd2d902a0ff7750b4bee8f5\r\n"
          + "Content-Disposition: form-data; name=\"f\"; filename=\"n.txt\"\r\n\r\nbody\r\n"
          + "--944d4913dcd2d902a0ff7750b4bee8f5--\r\n"),
      outcome: .file("f")),
  ]
}
