// Certificates, keys and a revocation list, made once with the openssl program: EC P-256, self-signed. What is good is
// so from 2020 to 2120; the suites' clock stands at `TestCertificates.now`.

enum TestCertificates {
  /// 2026-01-08 00:00:00 UTC.
  static let now: Int64 = 1_767_830_400

  /// CN=one.example
  static let one = """
    -----BEGIN CERTIFICATE-----
    MIIBVjCB/KADAgECAgECMAoGCCqGSM49BAMCMBYxFDASBgNVBAMMC29uZS5leGFt
    cGxlMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAWMRQwEgYDVQQD
    DAtvbmUuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJgUZKG6LLL3
    TptRDgoGGdyCaLMgBYtLSTE1ZqP+IN4csiow0A7wdePzGIcid/ayCWoxrwyUcHPy
    oIfiy2uGkw6jOTA3MBYGA1UdEQQPMA2CC29uZS5leGFtcGxlMB0GA1UdDgQWBBSy
    wqJDB3VdrclFe4wjOdaPrvbcqTAKBggqhkjOPQQDAgNJADBGAiEA+TWsOXqk0//V
    pnGDm3dffjp1TyvCwsQNLTEQQ8+nIzACIQCTeIs0RORZVg4pCjFYlO7jqcn15v/1
    pU+PrnYc9d06EA==
    -----END CERTIFICATE-----
    """

  /// CN=renewed.example, with the key of `one`
  static let renewed = """
    -----BEGIN CERTIFICATE-----
    MIIBYzCCAQigAwIBAgIBAjAKBggqhkjOPQQDAjAaMRgwFgYDVQQDDA9yZW5ld2Vk
    LmV4YW1wbGUwIBcNMjUwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBoxGDAW
    BgNVBAMMD3JlbmV3ZWQuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA
    BJgUZKG6LLL3TptRDgoGGdyCaLMgBYtLSTE1ZqP+IN4csiow0A7wdePzGIcid/ay
    CWoxrwyUcHPyoIfiy2uGkw6jPTA7MBoGA1UdEQQTMBGCD3JlbmV3ZWQuZXhhbXBs
    ZTAdBgNVHQ4EFgQUssKiQwd1Xa3JRXuMIznWj6723KkwCgYIKoZIzj0EAwIDSQAw
    RgIhAIUbKlUnYEjKpIZ7oJt8gVQlctBpiRWb/nF8sIyXut3DAiEAmTJRLE0dyUZh
    oSbrmhD+3YJqOCJYcxbgtuLRlecvIb8=
    -----END CERTIFICATE-----
    """

  /// CN=two.example
  static let two = """
    -----BEGIN CERTIFICATE-----
    MIIBVTCB/KADAgECAgEFMAoGCCqGSM49BAMCMBYxFDASBgNVBAMMC3R3by5leGFt
    cGxlMCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAWMRQwEgYDVQQD
    DAt0d28uZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABA8dzcH6d5Ux
    bymvW1qFkm3m8C5ADtKC5Nf/yw4/pCTv+E5GLIUigZq2LzPRfx9L4guX5ZxsSnbG
    9Ezww7E+nu+jOTA3MBYGA1UdEQQPMA2CC3R3by5leGFtcGxlMB0GA1UdDgQWBBS4
    5wywApRQ7S+HduTPPF6nRwGJVTAKBggqhkjOPQQDAgNIADBFAiAm07eR4p6VypP1
    0d4SGXHNI/og2PG4uzF816wm0Yp0egIhAJaWCq4QJmvbDxwBAnPZUe7kSqXqJrOl
    zLe4lnCsnu6a
    -----END CERTIFICATE-----
    """

  /// CN=expired.example, until 2024-03-01, with the key of `two`
  static let expired = """
    -----BEGIN CERTIFICATE-----
    MIIBYTCCAQagAwIBAgIBBjAKBggqhkjOPQQDAjAaMRgwFgYDVQQDDA9leHBpcmVk
    LmV4YW1wbGUwHhcNMjAwMTAxMDAwMDAwWhcNMjQwMzAxMTIwMDAwWjAaMRgwFgYD
    VQQDDA9leHBpcmVkLmV4YW1wbGUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQP
    Hc3B+neVMW8pr1tahZJt5vAuQA7SguTX/8sOP6Qk7/hORiyFIoGati8z0X8fS+IL
    l+WcbEp2xvRM8MOxPp7voz0wOzAaBgNVHREEEzARgg9leHBpcmVkLmV4YW1wbGUw
    HQYDVR0OBBYEFLjnDLAClFDtL4d25M88XqdHAYlVMAoGCCqGSM49BAMCA0kAMEYC
    IQDMKCIjptheemp6+8hEuqfzfRJ4WJ4YqHBNqX4dMeiBNQIhALKeFkNoaRHyt9HD
    xwzKcdsqE84jtre1aIWAuwkohuPv
    -----END CERTIFICATE-----
    """

  /// CN=soon.example, until 2026-01-20 12:00, with the key of `two`
  static let soon = """
    -----BEGIN CERTIFICATE-----
    MIIBVjCB/aADAgECAgEGMAoGCCqGSM49BAMCMBcxFTATBgNVBAMMDHNvb24uZXhh
    bXBsZTAeFw0yMDAxMDEwMDAwMDBaFw0yNjAxMjAxMjAwMDBaMBcxFTATBgNVBAMM
    DHNvb24uZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABA8dzcH6d5Ux
    bymvW1qFkm3m8C5ADtKC5Nf/yw4/pCTv+E5GLIUigZq2LzPRfx9L4guX5ZxsSnbG
    9Ezww7E+nu+jOjA4MBcGA1UdEQQQMA6CDHNvb24uZXhhbXBsZTAdBgNVHQ4EFgQU
    uOcMsAKUUO0vh3bkzzxep0cBiVUwCgYIKoZIzj0EAwIDSAAwRQIhAJHsXjybWjVC
    T0BCvgLUMLczkZrWv4JrF3pdx1lr4Zc9AiBulK36OK0Ql94TzkTwhV+3fPqBVtw5
    TtgLdcJANOCg1g==
    -----END CERTIFICATE-----
    """

  /// CN=kiosk-7, for a client
  static let client = """
    -----BEGIN CERTIFICATE-----
    MIIBSjCB8KADAgECAgEDMAoGCCqGSM49BAMCMBIxEDAOBgNVBAMMB2tpb3NrLTcw
    IBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBIxEDAOBgNVBAMMB2tp
    b3NrLTcwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASrLPRCVXtsgyNBJ51NYQk5
    zYKKDzMktjh9JuwA0rJUyA4n0mExnrqQYlNg8En9wUL84aXKX5+TTdPAhZrihMbg
    ozUwMzASBgNVHREECzAJggdraW9zay03MB0GA1UdDgQWBBSi4U23jQEUwmeyW0QL
    /WKq+XBZ5zAKBggqhkjOPQQDAgNJADBGAiEAkbBrw0/NPTZwsrqWk3LxxPUZpfuM
    crYw6UIwxI0SZCsCIQDyv4XHqxQc0h+VmL173lw25d0F0zZ7njyEqZrm9cXmyA==
    -----END CERTIFICATE-----
    """

  /// The key of `client`, PKCS #8
  static let clientKey = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgcW75PWdxd9RNMRcx
    ctyad5sTyUe336iENcYbN3uth6+hRANCAASrLPRCVXtsgyNBJ51NYQk5zYKKDzMk
    tjh9JuwA0rJUyA4n0mExnrqQYlNg8En9wUL84aXKX5+TTdPAhZrihMbg
    -----END PRIVATE KEY-----
    """

  /// The same, encrypted
  static let encryptedClientKey = """
    -----BEGIN ENCRYPTED PRIVATE KEY-----
    MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAj0nz2HNGo+3AICCAAw
    DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEMnTRy6uykArNXGHBcQwOMIEgZDB
    VAZnYNqpxlDuJmhKWOVCJj670Ku5nhne2zvxxdQ2ekT/WsIENwtpuTwzLWKXA3Ur
    kZjSrusMbex9cH2KQbKNJQR4ZYncEJ//Ex4lHWPs7J2qU7xv5fPTSZwJ4JyZbuQW
    RBnj21fD3oZcedtd2s3NSQbnE1CcDYke6YhwNqHs+RfvTnONz+xij2s8Aq6BK30=
    -----END ENCRYPTED PRIVATE KEY-----
    """

  /// The key of `two`
  static let otherKey = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgBvXeW9XsZuz58z6K
    ivd5jOTgCjxYVXlWNZEsjC/Vm/+hRANCAAQPHc3B+neVMW8pr1tahZJt5vAuQA7S
    guTX/8sOP6Qk7/hORiyFIoGati8z0X8fS+ILl+WcbEp2xvRM8MOxPp7v
    -----END PRIVATE KEY-----
    """

  /// Of CN=one.example; nothing is revoked
  static let revocationList = """
    -----BEGIN X509 CRL-----
    MIGuMFcCAQEwCgYIKoZIzj0EAwIwFjEUMBIGA1UEAwwLb25lLmV4YW1wbGUXDTI2
    MTEyMDE3MTQwNFoYDzIxMTkxMjIzMTcxNDA0WqAOMAwwCgYDVR0UBAMCAQEwCgYI
    KoZIzj0EAwIDRwAwRAIgZKnLQ7YWS+vPpZa7LCoWjnWrDjvCU4l3UW0jTZN1DLkC
    ID/GCsVS6lqmt6nPBIRdaNSmX+KOJ5yi9sLgaVatCKpD
    -----END X509 CRL-----
    """

  /// The pins of `one` and `two`.
  static let pinOfOne = "sha256/Q2acxxwOWXDZ6tcYEeCpTh2wvg5BNEmUkcXLc/v9obk="
  static let pinOfTwo = "sha256/ZZxaoY0cOZ+INylOWxRMDSEFOlt3hseDCqP5JDzp0f8="
}
