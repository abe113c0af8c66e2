// How a request gets to a stored answer before it connects. Tests: Tests/EndToEndTests/test_cache.py.

import Bytes
import Cache
import HTTP1
import Policy
import Session
import Sharing

extension Caching {
  /// What the conversation does next with a request before it connects.
  enum Step {
    /// Asks the origin. `head`: what is sent in place of the client's; nil: that. The exchange notes why.
    case ask(head: [UInt8]?, Forward?)
    /// Serves the answer, and otherwise goes on with `missed`. `refreshes`: it is also fetched again meanwhile.
    case serve(StoredAnswer, CacheResult, refreshes: Bool)
    /// Goes on with `join`.
    case share(foundNone: Bool)
    /// An equal request has just got an answer: goes on with `lookUp`.
    case lookUpAgain
    /// Asks no origin.
    case refuse(UpstreamFailure, Forward?)
    /// Waits, for the disk or for the fetch of another exchange.
    case wait
  }

  /// nil: the cache has nothing to do with the request. `outputs`: the request as it is to leave.
  convenience init?(
    for exchange: borrowing Exchange, sending outputs: borrowing Outputs, by client: LocalClient?, _ live: LivePolicy,
    _ worker: Worker
  ) {
    guard let cache = live.cache else { return nil }
    let rule = exchange.cacheRule
    let owner = rule.flatMap { Self.owner($0.share, client) }
    // A rule that stores nothing may change what another one has stored.
    if owner == nil, exchange.ruling.cachePolicy == .returnCacheDontLoad || !exchange.mayInvalidate(outputs) {
      return nil
    }
    let url = exchange.effectiveURL(outputs)
    let shown = exchange.shownURL(outputs)
    if max(url.count, shown.count) > CacheKey.longestURL { return nil }
    let limits = exchange.policy.configuration.limits
    let head = outputs.toUpstream.bytes.array
    let progress = worker.workspace.request.read(
      head.span,
      limits: HeadLimits(bytes: head.count + 1, fields: limits.headers + Self.fieldsOfProxy), isInTunnel: true)
    guard case .complete(let count) = progress else { return nil }
    let method = worker.workspace.request.knownMethod
    // A request with content is not answered from the store.
    if method == .get || method == .head, !exchange.isRequestWhole || count < head.count { return nil }
    let fields = MessageFields(worker.workspace.request.fields, head.span)
    let request = CacheRequest(
      method, fields,
      isAuthorized: fields.contains("authorization") && !exchange.ruling.setsAuthorization, rule: rule ?? CacheRule(),
      policy: exchange.ruling.cachePolicy)
    // An answer is as good as the authority behind its origin's certificate.
    let anchors = exchange.originSecurity(live)?.anchors.digest
    self.init(
      cache, request,
      key: CacheKey(
        url: url, added: exchange.addedQueryBytes(outputs),
        rule: exchange.ruling.rule.map { Self.identity(of: $0, fields, anchors: anchors) } ?? [], owner: owner ?? ""),
      url: shown, head: Array(head.prefix(count)), isForeign: owner == nil)
  }

  /// What tells the rule's answers from those of others: what it adds, and what clients say where it would have added
  /// something else.
  private static func identity(of rule: Rule, _ fields: MessageFields, anchors: [UInt8]?) -> [UInt8] {
    var identity = rule.cacheIdentity
    if let anchors { identity += anchors }
    for line in rule.request.fields.defaults {
      guard let value = fields.combined(line.name.span), value != line.value else { continue }
      identity += [1] + line.name + [1] + value
    }
    return identity
  }

  /// The most fields that the proxy itself adds to a head.
  private static let fieldsOfProxy = 64

  /// Whose answers they are; nil: unknown, so nothing is stored or used.
  private static func owner(_ share: CacheRule.Share, _ client: LocalClient?) -> String? {
    if share == .machine { return "" }
    guard let client, !client.isUserInDoubt else { return nil }
    if share == .user { return "user \(client.userID)" }
    // Users may have units of the same name.
    guard let unit = client.unit, !client.isUnitInDoubt else { return nil }
    return "unit \(unit) of \(client.userID)"
  }

  /// Why a request that only the store may answer is refused without a store; nil: it may be sent.
  static func refusalWithoutStore(of exchange: borrowing Exchange) -> UpstreamFailure? {
    guard exchange.ruling.cachePolicy == .returnCacheDontLoad else { return nil }
    return UpstreamFailure(
      .notStored, "The rule asks no origin (cache_policy = \"return-cache-dont-load\"), and nothing is stored.")
  }

  // MARK: What is stored

  /// `isRefresh`: no client waits for the answer. `reader`: the conversation, which gets what others find as a message.
  func lookUp(isRefresh: Bool, as reader: Content.Reader, _ worker: Worker) -> Step {
    if awaitsHead || sharing.leads != nil { return .ask(head: nil, nil) }
    if !request.isCacheable { return passStoreBy() }
    let found = cache.with { $0.find(key, request.fields) }
    if found.isNone, asksDisk(as: reader, worker) { return .wait }
    switch found {
    case .nothing: forward = request.policy == .reloadIgnoringCache ? .bypass : .uriMiss
    case .otherVariants: forward = .varyMiss
    case .answer(let answer)
    where !answer.holds(Presentation(of: answer.head, for: request, length: answer.length), for: request):
      forward = .partial
      if request.policy == .reloadIgnoringCache { forward = .bypass } else { part = answer }
    case .answer(let answer):
      switch answer.head.reuse(for: request, at: time(worker)) {
      case .fresh: return .serve(answer, .hit, refreshes: false)
      case .stale(refreshes: true) where isRefresh:
        stored = answer
        forward = .stale
      case .stale(let refreshes): return .serve(answer, .stale, refreshes: refreshes)
      case .ask(let forward):
        stored = answer
        self.forward = forward
      }
    }
    return missed(foundNone: found.isNone)
  }

  /// Nothing that is stored can be used.
  func missed(foundNone: Bool) -> Step {
    if forward == nil { forward = .uriMiss }
    if let refusal = refusalToAsk { return .refuse(refusal, forward) }
    return mayCollapse ? .share(foundNone: foundNone) : ask()
  }

  /// Whether the disk has to be asked first for what memory does not have.
  private func asksDisk(as reader: Content.Reader, _ worker: Worker) -> Bool {
    guard let files = cache.disk, disk == .unasked, files.mayHave(key) else { return false }
    disk = .awaited
    let mailbox = worker.shared.mailboxes[worker.index]
    files.restore(key) { mailbox.post(.restored(slot: reader.slot, generation: reader.generation)) }
    return true
  }

  /// No stored answer can serve this request. What it changes at the origin is checked when that has answered.
  private func passStoreBy() -> Step {
    forward = request.method == .unsafe || request.method == .safe ? .method : .request
    let noted = isForeign ? nil : forward
    if request.policy == .returnCacheDontLoad {
      let isUnsafe = request.method == .unsafe
      return .refuse(
        UpstreamFailure(
          .notStored,
          "The rule asks no origin (cache_policy = \"return-cache-dont-load\"), and "
            + (isUnsafe ? "the request would change something there." : "the request is not answered from the store.")),
        noted)
    }
    // Whatever else the request says: it asks for no other answer than a stored one.
    if request.method == .get || request.method == .head, let refusal = refusalToAsk { return .refuse(refusal, noted) }
    awaitsHead = request.method == .unsafe
    return .ask(head: nil, noted)
  }

  /// Why the origin must not be asked; nil: it may be.
  private var refusalToAsk: UpstreamFailure? {
    if request.policy == .returnCacheDontLoad {
      return UpstreamFailure(
        .notStored,
        "Nothing is stored for the request, and the rule asks no origin (cache_policy = \"return-cache-dont-load\").")
    }
    if request.directives.onlyIfCached {
      return UpstreamFailure(
        .notStored,
        "Nothing that may be used is stored for the request, and it asks for no other answer (only-if-cached).")
    }
    return nil
  }

  /// Asks the origin, with a condition if the stored answer has a validator.
  private func ask() -> Step {
    awaitsHead = request.method == .get || stored != nil
    guard request.method == .get, request.policy != .reloadIgnoringCache else { return .ask(head: nil, forward) }
    if let head = validatingHead() {
      question = .validity
      return .ask(head: head, forward)
    }
    if let head = headForRest() {
      question = .rest
      return .ask(head: head, forward)
    }
    return .ask(head: nil, forward)
  }

  /// Asks the origin for the missing rest of a fetch that broke off.
  func askForRest(of fetch: CacheFetch) -> Step {
    if key != fetch.answer.key || fetch.isOver { return .refuse(Self.policyChanged, nil) }
    if awaitsHead { return .ask(head: nil, nil) }
    awaitsHead = true
    forward = .partial
    return .ask(head: head(with: fetch.conditions), forward)
  }

  /// Why the rest is not asked for.
  static let policyChanged = UpstreamFailure(.notStored, "The policy has changed since the download began.")

  // MARK: Fetches that are shared

  /// Whether it may share a fetch with equal requests.
  private var mayCollapse: Bool {
    request.method == .get && request.policy == .useProtocol && request.rule.collapse != .never
      && !sharing.hasFollowed && !request.directives.noCache && !request.isForPart && !request.isConditional
      && !request.isAuthorized
  }

  /// Joins an equal request in progress. If there is none, others may join this one.
  func join(as reader: Content.Reader, for claimant: Claimant, foundNone: Bool, now: Int64) -> Step {
    let flight = Flight(request.fields, for: claimant)
    let always = request.rule.collapse == .always
    switch sharing.join(flight, as: reader, foundNone: foundNone, always: always, now: now) {
    case .follows: return .wait
    case .leads: return ask()
    case .found:
      forward = nil
      return .lookUpAgain
    }
  }

  /// A fetch that it waited for has ended. nil: it has to look again, or to ask for itself.
  func landed(_ outcome: FlightOutcome, _ worker: Worker) -> (answer: StoredAnswer, result: CacheResult)? {
    sharing.landed()
    switch outcome {
    case .answer(let answer, let result):
      // What the answer varies by is known now: requests that agree on that share the next fetch.
      if !answer.head.answers(request.fields) { return nil }
      if mayShare(answer, result, on: worker) { return (answer, result == .stored ? .collapsed : result) }
      sharing.goAlone()
    case .unshared: sharing.goAlone()
    case .leaderless, .failed: break
    }
    return nil
  }

  /// Whether this request may have the answer that another one has fetched: only if it could be used, had it been in
  /// the store (RFC 9111, 4). One that is stale when it arrives was fetched for one request.
  private func mayShare(_ answer: StoredAnswer, _ result: CacheResult, on worker: Worker) -> Bool {
    switch result {
    case .stale: return answer.head.standsInForError(of: request, at: time(worker))
    case .offline: return answer.head.standsInOffline(for: request, at: time(worker))
    case .hit, .revalidated, .collapsed, .miss: return true
    case .stored: break
    }
    if case .ask = answer.head.reuse(for: request, at: time(worker)) { return false }
    return true
  }
}
