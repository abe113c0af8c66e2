// `parameters` of a rule as a tree. All serializers encode it, and forms in bracket syntax are read into it.

/// A value of `parameters`.
public indirect enum ParameterValue: Sendable, Equatable {
  /// UTF-8.
  case string([UInt8])
  case integer(Int64)
  /// Finite: the configuration reader rejects other values.
  case real(Double)
  case boolean(Bool)
  case array([ParameterValue])
  /// No key occurs twice.
  case dictionary([ParameterEntry])
}

/// A key of a dictionary with its value.
public struct ParameterEntry: Sendable, Equatable {
  /// UTF-8.
  public let key: [UInt8]
  public let value: ParameterValue

  public init(key: [UInt8], value: ParameterValue) {
    self.key = key
    self.value = value
  }
}
