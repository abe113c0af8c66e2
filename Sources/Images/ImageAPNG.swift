// The chunks that make a PNG an animation (third edition): acTL, fcTL, fdAT.
//
// Strict: everything. A frame outside its canvas is written out of bounds, a decoder waits for a missing number or
// frame, and no encoder in use deviates. The first fcTL may come before acTL, and an fdAT may be empty.
//
// Tests: ImagePNGTests.

import Bytes

/// The animation of a PNG, if it has one, as its chunks are read.
struct PNGAnimation {
  /// The frame of the last fcTL.
  private enum Frame {
    /// There was none.
    case none
    case withoutData
    /// Its data is in IDAT.
    case inImageData
    /// Its data is in fdAT, and more may come.
    case inFrameData
  }

  private static let greatestDisposal = 2
  private static let greatestBlend = 1

  private let canvas: PNGHeader
  private var isBehindImageData = false
  private var frame = Frame.none
  private var framesSeen = 0
  private var nextSequenceNumber = 0
  /// From acTL; nil if that has not come yet.
  private var frameCount: Int?

  init(canvas: PNGHeader) { self.canvas = canvas }

  mutating func readAnimationControl(_ data: inout ImageReader) throws(ContentFault) {
    guard frameCount == nil, !isBehindImageData else {
      throw data.fault("expected one acTL before IDAT, found another")
    }
    let count = try data.uint32("a number of frames")
    guard count > 0 else { throw ContentFault("expected at least one frame, found 0", offset: data.at - 4) }
    frameCount = count
    try data.skip(4, "a number of plays")
    try data.requireEnd(of: "acTL")
  }

  mutating func readFrameControl(_ data: inout ImageReader) throws(ContentFault) {
    try readSequenceNumber(&data)
    guard frame != .withoutData else { throw data.fault("expected the data of a frame, found another fcTL") }
    frame = .withoutData
    framesSeen += 1
    try checkBounds(&data)
    try data.skip(4, "a frame delay")
    let disposal = try data.uint8("a disposal operation")
    let blend = try data.uint8("a blend operation")
    guard disposal <= Self.greatestDisposal, blend <= Self.greatestBlend else {
      throw ContentFault(
        "expected known disposal and blend operations, found \(disposal) and \(blend)", offset: data.at - 2)
    }
    try data.requireEnd(of: "fcTL")
  }

  /// A frame is within the canvas. If its data is in IDAT, it fills the canvas.
  private func checkBounds(_ data: inout ImageReader) throws(ContentFault) {
    let start = data.at
    let width = try data.uint32("a frame width")
    let height = try data.uint32("a frame height")
    try data.requireDimensions(width, height, at: start)
    let left = try data.uint32("a frame position")
    let top = try data.uint32("a frame position")
    let isCanvas = width == canvas.width && height == canvas.height
    guard left + width <= canvas.width, top + height <= canvas.height, isCanvas || isBehindImageData else {
      let (expected, found) = ("\(canvas.width) x \(canvas.height)", "\(width) x \(height) at (\(left), \(top))")
      throw ContentFault("expected a frame within the canvas of \(expected), found \(found)", offset: start)
    }
  }

  mutating func imageDataBegan() {
    isBehindImageData = true
    if frame == .withoutData { frame = .inImageData }
  }

  mutating func readFrameData(_ data: inout ImageReader) throws(ContentFault) {
    try readSequenceNumber(&data)
    guard isBehindImageData, frame == .withoutData || frame == .inFrameData else {
      throw data.fault("expected fdAT behind IDAT and fcTL, found it elsewhere")
    }
    if !data.isAtEnd { frame = .inFrameData }
  }

  /// Requires every frame that acTL announces; IEND is at `offset`.
  func requireWhole(at offset: Int) throws(ContentFault) {
    guard frame != .withoutData else {
      throw ContentFault("expected the data of the last frame, found IEND", offset: offset)
    }
    guard framesSeen == frameCount ?? framesSeen else {
      throw ContentFault("expected \(frameCount ?? 0) frames as acTL says, found \(framesSeen)", offset: offset)
    }
  }

  private mutating func readSequenceNumber(_ data: inout ImageReader) throws(ContentFault) {
    let number = try data.uint32("a sequence number")
    guard number == nextSequenceNumber else {
      throw ContentFault("expected the sequence number \(nextSequenceNumber), found \(number)", offset: data.at - 4)
    }
    nextSequenceNumber += 1
  }
}
