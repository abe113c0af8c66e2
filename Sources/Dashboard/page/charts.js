// Charts of the last hour as inline SVG. Each has a sentence for who does not see it and a table of its numbers; the line
// below shows the values at the pointer. Text goes in as text content alone.

const SPACE = "http://www.w3.org/2000/svg";
const HEIGHT = 170, LEFT = 46, RIGHT = 8, TOP = 8, BOTTOM = 22;
const HOUR = 3600000;
// More than two intervals between samples is a gap: the machine slept.
const GAP = 25000;

export function svg(name, attributes = {}, ...children) {
  const node = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

// 0, 50, 100 …: round steps up to the greatest value.
function ticks(greatest) {
  if (!(greatest > 0)) return [0, 1];
  const rough = greatest / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= rough);
  const found = [];
  for (let value = 0; value < greatest + step; value += step) found.push(value);
  return found;
}

export class Chart {
  // kind: "lines" or "bars" (stacked, a minute each)
  constructor(title, kind, format) {
    this.title = title;
    this.kind = kind;
    this.format = format;
    this.plot = svg("svg", { class: "chart", role: "img" });
    this.width = 560;
    this.legend = element("ul", { class: "legend", "aria-hidden": "true" });
    this.reading = element("p", { class: "reading", "aria-hidden": "true" });
    this.numbers = element("tbody");
    const heads = ["Series", "Now", "Mean", "Greatest"].map((text, index) =>
      element("th", { scope: "col", class: index ? "number" : null }, text));
    const table = element("table", {}, element("caption", { class: "unseen" }, title),
      element("thead", {}, element("tr", {}, ...heads)), this.numbers);
    this.figure = element("figure", {}, element("figcaption", {}, title), this.legend, this.plot, this.reading,
      element("details", {}, element("summary", {}, "Numbers"), table));
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.unpoint());
  }

  // times: milliseconds, ascending; series: [{name, values}] with null where there is no value
  draw(times, series, now) {
    this.last = [times, series, now];
    // One unit is one pixel, so that text keeps its size.
    this.width = Math.max(260, this.plot.clientWidth || this.width);
    this.plot.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.from = now - HOUR;
    [this.times, this.series] = this.kind === "bars" ? this.minutes(times, series, now) : [times, series];
    const greatest = this.kind === "bars"
      ? Math.max(0, ...this.times.map((_, index) => this.series.reduce((sum, one) => sum + one.values[index], 0)))
      : Math.max(0, ...series.flatMap((one) => one.values.filter((value) => value != null)));
    const marks = ticks(greatest);
    this.top = marks[marks.length - 1];
    const parts = marks.flatMap((value) => [
      svg("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: this.y(value), y2: this.y(value) }),
      svg("text", { x: LEFT - 6, y: this.y(value) + 4, "text-anchor": "end" }, this.format(value)),
    ]);
    const step = this.width < 420 ? 30 : 15;
    for (let minutes = 0; minutes <= 60; minutes += step) {
      const at = now - minutes * 60000;
      const anchor = minutes === 0 ? "end" : minutes === 60 ? "start" : "middle";
      parts.push(svg("text", { x: this.x(at), y: HEIGHT - 6, "text-anchor": anchor }, clock(at)));
    }
    parts.push(...(this.kind === "bars" ? this.bars() : this.lines()));
    this.cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    this.plot.replaceChildren(...parts, this.cursor);
    this.describe();
  }

  redraw() { if (this.last) this.draw(...this.last); }

  x(time) { return LEFT + (this.width - LEFT - RIGHT) * Math.min(1, Math.max(0, (time - this.from) / HOUR)); }
  y(value) { return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / this.top); }

  lines() {
    return this.series.map((one, number) => {
      let path = "", before = null;
      one.values.forEach((value, index) => {
        const time = this.times[index];
        if (value == null || time < this.from) { before = null; return; }
        const joined = before != null && time - before < GAP;
        path += `${joined ? "L" : "M"}${this.x(time).toFixed(1)} ${this.y(value).toFixed(1)}`;
        // A sample between gaps would be no line at all.
        if (!joined) path += "h.1";
        before = time;
      });
      return svg("path", { class: `line s${number + 1}`, d: path });
    });
  }

  minutes(times, series, now) {
    const count = 60, sums = series.map(() => new Array(count).fill(0));
    times.forEach((time, index) => {
      const slot = count - 1 - Math.floor((now - time) / 60000);
      if (slot < 0 || slot >= count) return;
      series.forEach((one, number) => { sums[number][slot] += one.values[index] ?? 0; });
    });
    return [Array.from({ length: count }, (_, slot) => now - (count - 1 - slot) * 60000),
      series.map((one, number) => ({ name: one.name, values: sums[number] }))];
  }

  bars() {
    const width = (this.width - LEFT - RIGHT) / 60, parts = [];
    this.times.forEach((_, slot) => {
      let sum = 0;
      this.series.forEach((one, number) => {
        const value = one.values[slot];
        if (!value) return;
        const [low, high] = [this.y(sum), this.y(sum + value)];
        sum += value;
        parts.push(svg("rect", { class: `bar s${number + 1}`, x: (LEFT + slot * width + .5).toFixed(1),
          y: high.toFixed(1), width: (width - 1).toFixed(1), height: Math.max(.5, low - high).toFixed(1) }));
      });
    });
    return parts;
  }

  // The same for who does not see it.
  describe() {
    const rows = [], sentences = [];
    this.legend.replaceChildren(...this.series.map((one, number) => {
      const mark = this.kind === "bars"
        ? svg("rect", { class: `bar s${number + 1}`, x: 4, y: 0, width: 14, height: 9 })
        : svg("path", { class: `line s${number + 1}`, d: "M0 5H22" });
      return element("li", {}, svg("svg", { viewBox: "0 0 22 9" }, mark), one.name);
    }));
    for (const one of this.series) {
      const values = one.values.filter((value) => value != null);
      const last = one.values[one.values.length - 1];
      const most = values.length ? Math.max(...values) : null;
      const mean = values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null;
      const [now, middle, top] = [last, mean, most].map((value) => value == null ? "none" : this.format(value));
      rows.push(element("tr", {}, element("th", { scope: "row" }, one.name), element("td", { class: "number" }, now),
        element("td", { class: "number" }, middle), element("td", { class: "number" }, top)));
      sentences.push(`${one.name}: now ${now}, greatest ${top}`);
    }
    this.numbers.replaceChildren(...rows);
    this.plot.setAttribute("aria-label", `${this.title} over the last hour. ${sentences.join("; ")}.`);
  }

  point(event) {
    if (!this.times?.length) return;
    const box = this.plot.getBoundingClientRect();
    const time = this.from + ((event.clientX - box.left) / box.width * this.width - LEFT) / (this.width - LEFT - RIGHT) * HOUR;
    let nearest = 0;
    this.times.forEach((one, index) => {
      if (Math.abs(one - time) < Math.abs(this.times[nearest] - time)) nearest = index;
    });
    const at = this.x(this.times[nearest]);
    this.cursor.setAttribute("x1", at);
    this.cursor.setAttribute("x2", at);
    this.cursor.setAttribute("visibility", "visible");
    const values = this.series.map((one) =>
      `${one.name} ${one.values[nearest] == null ? "none" : this.format(one.values[nearest])}`);
    this.reading.textContent = `${clock(this.times[nearest])}  ${values.join(", ")}`;
  }

  unpoint() {
    this.cursor?.setAttribute("visibility", "hidden");
    this.reading.textContent = "";
  }
}

export function clock(time) {
  return new Date(time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

// A year from now as a track, and how much of it is left. The days stand beside it as text.
export function timeline(days) {
  const share = Math.max(0, Math.min(1, days / 365));
  const state = days < 0 ? "over" : days < 30 ? "soon" : "";
  return svg("svg", { class: "timeline", viewBox: "0 0 144 14", "aria-hidden": "true" },
    svg("rect", { class: "track", x: 0, y: 5, width: 144, height: 4, rx: 2 }),
    svg("rect", { class: `left ${state}`, x: 0, y: 3, width: Math.max(3, share * 144), height: 8, rx: 3 }));
}
