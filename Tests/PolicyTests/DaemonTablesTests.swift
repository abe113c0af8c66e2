// [proxy] and its tables, [dns] and [log]: what each key takes, and what is said of anything else.

import Testing

@testable import Policy

@Suite struct DaemonTablesTests {
  @Test func everyKeyIsTaken() throws {
    let policy = try loaded(
      """
      [proxy]
      listen = ["127.0.0.1:0", "[::1]:3128", "0.0.0.0:8080"]
      workers = 3
      name = "edge-1"
      default = "deny"
      allow_remote = true
      credentials = "a:b\\nc:d:e\\r\\n\\n"
      deny_addresses = ["loopback", "192.0.2.0/24", "2001:db8::1"]
      [proxy.limits]
      connections = 20
      header_bytes = "1MiB"
      headers = 10_000
      idle_per_host = 0
      share = 0.5
      buffered_body = "2MiB"
      held_bodies = "2MiB"
      json_depth = 10_000
      image_pixels = 1
      connections_per_host = 1_000_000
      [proxy.timeouts]
      client_header = "1ms"
      client_idle = "2s"
      connect = "3m"
      tls_handshake = "20s"
      response_header = "4h"
      body_stall = "5d"
      upstream_idle = "6s"
      tunnel_idle = "7s"
      drain = "365d"
      [dns]
      servers = ["9.9.9.9", "9.9.9.9:5353", "2620:fe::fe", "[2620:fe::fe]:5353"]
      timeout = "250ms"
      cache = "0s"
      [log]
      format = "journal"
      level = "debug"
      access = false
      """)
    let configuration = policy.configuration
    #expect(configuration.proxy.listen.map(\.description) == ["127.0.0.1:0", "[::1]:3128", "0.0.0.0:8080"])
    #expect(configuration.proxy.workers == 3)
    #expect(configuration.proxy.name == "edge-1")
    #expect(configuration.proxy.defaultAction == .deny)
    #expect(configuration.proxy.allowRemote)
    #expect(
      configuration.proxy.credentials.map { String(decoding: $0.userAndPassword, as: UTF8.self) } == [
        "a:b", "c:d:e",
      ])
    #expect(
      configuration.proxy.denyAddresses.blocks.map(\.description) == [
        "127.0.0.0/8", "::1/128", "0.0.0.0/32", "::/128", "192.0.2.0/24", "2001:db8::1/128",
      ])
    #expect(configuration.limits.connections == 20)
    #expect(configuration.limits.headerBytes == 1 << 20)
    #expect(configuration.limits.headers == 10_000)
    #expect(configuration.limits.idlePerHost == 0)
    #expect(configuration.limits.share == 0.5)
    #expect(configuration.limits.bufferedBodyBytes == 2 << 20)
    #expect(configuration.limits.heldBodiesBytes == 2 << 20)
    #expect(configuration.limits.jsonDepth == 10_000)
    #expect(configuration.limits.imagePixels == 1)
    #expect(configuration.limits.connectionsPerHost == 1_000_000)
    let timeouts = configuration.timeouts
    #expect(timeouts.clientHeaderMilliseconds == 1)
    #expect(timeouts.clientIdleMilliseconds == 2_000)
    #expect(timeouts.connectMilliseconds == 180_000)
    #expect(timeouts.tlsHandshakeMilliseconds == 20_000)
    #expect(timeouts.responseHeaderMilliseconds == 14_400_000)
    #expect(timeouts.bodyStallMilliseconds == 432_000_000)
    #expect(timeouts.upstreamIdleMilliseconds == 6_000)
    #expect(timeouts.tunnelIdleMilliseconds == 7_000)
    #expect(timeouts.drainMilliseconds == 31_536_000_000)
    #expect(
      configuration.dns.servers.map(\.description) == [
        "9.9.9.9:53", "9.9.9.9:5353", "[2620:fe::fe]:53", "[2620:fe::fe]:5353",
      ])
    #expect(configuration.dns.timeoutMilliseconds == 250)
    #expect(configuration.dns.cacheMilliseconds == 0)
    #expect(configuration.log.format == .journal)
    #expect(configuration.log.level == .debug)
    #expect(!configuration.log.access)
  }

  @Test func anEmptyFileIsTheDefaults() throws {
    #expect(try loaded("").configuration == Configuration())
    #expect(
      try loaded("[proxy]\nworkers = \"auto\"\n[proxy.limits]\n[dns]\nservers = []").configuration
        == Configuration())
    let builtIn = PolicyLoader.load(path: nil, files: DictionaryFiles())
    #expect(builtIn.policy?.configuration == Configuration())
    #expect(builtIn.diagnostics.isEmpty && builtIn.files.isEmpty)
  }

  static let listen: [LoadRow] = [
    LoadRow(
      "a name is not looked up", "[proxy]\nlisten = [\"localhost:3128\"]",
      "2:11: error: 'listen' in [proxy]: expected an address, such as \"127.0.0.1:3128\" or \"[::1]:3128\", "
        + "found the name 'localhost'; a name is not looked up here"),
    LoadRow(
      "an address without a port", "[proxy]\nlisten = [\"127.0.0.1\", \"::1\", \"[::1]\"]",
      "2:11: error: 'listen' in [proxy]: '127.0.0.1' has no port; write \"127.0.0.1:3128\"",
      "2:24: error: 'listen' in [proxy]: '::1' has no port; write \"[::1]:3128\"",
      "2:31: error: 'listen' in [proxy]: '[::1]' has no port; write \"[::1]:3128\""),
    LoadRow(
      "a port without an address", "[proxy]\nlisten = [\":3128\"]",
      "2:11: error: 'listen' in [proxy]: ':3128' has no address; write \"127.0.0.1:3128\", which only this machine reaches"
    ),
    LoadRow(
      "a port beyond the last, or in another form",
      "[proxy]\nlisten = [\"127.0.0.1:65536\", \"127.0.0.1:080\", \"127.0.0.1:\"]",
      "2:11: error: 'listen' in [proxy]: expected a port from 0 to 65535, found '65536'",
      "2:30: error: 'listen' in [proxy]: expected a port from 0 to 65535, found '080'",
      "2:47: error: 'listen' in [proxy]: expected a port from 0 to 65535, found ''"),
    LoadRow(
      "no address at all", "[proxy]\nlisten = [\"\", \"[::1\", \"[::1]x\", \"1.2.3\"]",
      "2:11: error: 'listen' in [proxy]: expected an address, such as \"127.0.0.1:3128\" or \"[::1]:3128\", found ''",
      "2:15: error: 'listen' in [proxy]: expected an address, such as \"127.0.0.1:3128\" or \"[::1]:3128\", found '[::1'",
      "2:23: error: 'listen' in [proxy]: expected an address, such as \"127.0.0.1:3128\" or \"[::1]:3128\", found '[::1]x'",
      "2:33: error: 'listen' in [proxy]: expected an address, such as \"127.0.0.1:3128\" or \"[::1]:3128\", found '1.2.3'"
    ),
    LoadRow(
      "an empty list", "[proxy]\nlisten = []",
      "2:10: error: 'listen' in [proxy]: expected at least one address, such as \"127.0.0.1:3128\""),
    LoadRow(
      "the same address twice; but port 0 is another each time",
      "[proxy]\nlisten = [\"[::1]:1\", \"[0:0::1]:1\", \"127.0.0.1:0\", \"127.0.0.1:0\"]",
      "2:22: error: 'listen' in [proxy]: [::1]:1 stands in the list twice"),
    LoadRow(
      "a string where a list is expected", "[proxy]\nlisten = \"127.0.0.1:3128\"",
      "2:10: error: 'listen' in [proxy]: expected an array of strings, found a string"),
    LoadRow(
      "other machines need two words", "[proxy]\nlisten = [\"0.0.0.0:3128\"]",
      "2:11: error: 'listen' in [proxy]: 0.0.0.0:3128 takes connections from other machines; "
        + "that needs 'allow_remote = true' and 'credentials' in [proxy]"),
    LoadRow(
      "other machines without credentials", "[proxy]\nlisten = [\"[::]:3128\"]\nallow_remote = true",
      "2:11: error: 'listen' in [proxy]: [::]:3128 takes connections from other machines; "
        + "that needs 'credentials' in [proxy]"),
    LoadRow(
      "other machines without allow_remote",
      "[proxy]\nlisten = [\"192.0.2.1:3128\"]\ncredentials = { env = \"USERS\" }",
      "2:11: error: 'listen' in [proxy]: 192.0.2.1:3128 takes connections from other machines; "
        + "that needs 'allow_remote = true' in [proxy]"),
    LoadRow(
      "an address of [admin] that clients use", "[admin]\nmetrics = \"[::1]:3128\"",
      "2:11: warning: 'metrics' in [admin]: [::1]:3128 is where clients are served, unless 'listen' in [proxy] or systemd "
        + "says otherwise"),
    LoadRow(
      "an address of [admin] among all that clients use",
      "[admin]\nweb = \"127.0.0.1:9\"\n[proxy]\nlisten = [\"0.0.0.0:9\"]\nallow_remote = true\n"
        + "credentials = { env = \"USERS\" }",
      "2:7: error: 'web' in [admin]: 127.0.0.1:9 is taken: 'listen' in [proxy] has 0.0.0.0:9"),
    LoadRow(
      "two addresses of [admin]", "[admin]\nweb = \"127.0.0.1:9\"\nmetrics = \"127.0.0.1:9\"",
      "3:11: error: 'metrics' in [admin]: 127.0.0.1:9 is taken: 'web' in [admin] has 127.0.0.1:9"),
    LoadRow(
      "other addresses and ports",
      "[admin]\nweb = \"127.0.0.1:9\"\nmetrics = \"127.0.0.2:9\"\n"
        + "[proxy]\nlisten = [\"[::1]:9\", \"127.0.0.1:10\"]"),
    LoadRow(
      "every loopback address is this machine",
      "[proxy]\nlisten = [\"127.9.9.9:1\", \"[::ffff:127.0.0.1]:1\"]"),
  ]

  @Test(arguments: listen) func listenRows(row: LoadRow) {
    var files = DictionaryFiles()
    files.variables["USERS"] = "a:b"
    row.check(files)
  }

  static let proxy: [LoadRow] = [
    LoadRow(
      "workers out of range", "[proxy]\nworkers = 0",
      "2:11: error: 'workers' in [proxy]: expected an integer from 1 to 1024, found 0"),
    LoadRow(
      "workers as another word", "[proxy]\nworkers = \"many\"",
      "2:11: error: 'workers' in [proxy]: expected \"auto\" or an integer from 1 to 1024, found 'many'"),
    LoadRow(
      "workers as a list", "[proxy]\nworkers = [1]",
      "2:11: error: 'workers' in [proxy]: expected \"auto\" or an integer from 1 to 1024, found an array"),
    LoadRow(
      "a name that is no token", "[proxy]\nname = \"my proxy\"",
      "2:8: error: 'name' in [proxy]: expected a token (RFC 9110, 5.6.2) of 1 to 64 letters, digits and "
        + "!#$%&'*+-.^_`|~, found 'my proxy'"),
    LoadRow(
      "an empty name", "[proxy]\nname = \"\"",
      "2:8: error: 'name' in [proxy]: expected a token (RFC 9110, 5.6.2) of 1 to 64 letters, digits and "
        + "!#$%&'*+-.^_`|~, found ''"),
    LoadRow(
      "a word near one of the choices", "[proxy]\ndefault = \"denny\"",
      "2:11: error: 'default' in [proxy]: expected \"allow\" or \"deny\", found 'denny'; did you mean 'deny'?"
    ),
    LoadRow(
      "a number for a choice", "[proxy]\ndefault = 1",
      "2:11: error: 'default' in [proxy]: expected a string, found an integer"),
    LoadRow(
      "a string for a boolean", "[proxy]\nallow_remote = \"true\"",
      "2:16: error: 'allow_remote' in [proxy]: expected true or false, found a string"),
    LoadRow(
      "a class that is near a known one", "[proxy]\ndeny_addresses = [\"link_local\"]",
      "2:19: error: 'deny_addresses' in [proxy]: expected \"link-local\", \"multicast\", \"unspecified\", \"loopback\", "
        + "\"private\", \"cgnat\" or \"self\", an address or a CIDR block, found 'link_local'; did you mean 'link-local'?"
    ),
    LoadRow(
      "a block with host bits", "[proxy]\ndeny_addresses = [\"10.1.2.3/8\", \"fe80::1/10\"]",
      "2:19: error: 'deny_addresses' in [proxy]: '10.1.2.3/8' has bits behind the first 8; did you mean '10.0.0.0/8'?",
      "2:33: error: 'deny_addresses' in [proxy]: 'fe80::1/10' has bits behind the first 10; did you mean 'fe80::/10'?"
    ),
    LoadRow(
      "a prefix that is too long", "[proxy]\ndeny_addresses = [\"10.0.0.0/33\"]",
      "2:19: error: 'deny_addresses' in [proxy]: expected a prefix length from 0 to 32 behind '/', found '33'"
    ),
    LoadRow(
      "an address twice", "[proxy]\ndeny_addresses = [\"private\", \"private\"]",
      "2:30: warning: 'deny_addresses' in [proxy]: 'private' stands in the list twice"),
    LoadRow("an empty list denies no address", "[proxy]\ndeny_addresses = []"),
    LoadRow(
      "an unknown key", "[proxy]\nworker = 1\nxyzzy = 2",
      "2:1: error: unknown key 'worker' in [proxy]; did you mean 'workers'?",
      "3:1: error: unknown key 'xyzzy' in [proxy]"),
    LoadRow(
      "a table that is none", "[proxy]\nlimits = 3",
      "2:10: error: 'limits' in [proxy]: expected a table, found an integer"),
    LoadRow(
      "limits out of range",
      "[proxy.limits]\nconnections = 0\nheader_bytes = \"1023B\"\nheaders = 10001\nidle_per_host = -1\nconnections_per_host = 1_000_001",
      "2:15: error: 'connections' in [proxy.limits]: expected an integer from 1 to 1000000, found 0",
      "3:16: error: 'header_bytes' in [proxy.limits]: expected a size from 1KiB to 1MiB, found '1023B'",
      "4:11: error: 'headers' in [proxy.limits]: expected an integer from 1 to 10000, found 10001",
      "5:17: error: 'idle_per_host' in [proxy.limits]: expected an integer from 0 to 10000, found -1",
      "6:24: error: 'connections_per_host' in [proxy.limits]: expected an integer from 0 to 1000000, found 1000001"),
    LoadRow(
      "a share that is none", "[proxy.limits]\nshare = 1.5",
      "2:9: error: 'share' in [proxy.limits]: expected a number from 0.01 to 1, found 1.5"),
    LoadRow(
      "a share in words", "[proxy.limits]\nshare = \"25%\"",
      "2:9: error: 'share' in [proxy.limits]: expected a number from 0.01 to 1, found a string"),
    LoadRow(
      "a share of nothing", "[proxy.limits]\nshare = 0",
      "2:9: error: 'share' in [proxy.limits]: expected a number from 0.01 to 1, found 0.0"),
    LoadRow("all of it", "[proxy.limits]\nshare = 1"),
    LoadRow(
      "a size without a unit, or with another", "[proxy.limits]\nheader_bytes = 32768",
      "2:16: error: 'header_bytes' in [proxy.limits]: expected a size such as \"64KiB\" (units B, KiB, MiB, GiB), "
        + "found an integer"),
    LoadRow(
      "a decimal unit", "[proxy.limits]\nheader_bytes = \"32KB\"",
      "2:16: error: 'header_bytes' in [proxy.limits]: expected a size such as \"64KiB\" (units B, KiB, MiB, GiB), "
        + "found '32KB'"),
    LoadRow(
      "limits of bodies out of range",
      "[proxy.limits]\nbuffered_body = \"1023B\"\nheld_bodies = \"65GiB\"\njson_depth = 10_001\nimage_pixels = 0",
      "2:17: error: 'buffered_body' in [proxy.limits]: expected a size from 1KiB to 256MiB, found '1023B'",
      "3:15: error: 'held_bodies' in [proxy.limits]: expected a size from 1KiB to 64GiB, found '65GiB'",
      "4:14: error: 'json_depth' in [proxy.limits]: expected an integer from 1 to 10000, found 10001",
      "5:16: error: 'image_pixels' in [proxy.limits]: expected an integer from 1 to 1000000000000, found 0"),
    LoadRow(
      "limits of bodies beyond the other end",
      "[proxy.limits]\nbuffered_body = \"257MiB\"\nheld_bodies = 1\njson_depth = 0\nimage_pixels = 1_000_000_000_001",
      "2:17: error: 'buffered_body' in [proxy.limits]: expected a size from 1KiB to 256MiB, found '257MiB'",
      "3:15: error: 'held_bodies' in [proxy.limits]: expected a size such as \"64KiB\" (units B, KiB, MiB, GiB), "
        + "found an integer",
      "4:14: error: 'json_depth' in [proxy.limits]: expected an integer from 1 to 10000, found 0",
      "5:16: error: 'image_pixels' in [proxy.limits]: expected an integer from 1 to 1000000000000, "
        + "found 1000000000001"),
    LoadRow(
      "one body above all", "[proxy.limits]\nheld_bodies = \"1MiB\"\nbuffered_body = \"2MiB\"",
      "2:15: error: 'held_bodies' in [proxy.limits]: \"1MiB\" is below 'buffered_body', which is \"2MiB\""),
    LoadRow(
      "one body above all that are held by default", "[proxy.limits]\nbuffered_body = \"65MiB\"",
      "2:17: error: 'buffered_body' in [proxy.limits]: \"65MiB\" is above 'held_bodies', which is \"64MiB\" when it is "
        + "not set"),
    LoadRow(
      "all bodies below the one of the default", "[proxy.limits]\nheld_bodies = \"1023KiB\"",
      "2:15: error: 'held_bodies' in [proxy.limits]: \"1023KiB\" is below 'buffered_body', which is \"1MiB\" when it is "
        + "not set"),
    LoadRow(
      "all bodies as large as one", "[proxy.limits]\nbuffered_body = \"256MiB\"\nheld_bodies = \"256MiB\""),
    LoadRow(
      "a duration as a number", "[proxy.timeouts]\nconnect = 10",
      "2:11: error: 'connect' in [proxy.timeouts]: expected a duration such as \"10s\" (units ms, s, m, h, d), "
        + "found an integer"),
    LoadRow(
      "durations in other forms",
      "[proxy.timeouts]\nconnect = \"10\"\ndrain = \"1h30m\"\nbody_stall = \"1.5s\"\nclient_idle = \"-1s\"\nclient_header = \"\"",
      "2:11: error: 'connect' in [proxy.timeouts]: expected a duration such as \"10s\" (units ms, s, m, h, d), found '10'",
      "3:9: error: 'drain' in [proxy.timeouts]: expected a duration such as \"10s\" (units ms, s, m, h, d), found '1h30m'",
      "4:14: error: 'body_stall' in [proxy.timeouts]: expected a duration such as \"10s\" (units ms, s, m, h, d), found '1.5s'",
      "5:15: error: 'client_idle' in [proxy.timeouts]: expected a duration such as \"10s\" (units ms, s, m, h, d), found '-1s'",
      "6:17: error: 'client_header' in [proxy.timeouts]: expected a duration such as \"10s\" (units ms, s, m, h, d), found ''"
    ),
    LoadRow(
      "durations out of range",
      "[proxy.timeouts]\nconnect = \"0s\"\ndrain = \"366d\"\nbody_stall = \"99999999999999999999d\"\nclient_idle = \"9223372036854775807d\"",
      "2:11: error: 'connect' in [proxy.timeouts]: expected a duration from 1ms to 365d, found '0s'",
      "3:9: error: 'drain' in [proxy.timeouts]: expected a duration from 1ms to 365d, found '366d'",
      "4:14: error: 'body_stall' in [proxy.timeouts]: expected a duration from 1ms to 365d, found '99999999999999999999d'",
      "5:15: error: 'client_idle' in [proxy.timeouts]: expected a duration from 1ms to 365d, found '9223372036854775807d'"
    ),
    LoadRow(
      "an unknown timeout", "[proxy.timeouts]\ntls_handshake = \"1s\"\nconect = \"1s\"",
      "3:1: error: unknown key 'conect' in [proxy.timeouts]; did you mean 'connect'?"),
  ]

  @Test(arguments: proxy) func proxyRows(row: LoadRow) { row.check() }

  static let others: [LoadRow] = [
    LoadRow(
      "a name server by name", "[dns]\nservers = [\"dns.example\"]",
      "2:12: error: 'servers' in [dns]: expected an address, such as \"127.0.0.1:3128\" or \"[::1]:3128\", "
        + "found the name 'dns.example'; a name is not looked up here"),
    LoadRow(
      "port 0 of a name server", "[dns]\nservers = [\"9.9.9.9:0\"]",
      "2:12: error: 'servers' in [dns]: expected a port from 1 to 65535, found '0'"),
    LoadRow(
      "a name server twice", "[dns]\nservers = [\"9.9.9.9\", \"9.9.9.9:53\"]",
      "2:23: warning: 'servers' in [dns]: 9.9.9.9:53 stands in the list twice"),
    LoadRow(
      "a look-up that may not take any time", "[dns]\ntimeout = \"0s\"\ncahce = \"1s\"",
      "2:11: error: 'timeout' in [dns]: expected a duration from 1ms to 365d, found '0s'",
      "3:1: error: unknown key 'cahce' in [dns]; did you mean 'cache'?"),
    LoadRow(
      "[log] as it is not", "[log]\nformat = \"syslog\"\nlevel = \"warn\"\naccess = \"no\"\nfile = \"x\"",
      "2:10: error: 'format' in [log]: expected \"auto\", \"text\", \"json\" or \"journal\", found 'syslog'",
      "3:9: error: 'level' in [log]: expected \"error\", \"warning\", \"info\" or \"debug\", found 'warn'; "
        + "did you mean 'warning'?",
      "4:10: error: 'access' in [log]: expected true or false, found a string",
      "5:1: error: unknown key 'file' in [log]"),
  ]

  @Test(arguments: others) func otherRows(row: LoadRow) { row.check() }

  @Test(
    arguments: [
      ("1ms", 1), ("250ms", 250), ("10s", 10_000), ("5m", 300_000), ("1h", 3_600_000), ("30d", 2_592_000_000),
    ] as [(String, Int64)]) func durationsReadAndWrite(text: String, milliseconds: Int64)
  {
    #expect(Quantity.duration.parse(text) == milliseconds)
    #expect(Quantity.duration.text(milliseconds) == text)
  }

  @Test(
    arguments: [("512B", 512), ("64KiB", 65_536), ("1MiB", 1 << 20), ("2GiB", 2 << 30)] as [(String, Int64)])
  func sizesReadAndWrite(text: String, bytes: Int64) {
    #expect(Quantity.size.parse(text) == bytes)
    #expect(Quantity.size.text(bytes) == text)
  }
}
