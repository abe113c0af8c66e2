// swift-tools-version: 6.2
// The modules and what each is for: README.md, "The house". Imports point downwards only.
import PackageDescription

let package = Package(
  name: "sallyport",
  products: [.executable(name: "sallyport", targets: ["sallyport"])],
  targets: [
    .executableTarget(
      name: "sallyport", dependencies: ["Server", "Policy", "Transport", "Bytes", "HTTP1", "CLinux"],
      swiftSettings: strict),
    .target(
      name: "Server",
      dependencies: ["Session", "Transport", "HTTP1", "Policy", "Bytes", "CLinux"],
      swiftSettings: strict),
    .target(
      name: "Session", dependencies: ["HTTP1", "Policy", "Bytes"], swiftSettings: strict + memorySafe),
    .target(name: "HTTP1", dependencies: ["Bytes"], swiftSettings: strict + memorySafe),
    .target(
      name: "Policy", dependencies: ["Bytes", "CTOML", "CIDN2"], swiftSettings: strict),
    .target(
      name: "Transport", dependencies: ["Bytes", "CLinux", "CCAres"], swiftSettings: strict),
    .target(name: "Bytes", swiftSettings: strict),
    .target(name: "CLinux"),
    .target(
      name: "CTOML",
      cxxSettings: [.unsafeFlags(["-fno-exceptions", "-fno-rtti"])]),
    .systemLibrary(name: "CCAres", pkgConfig: "libcares"),
    .systemLibrary(name: "CIDN2", pkgConfig: "libidn2"),
  ],
  cxxLanguageStandard: .cxx17
)

/// Every warning is an error, in the Swift 6 language mode that the tools version selects.
var strict: [SwiftSetting] {
  [
    .treatAllWarnings(as: .error),
    .enableExperimentalFeature("Lifetimes"),
  ]
}

/// Protocol code holds no unsafe construct: the compiler refuses one.
var memorySafe: [SwiftSetting] { [.strictMemorySafety()] }
