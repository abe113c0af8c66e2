// `query_style` of a request table, and its inheritance by rules: key by key. Tests: SerializerReadingTests.

import Serialization

/// `query_style` of one table; nil for keys that it does not set.
struct QueryStyleDraft {
  var arrays: QueryStyle.Arrays? = nil
  var booleans: QueryStyle.Booleans? = nil
  var space: QueryStyle.Space? = nil

  /// The effective style of a table with these keys that inherits the rest.
  func inheriting(_ inherited: QueryStyleDraft) -> QueryStyleDraft {
    QueryStyleDraft(
      arrays: arrays ?? inherited.arrays, booleans: booleans ?? inherited.booleans, space: space ?? inherited.space)
  }

  var style: QueryStyle {
    QueryStyle(arrays: arrays ?? .brackets, booleans: booleans ?? .digits, space: space ?? .percent)
  }
}

extension QueryStyleDraft {
  static func read(_ setting: Setting, by reading: ConfigurationReading) -> QueryStyleDraft? {
    guard let table = reading.table(setting) else { return nil }
    var draft = QueryStyleDraft()
    for entry in table.settings {
      switch entry.key {
      case "arrays": draft.arrays = reading.choice(entry, QueryStyle.Arrays.self)
      case "booleans": draft.booleans = reading.choice(entry, QueryStyle.Booleans.self)
      case "space": draft.space = reading.choice(entry, QueryStyle.Space.self)
      default: reading.unread(entry, of: .queryStyle)
      }
    }
    return draft
  }
}
