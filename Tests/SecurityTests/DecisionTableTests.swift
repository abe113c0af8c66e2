// The decision table: every mode, with and without allow_invalid_certificates and validates_domain_name, every kind of pin
// set, every kind of chain. What is expected is worked out by `Rule`, which says the order of evaluation of sallyport.toml(5)
// a second time over what is true of each chain, and knows nothing of certificates.

import Security
import Testing
import TestSupport

/// A pin set by the parts whose certificates it holds.
struct PinCase: Sendable, CustomStringConvertible {
  let description: String
  let pinned: Set<Role>
  var expires: Int64? = nil
  var failsOnExpiry = true
  var enforce = true

  static let all: [PinCase] = [
    PinCase(description: "leaf", pinned: [.leaf]),
    PinCase(description: "intermediate", pinned: [.intermediate]),
    PinCase(description: "root", pinned: [.root]),
    PinCase(description: "other", pinned: [.other]),
    PinCase(description: "several", pinned: [.other, .intermediate]),
    PinCase(description: "several, leaf and root", pinned: [.other, .leaf, .root]),
    PinCase(description: "empty", pinned: []),
    PinCase(description: "empty, report only", pinned: [], enforce: false),
    PinCase(description: "leaf, expires later", pinned: [.leaf], expires: now + 1),
    PinCase(description: "leaf, expired", pinned: [.leaf], expires: now),
    PinCase(description: "leaf, expired, on_expiry report", pinned: [.leaf], expires: now - day, failsOnExpiry: false),
    PinCase(
      description: "other, expired, on_expiry report", pinned: [.other], expires: now - day, failsOnExpiry: false),
    PinCase(
      description: "other, not expired, on_expiry report", pinned: [.other], expires: now + day, failsOnExpiry: false),
    PinCase(description: "leaf, report only", pinned: [.leaf], enforce: false),
    PinCase(description: "other, report only", pinned: [.other], enforce: false),
    PinCase(description: "leaf, expired, report only", pinned: [.leaf], expires: now - day, enforce: false),
  ]
}

/// One cell of the table.
struct Cell {
  let chain: ChainCase
  let allowsInvalid: Bool
  let validatesName: Bool
  /// nil: no set.
  let pins: PinCase?
  let mode: SSLPinningMode
}

/// What a cell comes to.
enum Verdict: Equatable {
  case trusted
  /// Trusted, and a set that may not refuse would have, for this.
  case reported(TrustFailure.Kind)
  case refused(TrustFailure.Kind)
}

/// The order of evaluation, by the words of sallyport.toml(5).
enum Rule {
  static func verdict(_ cell: Cell) -> Verdict {
    let isPinning = cell.pins != nil && cell.mode != .none
    // "allow_invalid_certificates with validates_domain_name and no pinning (no set, or mode none) is an error"
    if cell.allowsInvalid && cell.validatesName && !isPinning { return .refused(.untrusted) }
    // "The chain is verified … allow_invalid_certificates waives this step …"
    if !cell.allowsInvalid, case .wrong(let kind) = cell.chain.path { return .refused(kind) }
    // "… but for the name where validates_domain_name asks for it"
    if cell.validatesName && !cell.chain.isForHost { return .refused(.nameMismatch) }
    guard isPinning, let pins = cell.pins, let kind = missing(cell, pins) else { return .trusted }
    // "A report-only set (enforce = false) forgives a pin that is missing"; "on_expiry = report": an expired set as well.
    let isExpired = pins.expires.map { $0 <= now } ?? false
    return !pins.enforce || (isExpired && !pins.failsOnExpiry) ? .reported(kind) : .refused(kind)
  }

  /// What is missing of the pins.
  private static func missing(_ cell: Cell, _ pins: PinCase) -> TrustFailure.Kind? {
    if let expires = pins.expires, expires <= now, pins.failsOnExpiry { return .pinsExpired }
    if cell.mode == .publicKey {
      // "a certificate of the verified chain must carry a pinned key; when step 2 was waived, only the leaf's key counts"
      let counted: Set<Role> = cell.allowsInvalid ? [.leaf] : cell.chain.verified
      return counted.isDisjoint(with: pins.pinned) ? .pinMismatch : nil
    }
    // "the pinned certificates become the only anchors, the chain is verified again against them"
    let outcomes = pins.pinned.compactMap { cell.chain.anchoredAt[$0] }
    if outcomes.contains(.sound) { return nil }
    guard case .wrong(let kind) = outcomes.first else { return .pinMismatch }
    return kind
  }
}

@Suite struct DecisionTableTests {
  @Test(arguments: ChainCase.all)
  func everyCellIsDecidedAsTheRuleSays(chain: ChainCase) {
    var cells: [Cell] = []
    for allowsInvalid in [false, true] {
      for validatesName in [false, true] {
        for mode in SSLPinningMode.allCases {
          for pins in [nil] + PinCase.all.map(Optional.some) {
            cells.append(
              Cell(chain: chain, allowsInvalid: allowsInvalid, validatesName: validatesName, pins: pins, mode: mode))
          }
        }
      }
    }
    for cell in cells {
      let (verdict, match) = Self.evaluate(cell)
      #expect(
        verdict == Rule.verdict(cell),
        """
        \(chain), mode \(cell.mode), pins \(cell.pins?.description ?? "no set"), \
        allow_invalid \(cell.allowsInvalid), validates_domain_name \(cell.validatesName)
        """)
      let pinned = (cell.pins?.pinned ?? []).compactMap { chain.roles[$0] }.map(pin)
      if let match { #expect(pinned.contains(match)) }
      #expect((match != nil) == (verdict == .trusted && cell.pins != nil && cell.mode != .none))
    }
  }

  private static func evaluate(_ cell: Cell) -> (Verdict, PublicKeyPin?) {
    let policy = policy { settings in
      settings.allowInvalidCertificates = cell.allowsInvalid
      settings.validatesDomainName = cell.validatesName
      settings.anchors = cell.chain.anchors
      settings.pinSet = cell.pins.map { pins in
        var set = pinSet(cell.mode, pins.pinned.compactMap { cell.chain.roles[$0] })
        set.expires = pins.expires
        set.failsOnExpiry = pins.failsOnExpiry
        set.enforce = pins.enforce
        return set
      }
    }
    switch policy.verdict(shown(cell.chain.presented)) {
    case .failure(let failure): return (.refused(failure.kind), nil)
    case .success(let success):
      return (success.report.map { .reported($0.kind) } ?? .trusted, success.matchedPin)
    }
  }

  /// Cells that matter most, written out.
  private static let cells: [(String, String?, SSLPinningMode, Bool, Bool, Verdict)] = [
    ("good", nil, SSLPinningMode.none, false, true, Verdict.trusted),
    ("good", "leaf", .publicKey, false, true, .trusted),
    ("good", "root", .publicKey, false, true, .trusted),
    ("good", "root", .publicKey, true, true, .refused(.pinMismatch)),
    ("good", "root", .certificate, true, true, .trusted),
    ("good", "other", .publicKey, false, true, .refused(.pinMismatch)),
    ("good", "other, report only", .publicKey, false, true, .reported(.pinMismatch)),
    ("good", "empty", .publicKey, false, true, .refused(.pinMismatch)),
    ("good", "empty", .certificate, false, true, .refused(.pinMismatch)),
    ("good", nil, .none, true, true, .refused(.untrusted)),
    ("good", "leaf, expired", .publicKey, false, true, .refused(.pinsExpired)),
    ("an unrelated certificate appended", "other", .publicKey, false, true, .refused(.pinMismatch)),
    ("an unrelated certificate appended", "other", .publicKey, true, true, .refused(.pinMismatch)),
    ("an unrelated certificate appended", "other", .certificate, false, true, .refused(.pinMismatch)),
    ("an unrelated certificate appended", "other", .certificate, true, true, .refused(.pinMismatch)),
    ("expired", "leaf", .publicKey, true, true, .trusted),
    ("expired", "leaf", .certificate, true, true, .refused(.expired)),
    ("wrong name", "leaf", .publicKey, true, true, .refused(.nameMismatch)),
    ("wrong name", "leaf", .publicKey, true, false, .trusted),
    ("wrong name", nil, .none, false, false, .trusted),
    ("self-signed", nil, .none, false, true, .refused(.untrusted)),
    ("self-signed", nil, .none, true, false, .trusted),
    ("self-signed", "leaf", .certificate, true, true, .trusted),
    ("self-signed", "leaf", .certificate, false, true, .refused(.untrusted)),
    ("self-signed", "leaf, report only", .publicKey, false, true, .refused(.untrusted)),
    ("forged, the intermediate's name without its key", "intermediate", .publicKey, true, true, .refused(.pinMismatch)),
    (
      "forged, the intermediate's name without its key", "intermediate", .certificate, true, true,
      .refused(.pinMismatch)
    ),
  ]

  @Test(arguments: cells)
  func writtenOut(
    chain: String, pins: String?, mode: SSLPinningMode, allowsInvalid: Bool, validatesName: Bool, expected: Verdict
  ) throws {
    let cell = Cell(
      chain: try #require(ChainCase.all.first { $0.description == chain }), allowsInvalid: allowsInvalid,
      validatesName: validatesName,
      pins: try pins.map { name in try #require(PinCase.all.first { $0.description == name }) }, mode: mode)
    #expect(Self.evaluate(cell).0 == expected)
  }
}
