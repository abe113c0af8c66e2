-- What wrk sends in bench.py's rows, and how its figures come back. wrk connects to the proxy; the request names the
-- origin. Reads BENCH_TARGET (the request-target: absolute-form for forward proxies, origin-form for the pump and reverse
-- proxies), BENCH_HOST and BENCH_CLOSE ("1": one request a connection), and prints one line: BENCH and a JSON object.
--
--     BENCH_TARGET=http://127.0.0.1:8000/1k BENCH_HOST=127.0.0.1:8000 \
--         wrk -t1 -c16 -d3s -s absolute.lua http://127.0.0.1:3128/
--
-- `ended` are connections that the server closed with no word of it in the response, which wrk calls read errors.
-- Further fields come from wrk's own -H. There is no `request` function here: wrk then formats the request once and calls no
-- Lua for each.

wrk.path = assert(os.getenv("BENCH_TARGET"), "BENCH_TARGET is not set")
wrk.headers["Host"] = assert(os.getenv("BENCH_HOST"), "BENCH_HOST is not set")
if os.getenv("BENCH_CLOSE") == "1" then
  wrk.headers["Connection"] = "close"
end

function done(summary, latency, requests)
  local errors = summary.errors
  print(string.format(
    'BENCH {"requests":%d,"bytes":%d,"seconds":%.6f,"p50_us":%d,"p99_us":%d,"ended":%d,"errors":%d}',
    summary.requests, summary.bytes, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    errors.read, errors.connect + errors.write + errors.status + errors.timeout))
end
