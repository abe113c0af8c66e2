// What is said of a refused message: each fault has a word and a sentence of its own.

import Testing

@testable import HTTP1

@Suite struct MessageFaultTests {
  @Test func everyFaultHasAWordAndASentenceOfItsOwn() {
    let words = MessageFault.allCases.map(\.rawValue)
    let sentences = MessageFault.allCases.map(\.sentence)
    #expect(Set(words).count == words.count)
    #expect(Set(sentences).count == sentences.count)
    for word in words {
      #expect(
        word.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || $0 == 45 || $0 == 46 })
    }
    for sentence in sentences {
      // They go on "The request …", and stand in a quoted string of Proxy-Status.
      #expect(sentence.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7f && $0 != 0x22 }, "\(sentence)")
      #expect(!sentence.hasSuffix("."), "\(sentence)")
      #expect(sentence.utf8.first.map { (97...122).contains($0) } == true, "\(sentence)")
    }
  }

  @Test func onlyTheLimitsOfAHeadAreAnswered431() {
    #expect(MessageFault.allCases.filter(\.isHeadLimit) == [.headTooLarge, .tooManyFields])
  }
}
