// When the open tunnels are handed over.

import Testing

@testable import Server

@Suite struct TunnelKeepingTests {
  /// What a loop says of itself.
  enum Word: Sendable {
    case tunnels(worker: Int, Int)
    case left(worker: Int)
  }

  struct Row: Sendable, CustomTestStringConvertible {
    let testDescription: String
    let workers: Int
    let places: Int?
    let words: [Word]
    /// How many words it takes; nil: it is never time.
    let time: Int?

    init(_ name: String, workers: Int, places: Int? = nil, _ words: Word..., time: Int?) {
      (testDescription, self.workers, self.places, self.words, self.time) = (name, workers, places, words, time)
    }
  }

  static let rows = [
    Row(
      "it is time when the last loop has nothing but tunnels", workers: 3, .tunnels(worker: 0, 5),
      .tunnels(worker: 2, 0), .tunnels(worker: 0, 4), .tunnels(worker: 1, 1), time: 4),
    Row("a loop that has ended has none", workers: 2, .tunnels(worker: 0, 5), .left(worker: 1), time: 2),
    Row(
      "it is said once", workers: 1, .tunnels(worker: 0, 5), .tunnels(worker: 0, 4), .left(worker: 0), time: 1),
    Row("without tunnels there is nothing to hand over", workers: 2, .left(worker: 0), .left(worker: 1), time: nil),
    Row(
      "what does not fit is waited for", workers: 2, places: 7, .tunnels(worker: 0, 5), .tunnels(worker: 1, 4),
      .tunnels(worker: 1, 3), .tunnels(worker: 0, 4), time: 4),
    Row("a store without places takes none", workers: 1, places: 0, .tunnels(worker: 0, 1), time: nil),
  ]

  @Test(arguments: rows) func itIsTimeWhenItIs(_ row: Row) {
    var keeping = TunnelKeeping(workers: row.workers, places: row.places)
    let answers = row.words.map { word in
      switch word {
      case .tunnels(let worker, let count): keeping.onlyTunnels(worker: worker, count)
      case .left(let worker): keeping.workerLeft(worker)
      }
    }
    let expected = row.words.indices.map { $0 + 1 == row.time }
    #expect(answers == expected)
  }

  @Test func theLastWordsNameWhatWaits() {
    #expect(TunnelKeeping.lastWords(0) == "stopped")
    #expect(TunnelKeeping.lastWords(1) == "stopped; 1 open tunnel waits with systemd")
    #expect(TunnelKeeping.lastWords(2) == "stopped; 2 open tunnels wait with systemd")
  }
}
