// Sets of addresses: those of this machine, and addresses that embed others.

import Bytes
import Testing

struct AddressSetTests {
  // MARK: Networks' own NAT64 (RFC 8215), in each form of RFC 6052, 2.2

  /// 10.1.2.3 at each place.
  static let forms = [
    "64:ff9b:1:a01:2:300::", "64:ff9b:1:a:1:203::", "64:ff9b:1:0:a:102:300::", "64:ff9b:1::10.1.2.3",
    "64:ff9b:1:a0b:c:d0e:10.1.2.3",
    // What a translator does not read makes no difference.
    "64:ff9b:1:a01:ff02:3ff:ffff:ffff", "64:ff9b:1:ffff:ff0a:102:3ff:ffff",
  ]

  @Test(arguments: forms) func aDeniedAddressIsFoundAtEachPlace(text: String) throws {
    let address = try #require(IPAddress(text))
    #expect(Self.set("private").firstBlock(containing: address)?.description == "10.0.0.0/8")
    #expect(Self.set("10.1.2.3").firstBlock(containing: address) != nil)
    #expect(OwnAddresses([try #require(IPAddress("10.1.2.3"))]).contains(address) == true)
    #expect(OwnAddresses([]).contains(address) == false)
  }

  @Test func whatOneFormReadsAsAtThePlaceOfAnotherDeniesNothing() throws {
    let standard = Self.set("link-local", "multicast", "unspecified", "loopback", "private")
    // 8.10.224.9, 198.51.100.7 and 8.8.8.8: octets that are zero, and 224 as the first of four.
    for text in [
      "64:ff9b:1::198.51.100.7", "64:ff9b:1:c633:64:700::", "64:ff9b:1:0:8:808:800::", "64:ff9b:1:8e0:8:900::",
    ] {
      #expect(standard.firstBlock(containing: try #require(IPAddress(text))) == nil, "\(text)")
    }
  }

  @Test func whereNothingElseStandsTheLastPlaceCounts() throws {
    let standard = Self.set("multicast", "unspecified")
    for (text, block) in [("64:ff9b:1::", "0.0.0.0/8"), ("64:ff9b:1::224.0.0.1", "224.0.0.0/4")] {
      #expect(standard.firstBlock(containing: try #require(IPAddress(text)))?.description == block, "\(text)")
    }
  }

  // MARK: This machine's own

  private static let own = OwnAddresses(Set(["192.0.2.7", "2001:db8::7", "127.0.0.1"].compactMap { IPAddress($0) }))

  @Test(arguments: ["self", "loopback"])
  func theMachineIsDeniedByEachOfItsAddresses(word: String) throws {
    let set = Self.set(word)
    for text in ["192.0.2.7", "::ffff:192.0.2.7", "64:ff9b::192.0.2.7", "2002:c000:207::1", "2001:db8::7"] {
      let match = set.match(try #require(IPAddress(text)), isOwn: Self.own.contains)
      #expect(match == .own, "\(text)")
    }
    for text in ["127.9.9.9", "::1", "0.0.0.0", "::"] {
      let match = set.match(try #require(IPAddress(text)), isOwn: Self.own.contains)
      if case .block = match { continue }
      Issue.record("\(text): \(String(describing: match))")
    }
    for text in ["192.0.2.8", "2001:db8::8"] {
      #expect(set.match(try #require(IPAddress(text)), isOwn: Self.own.contains) == nil, "\(text)")
    }
  }

  @Test func whereTheKernelDoesNotSayEveryAddressMayBeOne() throws {
    let address = try #require(IPAddress("192.0.2.7"))
    #expect(Self.set("self").match(address, isOwn: OwnAddresses.unknown.contains) == .possiblyOwn)
    #expect(OwnAddresses.unknown.contains(try #require(IPAddress("127.0.0.1"))) == true)
  }

  @Test func nobodyIsAskedWhereTheSetHasNoneOfThem() throws {
    let set = Self.set("private", "link-local")
    var isAsked = false
    let match = set.match(try #require(IPAddress("192.0.2.7"))) { _ in
      isAsked = true
      return true
    }
    #expect(match == nil && !isAsked)
  }

  private static func set(_ texts: String...) -> AddressSet {
    var set = AddressSet()
    for text in texts where !set.insert(text) { Issue.record("'\(text)' was refused") }
    return set
  }
}
