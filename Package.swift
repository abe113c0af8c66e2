// swift-tools-version: 6.2
// The modules and what each is for: CONTRIBUTING.md. Imports point downwards only.
import PackageDescription

let package = Package(
  name: "sallyport",
  products: [.executable(name: "sallyport", targets: ["sallyport"])],
  targets: [
    .executableTarget(
      name: "sallyport",
      dependencies: [
        "Console", "Server", "History", "Policy", "Security", "Reachability", "Transport", "Bytes", "HTTP1", "CLinux",
        "CNcurses",
      ],
      swiftSettings: strict + memorySafe),
    .target(name: "Console", dependencies: ["Policy", "Bytes"], swiftSettings: strict + memorySafe),
    .target(
      name: "Server",
      dependencies: [
        "Session", "Cache", "Asking", "History", "TLSWire", "Upstream", "Sharing", "Transport", "Security",
        "Reachability",
        "HTTP1", "HTTP2", "Policy",
        "Bytes", "Dashboard", "CLinux",
      ],
      swiftSettings: strict),
    .target(
      name: "Session",
      dependencies: ["HTTP1", "TLSWire", "Policy", "Serialization", "Security", "Reachability", "Bytes"],
      swiftSettings: strict + memorySafe),
    .target(name: "Images", dependencies: ["Bytes", "CZlib"], swiftSettings: strict + memorySafe),
    .target(name: "TLSWire", dependencies: ["Bytes"], swiftSettings: strict + memorySafe),
    .target(name: "HTTP1", dependencies: ["Bytes"], swiftSettings: strict + memorySafe),
    // A call that changes a value there is given nothing that leads back to it: checks at run time would look for what cannot be.
    .target(
      name: "HTTP2", dependencies: ["HTTP1", "Bytes", "CNGHTTP2"],
      swiftSettings: strict + memorySafe + [.unsafeFlags(["-enforce-exclusivity=unchecked"])]),
    .target(name: "Upstream", dependencies: ["Sharing"], swiftSettings: strict + memorySafe),
    .target(name: "Cache", dependencies: ["Policy", "HTTP1", "Sharing", "Bytes"], swiftSettings: strict + memorySafe),
    .target(
      name: "History", dependencies: ["Policy", "Reachability", "Bytes"], swiftSettings: strict + memorySafe),
    .target(name: "Asking", dependencies: ["Policy", "Sharing", "Bytes"], swiftSettings: strict + memorySafe),
    .target(name: "Sharing", dependencies: ["Bytes"], swiftSettings: strict + memorySafe),
    .target(
      name: "Policy", dependencies: ["HTTP1", "Security", "Serialization", "Reachability", "Bytes", "CTOML", "CIDN2"],
      swiftSettings: strict + memorySafe),
    .target(name: "Reachability", dependencies: ["Bytes"], swiftSettings: strict + memorySafe),
    .target(
      name: "Serialization", dependencies: ["Images", "Bytes", "CJSON", "CXML", "CZlib", "CCodings", "CIconv"],
      swiftSettings: strict + memorySafe),
    .target(
      name: "Transport", dependencies: ["Bytes", "Sharing", "CLinux", "CCAres", "COpenSSL", "CSystemd", "CSQLite"],
      swiftSettings: strict),
    .target(name: "Security", dependencies: ["Bytes", "COpenSSL", "CGSSAPI"], swiftSettings: strict),
    .target(name: "Bytes", swiftSettings: strict + memorySafe),
    .target(name: "Dashboard", resources: [.embedInCode("page")], swiftSettings: strict + memorySafe),
    .target(name: "CLinux"),
    .target(
      name: "CTOML",
      cxxSettings: [.unsafeFlags(["-fno-exceptions", "-fno-rtti"])]),
    .target(
      name: "CJSON",
      cxxSettings: [.unsafeFlags(["-fno-exceptions", "-fno-rtti"])], linkerSettings: [.linkedLibrary("simdjson")]),
    .target(
      name: "CCodings",
      linkerSettings: [
        .linkedLibrary("z"), .linkedLibrary("brotlidec"), .linkedLibrary("brotlienc"), .linkedLibrary("zstd"),
      ]),
    .target(name: "CGSSAPI"),
    .target(name: "CNcurses", linkerSettings: [.linkedLibrary("ncursesw"), .linkedLibrary("tinfo")]),
    .target(name: "CNGHTTP2", linkerSettings: [.linkedLibrary("nghttp2")]),
    .target(
      name: "COpenSSL", linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
    .systemLibrary(name: "CCAres", pkgConfig: "libcares"),
    .systemLibrary(name: "CSystemd", pkgConfig: "libsystemd"),
    .systemLibrary(name: "CIDN2", pkgConfig: "libidn2"),
    .systemLibrary(name: "CIconv"),
    .systemLibrary(name: "CXML", pkgConfig: "expat"),
    .systemLibrary(name: "CZlib", pkgConfig: "zlib"),
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3"),
    .testTarget(name: "UpstreamTests", dependencies: ["Upstream", "Sharing"], swiftSettings: strict),
    .testTarget(name: "SharingTests", dependencies: ["Sharing", "Bytes"], swiftSettings: strict),
    .testTarget(
      name: "PolicyTests",
      dependencies: ["Policy", "Serialization", "Security", "Reachability", "Bytes", "TestSupport"],
      swiftSettings: strict),
    .testTarget(
      name: "SecurityTests", dependencies: ["Security", "COpenSSL", "Bytes", "TestSupport"], swiftSettings: strict),
    .target(
      name: "TestSupport", dependencies: ["Bytes", "COpenSSL"], path: "Tests/TestSupport", swiftSettings: strict),
    .testTarget(
      name: "ReachabilityTests", dependencies: ["Reachability", "Bytes", "TestSupport"], swiftSettings: strict),
    .testTarget(name: "BytesTests", dependencies: ["Bytes", "Policy", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "HTTP2Tests", dependencies: ["HTTP2", "HTTP1", "Bytes", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "HistoryTests", dependencies: ["History", "Policy", "Bytes", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "AskingTests", dependencies: ["Asking", "Policy", "Sharing", "Bytes"], swiftSettings: strict),
    .testTarget(
      name: "CacheTests", dependencies: ["Cache", "Policy", "HTTP1", "Sharing", "Bytes"], swiftSettings: strict),
    .testTarget(name: "HTTP1Tests", dependencies: ["HTTP1", "Bytes", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "ImagesTests", dependencies: ["Images", "Bytes", "TestSupport", "CZlib"], swiftSettings: strict),
    .testTarget(
      name: "SerializationTests", dependencies: ["Serialization", "CJSON", "CCodings", "Bytes", "TestSupport"],
      swiftSettings: strict),
    .testTarget(
      name: "SessionTests",
      dependencies: ["TLSWire", "Session", "HTTP1", "Policy", "Serialization", "Security", "Bytes", "TestSupport"],
      swiftSettings: strict),
    .testTarget(
      name: "TransportTests", dependencies: ["Transport", "COpenSSL", "Bytes", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "ServerTests",
      dependencies: [
        "Server", "Session", "Cache", "History", "HTTP1", "Policy", "Security", "Reachability", "Transport", "Bytes",
      ],
      swiftSettings: strict),
    .testTarget(name: "ConsoleTests", dependencies: ["Console", "Session"], swiftSettings: strict),
    .testTarget(name: "StyleTests", dependencies: ["Transport"], swiftSettings: strict),
  ],
  cxxLanguageStandard: .cxx17
)

// `make fuzz`: every module instrumented for libFuzzer and AddressSanitizer, and the fuzzers in place of the program.
if isFuzzing {
  package.products = []
  package.targets.removeAll { $0.name == "sallyport" || $0.isTest }
  let fuzzers = [
    "Heads", "ChunkedBodies", "HTTP2", "Session", "Configuration", "PinFiles", "ClientHello", "ServerFlight",
    "ParentHandshake",
    "JSON", "JSONNulls",
    "Queries", "Transcoding", "Codings", "Images", "PropertyLists", "XML",
    "RouteMessages", "SocketDiagnosis",
  ]
  for name in fuzzers {
    package.targets.append(
      .executableTarget(
        name: "Fuzz\(name)",
        dependencies: [
          "Session", "HTTP1", "HTTP2", "TLSWire", "Images", "Policy", "Serialization", "Security", "Reachability",
          "Bytes",
        ],
        path: "Tests/Fuzz/\(name)",
        swiftSettings: strict + [.enableExperimentalFeature("Extern"), .unsafeFlags(["-parse-as-library"])],
        linkerSettings: [.unsafeFlags(["-sanitize=fuzzer,address", "-use-ld=lld"])]))
  }
}

var isFuzzing: Bool { Context.environment["SALLYPORT_FUZZ"] != nil }

/// Every warning is an error, in the Swift 6 language mode that the tools version selects.
var strict: [SwiftSetting] {
  [
    .treatAllWarnings(as: .error),
    .enableExperimentalFeature("Lifetimes"),
  ] + (isFuzzing ? [.unsafeFlags(["-sanitize=fuzzer,address"])] : [])
}

/// Protocol code holds no unsafe construct: the compiler refuses one.
var memorySafe: [SwiftSetting] { [.strictMemorySafety()] }
