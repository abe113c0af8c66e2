"""From samples to a verdict: medians, ratios, PASS or FAIL of each bar, a table for people and JSON for programs.

Part of bench.py; tested by test_bench.py.
"""

import statistics
from dataclasses import dataclass, field

from rows import METRICS, Bar, Metrics, Row

# Above this share of the proxy's CPU taken by other programs a run is repeated; they cost it its caches. Quiet: 0 to 2 %.
DISTURBED_PERCENT = 10.0

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"


def disturbance(sample: Metrics) -> float:
    """The share of the proxy's CPU that others took while it was timed, in percent; 0 where nothing was timed."""
    return sample.get("others_percent", 0.0)


@dataclass
class ProxyResult:
    """What was measured of one proxy in one row. `absent` says why it was not started at all."""

    samples: list[Metrics] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    once: Metrics = field(default_factory=dict)  # metrics of the separate run that counts allocations
    absent: str | None = None

    def median(self, metric: str) -> float | None:
        values = [sample[metric] for sample in self.samples if metric in sample]
        return statistics.median(values) if values else self.once.get(metric)

    def spread(self, metric: str) -> tuple[float, float] | None:
        values = [sample[metric] for sample in self.samples if metric in sample]
        return (min(values), max(values)) if values else None


@dataclass
class RowResult:
    row: Row
    proxies: dict[str, ProxyResult]

    def ratio(self, metric: str, proxy: str, against: str | None) -> float | None:
        """The median of one proxy as a multiple of that of another."""
        results = [self.proxies.get(name) for name in (proxy, against)]
        medians = [result.median(metric) if result else None for result in results]
        return medians[0] / medians[1] if None not in medians and medians[1] else None

    def verdict(self, bar: Bar) -> tuple[str, float | None, str]:
        """PASS, FAIL or SKIP, the figure, and in words why there is none."""
        subject = self.proxies.get(bar.subject)
        for name in (bar.subject, bar.against):
            result = self.proxies.get(name)
            if name is None:
                continue
            if result is None:
                return SKIP, None, f"{name} was not selected"
            if result.absent:
                return SKIP, None, result.absent
            # An error in one round is an error: a bar is not kept by the rounds that happened to work.
            if result.errors:
                return FAIL, None, f"{name} had an error, see above"
        value = self.ratio(bar.metric, bar.subject, bar.against) if bar.against else subject.median(bar.metric)
        if value is None:
            return FAIL, None, f"nothing was measured of {bar.subject}, or of what it is compared with"
        return (PASS if bar.holds(value) else FAIL), value, ""


# The table ------------------------------------------------------------------------------------------------------------


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def aligned(lines: list[list[str]]) -> list[str]:
    """Columns under each other: the first to the left, the others to the right."""
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                      for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]


def row_text(result: RowResult) -> str:
    row = result.row
    shown = [name for name in METRICS
             if name != row.primary and any(r.median(name) is not None for r in result.proxies.values())]
    # A row of bytes has no time to each request, and one of small responses no use for the time to a gigabyte.
    shown = [name for name in shown if name not in ("cpu_s_per_gb", "mb_per_second") or row.primary == "cpu_s_per_gb"]
    head = ["proxy", METRICS[row.primary].label, "min…max", *([f"× {row.baseline}"] if row.baseline else []),
            *(METRICS[name].label for name in shown)]
    lines = [head]
    remarks = []
    for name, proxy in result.proxies.items():
        if proxy.absent:
            remarks.append(f"{name}: SKIP, {proxy.absent}")
            continue
        if proxy.errors:
            remarks.append(f"{name}: ERROR {proxy.errors[0]}")
        if len(proxy.errors) > 1:
            remarks.append(f"{name}: ERROR and {len(proxy.errors) - 1} more; --json has them all")
        disturbed = sum(disturbance(sample) > DISTURBED_PERCENT for sample in proxy.samples)
        if disturbed:
            remarks.append(f"{name}: DISTURBED, {disturbed} of {len(proxy.samples)} samples were taken while others used "
                           f"more than {DISTURBED_PERCENT:.0f} % of its CPU")
        digits = METRICS[row.primary].digits
        spread = proxy.spread(row.primary)
        lines.append([
            name, number(proxy.median(row.primary), digits),
            "-" if spread is None else f"{spread[0]:,.{digits}f}…{spread[1]:,.{digits}f}",
            *([number(result.ratio(row.primary, name, row.baseline), 2)] if row.baseline else []),
            *(number(proxy.median(metric), METRICS[metric].digits) for metric in shown)])
    text = [f"{row.name}: {row.what}", *("  " + line for line in aligned(lines)), *("  " + line for line in remarks)]
    return "\n".join(text + ["  " + line for line in bar_lines(result)])


def bar_lines(result: RowResult) -> list[str]:
    lines = []
    for bar in result.row.bars:
        verdict, value, why = result.verdict(bar)
        digits = 2 if bar.against else METRICS[bar.metric].digits
        lines.append(f"{verdict}  {bar.text()}: {why if value is None else number(value, digits)}")
    return lines


def summary_text(results: list[RowResult]) -> str:
    lines = [[result.row.name, *line.split("  ", 1)] for result in results for line in bar_lines(result)]
    if not lines:
        return ""
    width = max(len(line[0]) for line in lines)
    return "\n".join(["Bars", *(f"  {name.ljust(width)}  {verdict}  {text}" for name, verdict, text in lines)])


def verdicts(results: list[RowResult]) -> list[str]:
    return [result.verdict(bar)[0] for result in results for bar in result.row.bars]


# JSON -----------------------------------------------------------------------------------------------------------------


def as_json(result: RowResult) -> dict:
    def proxy_json(name: str, proxy: ProxyResult) -> dict:
        metrics = dict.fromkeys(metric for sample in [*proxy.samples, proxy.once] for metric in sample)
        return {
            "median": {metric: proxy.median(metric) for metric in metrics},
            "ratio": result.ratio(result.row.primary, name, result.row.baseline),
            "samples": proxy.samples, "errors": proxy.errors, "absent": proxy.absent,
        }

    def bar_json(bar: Bar) -> dict:
        verdict, value, why = result.verdict(bar)
        return {"text": bar.text(), "metric": bar.metric, "subject": bar.subject, "against": bar.against,
                "limit": bar.limit, "value": value, "verdict": verdict, "why": why}

    return {
        "name": result.row.name, "what": result.row.what, "primary": result.row.primary, "baseline": result.row.baseline,
        "without": result.row.without,
        "proxies": {name: proxy_json(name, proxy) for name, proxy in result.proxies.items()},
        "bars": [bar_json(bar) for bar in result.row.bars],
    }
