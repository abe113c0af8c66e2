// The dashboard: asks the daemon for pages of bounded size and shows them. It subscribes to no event for each exchange, so
// what it costs does not grow with the traffic. What the daemon says goes into the page as text content, never as HTML.

import { Chart, clock, element, timeline } from "/charts.js";

// Milliseconds between two questions about each. The traffic waits longer where its answers take long.
const EVERY = { traffic: 1500, asks: 2000, status: 3000, rules: 5000, series: 10000, network: 10000, pins: 30000 };
// What a question may take of the time between two.
const SHARE = 0.1;
// A page that has not come by then will not.
const PATIENCE = 15000;
const DECISIONS = 100;
// Exchanges that are remembered, and rows that are drawn: more nobody reads.
const REMEMBERED = 500, ROWS = 200;

const $ = (id) => document.getElementById(id);
let session = null, paused = false, over = false;

// MARK: Asking

class Refused extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

async function ask(path, method = "GET") {
  const headers = method === "POST" ? { "Sallyport-Dashboard": "1" } : {};
  const answer = await fetch(path, {
    method, headers, cache: "no-store", redirect: "error", credentials: "same-origin", signal: AbortSignal.timeout(PATIENCE),
  });
  const text = await answer.text();
  let body = null;
  try { body = JSON.parse(text); } catch { /* a text is a text */ }
  if (!answer.ok) throw new Refused(answer.status, body?.detail ?? (text.slice(0, 200) || `status ${answer.status}`));
  return body;
}

function trouble(text) {
  $("trouble").hidden = !text;
  if ($("trouble").textContent !== text) $("trouble").textContent = text;
}

let saidTimer = 0;
function say(text) {
  $("said").textContent = text;
  clearTimeout(saidTimer);
  saidTimer = setTimeout(() => { $("said").textContent = ""; }, 6000);
}

// Does something, and says what came of it.
async function act(button, path, done) {
  button.disabled = true;
  try {
    const answer = await ask(path, "POST");
    say(typeof done === "function" ? done(answer) : done);
    return true;
  } catch (error) {
    say(`Not done: ${error.message}`);
    return false;
  } finally {
    button.disabled = false;
  }
}

const query = (members) => new URLSearchParams(Object.entries(members).filter(([, value]) => value != null)).toString();

// MARK: Polling

const timers = {};
const jobs = { traffic, asks, status, rules, series, network, pins };

function next(name, wait) {
  clearTimeout(timers[name]);
  if (!over && !document.hidden) timers[name] = setTimeout(() => run(name), wait);
}

const busy = new Set();
async function run(name) {
  if (busy.has(name) || over || document.hidden) return;
  busy.add(name);
  const begun = performance.now();
  let wait = EVERY[name];
  try {
    await jobs[name]();
    trouble("");
  } catch (error) {
    if (error.status === 403 || error.status === 421) return end("This session is over. Run “sallyport dashboard” and open its link.");
    if (name === "asks" && error.status === 404) { hideAsks(); wait = 60000; }
    else if (!(error.status === 404)) trouble(`The proxy does not answer: ${error.message}. The page goes on asking.`);
  } finally {
    busy.delete(name);
  }
  next(name, Math.max(wait, (performance.now() - begun) / SHARE));
}

function end(text) {
  over = true;
  trouble(text);
  for (const name of Object.keys(timers)) clearTimeout(timers[name]);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) for (const name of Object.keys(timers)) clearTimeout(timers[name]);
  else for (const name of Object.keys(jobs)) run(name);
});

// MARK: Words

const number = (value) => value == null ? "" : value.toLocaleString();

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

function duration(ms) {
  if (ms == null) return "";
  if (ms < 10) return microseconds(ms * 1000);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min ${Math.floor(ms / 1000 % 60)} s`;
  if (ms < 86400000) return `${Math.floor(ms / 3600000)} h ${Math.floor(ms / 60000 % 60)} min`;
  return `${Math.floor(ms / 86400000)} d ${Math.floor(ms / 3600000 % 24)} h`;
}

const microseconds = (value) => value < 1000 ? `${Math.round(value)} µs`
  : value < 1e6 ? `${value < 1e4 ? (value / 1000).toFixed(1) : Math.round(value / 1000)} ms` : `${(value / 1e6).toFixed(1)} s`;
const rate = (value) => value >= 1e6 ? `${(value / 1e6).toFixed(1)} M` : value >= 1e4 ? `${Math.round(value / 1000)} k`
  : value >= 1000 ? `${(value / 1000).toFixed(1)} k` : value >= 10 || Number.isInteger(value) ? `${Math.round(value)}`
  : value.toFixed(1);
// As in logs: of one width, and as long as it must be.
const moment = (time) => new Date(time).toLocaleTimeString("en-GB");
const day = (text) => new Date(text).toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" });
const span = (ms) => ms < 60000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(ms);
const ago = (text) => `${span(Date.now() - Date.parse(text))} ago`;
const chip = (text, kind = "") => element("span", { class: `chip ${kind}` }, text);

// Sets a text only where it is another: what is selected or read aloud stays.
function put(node, text) { if (node.textContent !== text) node.textContent = text; }

// Gives a list the rows of these items, each under its key: rows that stay keep focus and place.
function reconcile(parent, items, make, fill) {
  const rows = parent.rowsByKey ??= new Map();
  const keys = new Set();
  let place = parent.firstChild;
  for (const [key, item] of items) {
    keys.add(key);
    let row = rows.get(key);
    if (!row) {
      row = make(item, key);
      rows.set(key, row);
    }
    fill(row, item);
    if (row === place) place = place.nextSibling;
    else parent.insertBefore(row, place);
  }
  for (const [key, row] of rows) {
    if (keys.has(key)) continue;
    row.remove();
    rows.delete(key);
  }
}

// MARK: Status

function fact(text, kind) { return element("li", { class: `chip ${kind ?? ""}` }, text); }

async function status() {
  const now = await ask("/v1/status");
  put($("version"), now.version);
  const failure = now.policy.failure;
  const facts = [
    fact(now.draining ? "draining" : `up ${span(now.uptime_seconds * 1000)}`, now.draining ? "wait" : "good"),
    fact(`network: ${now.reachability}`, now.reachability === "not-reachable" ? "bad" : ""),
    fact(`listens on ${now.listen.join(", ")}`),
    fact(`${now.policy.rules} ${now.policy.rules === 1 ? "rule" : "rules"}, read ${ago(now.policy.loaded)}`),
  ];
  if (now.waiting) facts.push(fact(`${now.waiting} waiting for a path`, "wait"));
  if (failure) facts.push(fact(`last reload failed: ${failure.reasons[0]}`, "bad"));
  for (const warning of now.warnings) facts.push(fact(warning, "wait"));
  $("facts").replaceChildren(...facts);
  tile("connections", "Clients", number(now.connections.clients), `${number(now.connections.tunnels)} tunnels`);
  tile("memory", "Memory", size(now.resident_bytes));
  const failed = Object.values(now.exchanges.failed).reduce((sum, count) => sum + count, 0);
  tile("exchanges", "Since the start", number(now.exchanges.total), `${number(failed)} not done`);
}

const tiles = {};
function tile(name, title, value, note = "") {
  tiles[name] ??= { title, node: null };
  const entry = tiles[name];
  if (!entry.node) {
    entry.value = document.createTextNode("");
    entry.note = element("small");
    entry.node = element("div", {}, element("dt", {}, title), element("dd", {}, entry.value, " ", entry.note));
    const order = ["requests", "refused", "latency", "bytes", "connections", "cache", "exchanges", "memory"];
    const after = order.slice(order.indexOf(name) + 1).map((other) => tiles[other]?.node).find((node) => node);
    $("tiles").insertBefore(entry.node, after ?? null);
  }
  if (entry.value.data !== value) entry.value.data = value;
  put(entry.note, note);
}

// MARK: Traffic

const remembered = new Map();
let open = [], sortBy = "time", direction = -1;

// One row's facts, of a connection or an exchange that has ended.
function underWay(one) {
  const [method, target] = split(one.request);
  return {
    key: `open ${one.ref}`, ref: one.ref, isOpen: true, time: Date.now() - one.age_ms, method, target,
    outcome: one.state === "tunnel" ? "tunnel" : "under way", kind: "open", rule: one.rule ?? "",
    who: who(one), whoDetail: one.program ?? one.client, bytesIn: one.bytes_in, bytesOut: one.bytes_out,
    bytes: one.bytes_in + one.bytes_out, duration: one.age_ms, host: one.host,
  };
}

function split(request) {
  const space = request.indexOf(" ");
  return space < 0 ? [request, ""] : [request.slice(0, space), request.slice(space + 1)];
}

function ended(one) {
  const isRefused = one.decision === "deny" || (one.outcome !== "done" && one.status != null && one.status >= 400 && one.upstream_status == null);
  const kind = one.outcome === "done" ? "good" : "bad";
  return {
    key: `${one.ref} ${one.time}`, ref: one.ref, isOpen: false, time: Date.parse(one.time), method: one.method ?? "", target: one.target ?? "",
    outcome: one.outcome === "done" ? String(one.status ?? "done") : `${one.status ?? ""} ${one.outcome}`.trim(), kind, isRefused,
    isFailed: one.outcome !== "done", rule: one.rule ?? "", who: who(one), whoDetail: one.program ?? one.client,
    bytesIn: one.bytes_in, bytesOut: one.bytes_out, bytes: (one.bytes_in ?? 0) + (one.bytes_out ?? 0), duration: one.total_ms,
  };
}

const who = (one) => one.unit ?? one.user ?? one.client ?? "";

async function traffic() {
  if (paused) return;
  const show = $("show").value;
  const [connections, decisions] = await Promise.all([
    ask("/v1/connections"), ask(`/v1/decisions?${query({ limit: DECISIONS, refused: show === "refused" ? true : null })}`),
  ]);
  open = connections.filter((one) => one.state !== "idle" && one.ref).map(underWay);
  // Oldest first, so that the newest stand last in the map.
  for (const one of decisions.reverse()) {
    const row = ended(one);
    if (show === "refused") row.isRefused = true;
    remembered.delete(row.key);
    remembered.set(row.key, row);
  }
  for (const key of remembered.keys()) {
    if (remembered.size <= REMEMBERED) break;
    remembered.delete(key);
  }
  drawTraffic();
}

function drawTraffic() {
  const wanted = $("filter").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const show = $("show").value;
  const all = [...open, ...remembered.values()];
  const rows = all.filter((row) =>
    (show === "all" || show === "open" && row.isOpen || show === "refused" && row.isRefused || show === "failed" && row.isFailed)
    && wanted.every((word) => row.words ? row.words.includes(word) : (row.words = words(row)).includes(word)));
  rows.sort((one, other) => {
    const [left, right] = [one[sortBy] ?? "", other[sortBy] ?? ""];
    const order = typeof left === "number" && typeof right === "number" ? left - right : String(left).localeCompare(String(right));
    return direction * order || other.time - one.time;
  });
  put($("count"), `${number(Math.min(rows.length, ROWS))} of ${number(all.length)} shown, ${number(open.length)} under way${paused ? "; paused" : ""}`);
  reconcile($("traffic-rows"), rows.slice(0, ROWS).map((row) => [row.key, row]), makeRow, fillRow);
}

const words = (row) => [row.method, row.target, row.rule, row.who, row.whoDetail, row.ref, row.outcome].join(" ").toLowerCase();

function makeRow(item) {
  const cell = (name) => element("td", { class: name });
  const row = element("tr", { class: "fresh" });
  row.cells_ = {
    time: cell("mono middle"), state: cell(""), target: cell("target"), who: cell("wide"), rule: cell("middle"),
    bytes: cell("wide number"), duration: cell("middle number"), actions: cell("actions"),
  };
  row.append(...Object.values(row.cells_));
  row.chip = chip("");
  row.cells_.state.append(row.chip);
  row.method = element("span", { class: "method" });
  row.target = document.createTextNode("");
  row.cells_.target.append(row.method, " ", row.target);
  row.who = document.createTextNode("");
  row.detail = element("small");
  row.cells_.who.append(row.who, row.detail);
  const explain = element("button", { type: "button", "aria-label": `Explain ${item.ref}` }, item.ref);
  explain.addEventListener("click", () => showDetail(row.item));
  row.cells_.actions.append(explain);
  if (item.isOpen && session?.act) {
    const cancel = element("button", { type: "button", class: "danger", "aria-label": `Cancel ${item.ref}` }, "Cancel");
    cancel.addEventListener("click", async () => {
      if (await act(cancel, `/v1/cancel?${query({ ref: item.ref })}`, `${item.ref} was ended.`)) run("traffic");
    });
    row.cells_.actions.append(cancel);
  }
  return row;
}

function fillRow(row, item) {
  row.item = item;
  put(row.cells_.time, item.isOpen ? "now" : moment(item.time));
  put(row.chip, item.outcome);
  row.chip.className = `chip ${item.kind}`;
  put(row.method, item.method);
  if (row.target.data !== item.target) row.target.data = item.target;
  if (row.who.data !== item.who) row.who.data = item.who;
  put(row.detail, item.whoDetail === item.who ? "" : item.whoDetail ?? "");
  put(row.cells_.rule, item.rule || "no rule");
  put(row.cells_.bytes, `${size(item.bytesIn ?? 0)} up, ${size(item.bytesOut ?? 0)} down`);
  put(row.cells_.duration, duration(item.duration));
}

for (const button of document.querySelectorAll("[data-sort]")) {
  button.addEventListener("click", () => {
    const key = button.dataset.sort;
    direction = key === sortBy ? -direction : key === "time" || key === "bytes" || key === "duration" ? -1 : 1;
    sortBy = key;
    markSort();
    drawTraffic();
  });
}

function markSort() {
  for (const button of document.querySelectorAll("[data-sort]")) {
    const head = button.closest("th");
    if (button.dataset.sort === sortBy) head.setAttribute("aria-sort", direction < 0 ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
}

$("filter").addEventListener("input", drawTraffic);
$("show").addEventListener("change", () => { drawTraffic(); run("traffic"); });
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", paused);
  drawTraffic();
  if (!paused) run("traffic");
});

// MARK: One request

function pairs(members) {
  return element("dl", { class: "pairs" }, ...members.filter(([, value]) => value != null && value !== "").flatMap(([name, value]) => [
    element("dt", {}, name), element("dd", {}, value instanceof Node ? value : String(value)),
  ]));
}

function copyable(title, text) {
  const button = element("button", { type: "button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied.");
    } catch {
      say("The browser does not let this page copy; select the text.");
    }
  });
  return [element("h3", {}, title), element("pre", { tabindex: "0" }, text), button];
}

async function showDetail(item) {
  const dialog = $("detail"), body = $("detail-body");
  put($("detail-title"), `${item.method} ${item.target}`);
  body.replaceChildren(element("p", { class: "quiet" }, "Asking…"));
  dialog.showModal();
  $("detail-title").focus();
  if (item.isOpen) return body.replaceChildren(...openDetail(item));
  try {
    body.replaceChildren(...endedDetail(await ask(`/v1/decisions/${encodeURIComponent(item.ref)}`)));
  } catch (error) {
    body.replaceChildren(element("p", {}, error.message));
  }
}

function openDetail(item) {
  const parts = [pairs([
    ["Reference", item.ref], ["State", item.outcome], ["Rule", item.rule || "no rule"], ["From", item.who], ["Program", item.whoDetail],
    ["Bytes", `${size(item.bytesIn)} from the client, ${size(item.bytesOut)} to it`], ["Since", duration(item.duration)],
  ]), element("p", { class: "quiet" }, "It is under way. Why it was decided so is said once it is over.")];
  if (session?.act) {
    const cancel = element("button", { type: "button", class: "danger" }, "Cancel it");
    cancel.addEventListener("click", async () => {
      if (await act(cancel, `/v1/cancel?${query({ ref: item.ref })}`, `${item.ref} was ended.`)) { $("detail").close(); run("traffic"); }
    });
    parts.push(cancel);
  }
  return parts;
}

function endedDetail(one) {
  const explanation = one.explanation;
  const rule = explanation?.rule;
  const parts = [pairs([
    ["Reference", one.ref], ["When", new Date(one.time).toLocaleString()],
    ["Outcome", chip(`${one.status ?? ""} ${one.outcome}`.trim(), one.outcome === "done" ? "good" : "bad")],
    ["Decision", explanation ? `${explanation.decision} (${explanation.reason})` : one.decision],
    ["Rule", rule ? rule.name : one.rule ?? "no rule matched"], ["Place", rule ? `${rule.file}:${rule.line}` : one.place],
    ["Reason", rule?.reason], ["Detail", one.detail === rule?.reason ? null : one.detail], ["Expected", one.expected], ["Seen", one.seen],
    ["User", one.user], ["Unit", one.unit], ["Program", one.program], ["Client", one.client],
    ["Upstream", one.upstream], ["Route", one.route], ["Cache", one.cache], ["Violation", one.violation], ["Reported", one.report],
    ["Bytes", `${size(one.bytes_in ?? 0)} from the client, ${size(one.bytes_out ?? 0)} to it`], ["Took", duration(one.total_ms)],
    ["Of this", [["name", one.name_ms], ["connect", one.connect_ms], ["TLS", one.tls_ms], ["first byte", one.first_byte_ms]]
      .filter(([, ms]) => ms != null).map(([name, ms]) => `${name} ${duration(ms)}`).join(", ")],
  ])];
  if (explanation?.passed_over?.length) {
    const rows = explanation.passed_over.map((over) => element("tr", {},
      element("th", { scope: "row" }, over.rule, element("small", {}, `${over.file}:${over.line}`)),
      element("td", {}, `${over.condition}: expected ${over.expected}`), element("td", {}, over.seen)));
    parts.push(element("h3", {}, "Why earlier rules do not match"), element("div", { class: "scroll" },
      element("table", {}, element("caption", { class: "unseen" }, "Rules that were passed over"), element("thead", {}, element("tr", {},
        ...["Rule", "Condition", "Seen"].map((text) => element("th", { scope: "col" }, text)))), element("tbody", {}, ...rows))));
    if (explanation.passed_over_more) parts.push(element("p", { class: "quiet" }, `and ${explanation.passed_over_more} more`));
  } else if (explanation) {
    parts.push(element("p", { class: "quiet" }, rule ? "No rule stands before it." : "No rule matches."));
  }
  if (one.allow) parts.push(...copyable("A rule that would allow this", one.allow));
  if (explanation?.actions) {
    parts.push(element("details", {}, element("summary", {}, "What the rule does"),
      element("pre", { tabindex: "0" }, JSON.stringify(explanation.actions, null, 2))));
  }
  parts.push(...answersFor(one));
  return parts;
}

// What was refused can be allowed for a while, where the daemon takes answers.
function answersFor(one) {
  const target = /^(?:https?:\/\/)?(\[[^\]]*\]|[^/:?]+)(?::(\d+))?/.exec(one.target ?? "");
  if (!session?.act || !hasAsks || one.decision !== "deny" || !target) return [];
  const host = target[1];
  const button = element("button", { type: "button" }, `Allow ${host} for an hour`);
  button.addEventListener("click", () => act(button, `/v1/allow?${query({ host, for: "1h" })}`, `${host} is allowed for an hour.`)
    .then(() => run("asks")));
  return [element("h3", {}, "For now"), button];
}

$("detail-close").addEventListener("click", () => $("detail").close());

// MARK: Questions

let hasAsks = false;
const heard = new Set();

function hideAsks() {
  hasAsks = false;
  $("asks").hidden = $("temporary").hidden = true;
}

async function asks() {
  const answer = await ask("/v1/asks");
  hasAsks = true;
  $("asks").hidden = answer.asks.length === 0;
  const fresh = answer.asks.filter((one) => !heard.has(one.ref));
  heard.clear();
  for (const one of answer.asks) heard.add(one.ref);
  if (fresh.length) put($("asks-news"), fresh.map((one) => `New question ${one.ref}: ${asker(one)} wants ${one.method} ${one.url}`).join(". "));
  document.title = answer.asks.length ? `(${answer.asks.length}) Sallyport` : "Sallyport";
  reconcile($("asks-list"), answer.asks.map((one) => [one.ref, one]), makeAsk, fillAsk);
  $("temporary").hidden = answer.temporary.length === 0;
  reconcile($("temporary-rows"), answer.temporary.map((one) => [String(one.id), one]), makeTemporary, (row, one) => {
    put(row.until, `${span(Math.max(0, Date.parse(one.until) - Date.now()))} left`);
  });
}

const asker = (one) => one.unit ?? one.user ?? one.client;

function makeAsk(one) {
  const item = element("li", {});
  item.left = element("span", { class: "quiet" });
  item.append(
    element("p", {}, element("strong", {}, `${one.method} ${one.url}`)),
    element("p", { class: "quiet" }, [asker(one), one.program, `rule ${one.rule}`, one.place].filter(Boolean).join(" · ")),
    element("p", {}, item.left));
  const answer = (text, label, path, done, kind) => {
    const button = element("button", { type: "button", class: kind, "aria-label": `${label} ${one.ref}: ${one.host}` }, text);
    button.addEventListener("click", () => act(button, path, done).then(() => run("asks")));
    return button;
  };
  if (session?.act) {
    item.append(element("div", { class: "tools" },
      answer("Allow once", "Allow once", `/v1/allow?${query({ ref: one.ref })}`, `${one.host} is allowed once.`, "first"),
      answer("Allow for an hour", "Allow for an hour", `/v1/allow?${query({ ref: one.ref, for: "1h" })}`, `${one.host} is allowed for an hour.`),
      answer("Deny", "Deny", `/v1/deny?${query({ ref: one.ref })}`, `${one.host} is denied.`, "danger")));
  }
  return item;
}

function fillAsk(item, one) {
  const left = Math.max(0, Date.parse(one.until) - Date.now());
  put(item.left, `${one.ref} · ${one.waiting === 1 ? "1 request waits" : `${one.waiting} requests wait`} · ${span(left)} to answer`);
}

function makeTemporary(one) {
  const row = element("tr", {});
  row.until = element("td", {});
  const what = [one.method, `${one.host}${one.port ? `:${one.port}` : ""}${one.path ?? ""}`].filter(Boolean).join(" ");
  const actions = element("td", {});
  if (session?.act) {
    const revoke = element("button", { type: "button", "aria-label": `Revoke ${one.verdict} of ${one.host}` }, "Revoke");
    revoke.addEventListener("click", () => act(revoke, `/v1/revoke?${query({ id: one.id })}`, "Revoked.").then(() => run("asks")));
    actions.append(revoke);
  }
  row.append(element("td", {}, chip(one.verdict, one.verdict === "allow" ? "good" : "bad")), element("th", { scope: "row" }, what),
    element("td", {}, one.user ?? one.unit ?? one.client ?? "everyone"), row.until, element("td", {}, one.by ?? ""), actions);
  return row;
}

// MARK: Charts

const charts = {
  rates: new Chart("Requests a second", "lines", rate),
  latency: new Chart("Latency", "lines", microseconds),
  refusals: new Chart("Refusals a minute, by rule", "bars", rate),
  cache: new Chart("Cache, requests a minute", "bars", rate),
};
addEventListener("resize", () => { for (const chart of Object.values(charts)) chart.redraw(); });
$("charts").append(...Object.values(charts).map((chart) => chart.figure));

async function series() {
  const found = await ask("/v1/series");
  const times = found.times.map((time) => Date.parse(time));
  $("charts-empty").hidden = times.length > 0;
  $("charts").hidden = times.length === 0;
  if (!times.length) return;
  const seconds = found.interval_ms / 1000, now = Date.now();
  const each = (name, values) => ({ name, values: values.map((value) => value / seconds) });
  charts.rates.draw(times, [each("requests", found.requests), each("refused", found.refused), each("failed", found.failed)], now);
  charts.latency.draw(times, [["median", found.p50_us], ["90 %", found.p90_us], ["99 %", found.p99_us]]
    .map(([name, values]) => ({ name, values })), now);
  const rules = found.refusals.map((one) => ({ name: one.rule ?? "no rule", values: one.counts }));
  if (found.other_refusals.some((count) => count)) rules.push({ name: "others", values: found.other_refusals });
  charts.refusals.draw(times, rules.length ? rules : [{ name: "none", values: times.map(() => 0) }], now);
  const hasCache = found.cache_hits.some((count) => count) || found.cache_misses.some((count) => count);
  charts.cache.figure.hidden = !hasCache;
  if (hasCache) charts.cache.draw(times, [{ name: "hits", values: found.cache_hits }, { name: "misses", values: found.cache_misses }], now);
  // The tiles show the last minute: six samples.
  const last = (values) => values.slice(-6).reduce((sum, value) => sum + (value ?? 0), 0);
  const span = Math.min(6, times.length) * seconds;
  tile("requests", "Requests", rate(last(found.requests) / span), "a second");
  tile("refused", "Refused", rate(last(found.refused)), `in ${span} s`);
  const middle = found.p50_us.at(-1), slow = found.p99_us.at(-1);
  tile("latency", "Latency", middle == null ? "none" : microseconds(middle), slow == null ? "" : `99 %: ${microseconds(slow)}`);
  tile("bytes", "To clients", `${size(last(found.bytes_out) / span)}/s`);
  const hits = last(found.cache_hits), asked = hits + last(found.cache_misses);
  if (hasCache) tile("cache", "Cache hits", asked ? `${Math.round(hits * 100 / asked)} %` : "none", "last minute");
}

// MARK: Rules, pins, the network

async function rules() {
  const found = await ask("/v1/rules");
  reconcile($("rules-rows"), found.map((rule, index) => [`${index} ${rule.name}`, rule]), (rule) => {
    const row = element("tr", {});
    row.parts = ["number", "number", "middle", "wide mono"].map((kind) => element("td", { class: kind }));
    row.action = chip("");
    row.append(element("th", { scope: "row" }, rule.name ?? "no rule"), element("td", {}, row.action), ...row.parts);
    return row;
  }, (row, rule) => {
    put(row.action, rule.enforce ? rule.action : `${rule.action}, only reported`);
    row.action.className = `chip ${rule.action === "deny" ? "bad" : rule.action === "allow" ? "good" : "wait"}`;
    const failed = Object.entries(rule.failed).map(([word, count]) => `${number(count)} ${word}`).join(", ");
    [number(rule.hits), failed || "0", rule.last ? ago(rule.last) : "never", rule.location ?? "the default"]
      .forEach((text, index) => put(row.parts[index], text));
  });
}

async function pins() {
  const sets = await ask("/v1/pins");
  $("pins-empty").hidden = sets.length > 0;
  $("pins-content").hidden = sets.length === 0;
  const rows = sets.flatMap((set) => [
    { name: set.name, note: `${set.mode}${set.enforce ? "" : ", only reported"}`, expires: set.expires, days: set.days_left, seen: set.spki.map((key) => key.last_seen).filter(Boolean).sort().at(-1) },
    ...set.certificates.map((one) => ({ name: set.name, note: one.subject, expires: one.expires, days: one.days_left, seen: one.last_seen })),
  ]);
  rows.sort((one, other) => (one.days ?? Infinity) - (other.days ?? Infinity));
  $("pins-rows").replaceChildren(...rows.map((row) => element("tr", {},
    element("th", { scope: "row" }, row.name, element("small", {}, row.note)),
    element("td", {}, row.expires ? day(row.expires) : "never"),
    element("td", { class: "number" }, row.days == null ? "" : row.days < 0 ? chip("expired", "bad") : row.days < 30 ? chip(number(row.days), "wait") : number(row.days)),
    element("td", { class: "middle" }, row.days == null ? "" : timeline(row.days)),
    element("td", { class: "middle" }, row.seen ? ago(row.seen) : "not yet"))));
}

async function network() {
  const found = await ask("/v1/reachability");
  const path = (name, one) => `${name}: ${one.status}${one.interface ? ` by ${one.interface}` : ""}${one.gateway ? `, gateway ${one.gateway}` : ""}`;
  put($("network-summary"), `The machine is ${found.status}. ${path("IPv4", found.ipv4)}. ${path("IPv6", found.ipv6)}. ${found.waiting ? `${found.waiting} requests wait.` : "No request waits."}`);
  const rows = [
    ...found.interfaces.map((one) => [one.name, one.kind, !one.up ? ["down", ""] : one.carrier ? ["up", "good"] : ["no carrier", "bad"], one.addresses.join(", ")]),
    ...found.routes.map((one) => [one.name, "route", one.unusable ? ["not usable", "bad"] : one.dead_for_ms ? [`passed over for ${duration(one.dead_for_ms)}`, "wait"] : ["in use", "good"], one.via]),
  ];
  $("network-rows").replaceChildren(...rows.map(([name, kind, [state, colour], addresses]) => element("tr", {},
    element("th", { scope: "row" }, name), element("td", {}, kind), element("td", {}, chip(state, colour)),
    element("td", { class: "middle mono" }, addresses))));
}

// MARK: Beginning and end

$("reload").addEventListener("click", () => act($("reload"), "/v1/reload", (answer) =>
  `Reloaded: ${answer.rules} rules.${answer.warnings.length ? ` ${answer.warnings[0]}` : ""}`).then(() => run("status")));
$("leave").addEventListener("click", async () => {
  try { await ask("/leave", "POST"); } catch { /* it is over already */ }
  end("You are signed out. Run “sallyport dashboard” to come back.");
});

async function begin() {
  markSort();
  try {
    session = await ask("/v1/dashboard");
  } catch (error) {
    return end(error.status ? `No session: ${error.message}` : "The proxy does not answer; reload this page when it runs.");
  }
  for (const node of document.querySelectorAll("[data-acts]")) node.hidden = !session.act;
  put($("rights"), `You are user ${session.user} and may ${session.act ? "read and act" : "read only"}, until ${clock(Date.parse(session.until))}.`);
  for (const name of Object.keys(jobs)) run(name);
}

begin();
