// Where ticks and the labels of reference lines go, in pixels of the plot: clear of each other and of the edges.
const overparamPlaces = (() => {
  "use strict";
  const pen = document.createElement("canvas").getContext("2d");
  const FONT = getComputedStyle(document.documentElement).getPropertyValue("--font").trim();
  const SIZE = 12;
  const ROW = 17;

  // Labels come escaped for plotly; they are measured and broken as the characters shown.
  const plain = (text) => text.replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&#36;/g, "$").replace(/&amp;/g, "&");
  const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
  const unit = (value, axis) => (axis.type === "log" ? Math.log10(value) : value);
  const share = (value, axis) => (unit(value, axis) - axis.range[0]) / (axis.range[1] - axis.range[0]);
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

  function measure(shown, size) {
    pen.font = `${size}px ${FONT}`;
    return pen.measureText(shown).width;
  }

  const textWidth = (text, size = SIZE) => measure(plain(text), size);

  // Breaks a label into lines that fit; plotly would let it run out of the figure.
  function wrap(text, width, size = SIZE) {
    const lines = [""];
    for (let word of plain(text).split(" ")) {
      for (; word.length > 1 && measure(word, size) > width; ) { // a word wider than a line is cut
        let end = word.length;
        while (end > 1 && measure(word.slice(0, end), size) > width) end--;
        lines.push(word.slice(0, end));
        word = word.slice(end);
      }
      const last = lines[lines.length - 1];
      const longer = last ? `${last} ${word}` : word;
      if (!last || measure(longer, size) <= width) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return (lines[0] || lines.length === 1 ? lines : lines.slice(1)).map(escaped);
  }

  // The beginning of a name that would take too much room.
  const cut = (text, most) => (plain(text).length <= most ? text : escaped(plain(text).slice(0, most - 1)) + "…");

  // Ticks of a log axis at powers of ten, or at 1, 2, 5 where it spans little; plotly's own mix sizes.
  function tickLogAxis(axis, [low, high], most) {
    const first = Math.ceil(low - 1e-9);
    const last = Math.floor(high + 1e-9);
    const powers = last - first >= 2;
    const step = Math.max(1, Math.ceil((last - first + 1) / most));
    const major = [];
    const minor = [];
    for (let k = Math.floor(low); k <= high; k++) {
      for (const digit of [1, 2, 3, 4, 5, 6, 7, 8, 9]) {
        const value = Number(`${digit}e${k}`);
        if (Math.log10(value) < low || Math.log10(value) > high) continue;
        const named = powers ? digit === 1 && k % step === 0 : high - low < 0.5 || [1, 2, 5].includes(digit);
        if (named) major.push(value);
        else if (digit === 1 || last - first < 12) minor.push(value);
      }
    }
    if (major.length < 2) { // zoomed in further than digits go
      Object.assign(axis, { tickmode: "auto", nticks: most });
      return;
    }
    const long = major.some((value) => value < 2e-3 || value >= 1e5);
    Object.assign(axis, { tickmode: "array", tickvals: major, ticktext: major.map((v) => tickText(v, long && powers)) });
    Object.assign(axis.minor, { tickmode: "array", tickvals: minor });
  }

  function tickText(value, power) {
    const [digits, exponent] = value.toExponential(0).split("e").map(Number);
    if (power) return exponent === 0 ? "1" : exponent === 1 ? "10" : `10<sup>${minus(exponent)}</sup>`;
    if (exponent < -4 || exponent > 4) return `${digits} × 10<sup>${minus(exponent)}</sup>`;
    return value.toLocaleString("en", { maximumFractionDigits: 6 });
  }

  const minus = (number) => String(number).replace("-", "−");

  // Labels of vertical lines stand above the plot in rows. Taken from the right, so that a line further
  // left passes beside the labels already placed.
  function placeAbove(spec, width, room) {
    const axis = spec.home.xaxis;
    const rows = [];
    const lines = spec.lines.map((line, index) => ({ ...line, index })).filter((line) => line.x !== null);
    const labels = lines.sort((a, b) => b.x - a.x).map((line) => {
      const at = share(line.x, axis) * width;
      const words = wrap(line.label, width - 8);
      const wide = Math.max(...words.map((word) => textWidth(word))) + 8;
      const left = at + 2 + wide <= width + room ? at + 2 : Math.max(0, Math.min(at, width) - wide);
      const fits = (row) => !row || row.every((other) => left > other[1] || left + wide < other[0]);
      let row = 0;
      while (!words.every((_, k) => fits(rows[row + k]))) row++;
      words.forEach((_, k) => (rows[row + k] ||= []).push([Math.min(left, at), Math.max(left + wide, at)]));
      return { line, row, words, place: unit(line.x, axis), shift: left - at };
    });
    return { labels, rows: rows.length };
  }

  // Where the data are: points, and for bars their whole body.
  function dots(spec, width, height) {
    const { xaxis, yaxis } = spec.home;
    const found = [];
    const bar = xaxis.categoryarray ? (0.375 * width) / xaxis.categoryarray.length : 8;
    for (const trace of spec.data) {
      if (trace.meta.part === "band" || trace.visible === false) continue;
      trace.y.forEach((y, i) => {
        const x = xaxis.type === "category" ? xaxis.categoryarray.indexOf(trace.x[i]) : trace.x[i];
        if (y === null || x === null) return;
        const left = share(x, xaxis) * width;
        const top = (1 - share(y, yaxis)) * height;
        if (trace.type !== "bar") found.push([left, top]);
        else for (let at = top; at < height; at += 6) found.push([left - bar, at], [left, at], [left + bar, at]);
      });
    }
    return found;
  }

  // Labels of horizontal lines stand at either end, above or below: where they hide the least.
  function placeBeside(spec, width, height) {
    const lines = spec.lines.filter((line) => line.x === null);
    const data = lines.length ? dots(spec, width, height) : [];
    const taken = [];
    return lines.map((line) => {
      const at = (1 - share(line.y, spec.home.yaxis)) * height;
      const words = wrap(line.label, width * 0.7);
      const wide = Math.max(...words.map((word) => textWidth(word))) + 8;
      const high = words.length * ROW;
      let best = null;
      for (const [side, over] of [["right", true], ["right", false], ["left", true], ["left", false]]) {
        const left = side === "right" ? width - wide : 0;
        const top = over ? at - high - 2 : at + 2;
        const box = { left, right: left + wide, top, bottom: top + high, side, over };
        box.cost = 1e6 * (top < 0 || box.bottom > height) + 1e4 * taken.filter((other) => meet(box, other)).length
          + data.filter(([x, y]) => x > left && x < box.right && y > top && y < box.bottom).length;
        if (!best || box.cost < best.cost) best = box;
      }
      taken.push(best);
      return { ...best, words, place: unit(line.y, spec.home.yaxis) };
    });
  }

  return { SIZE, ROW, wrap, cut, textWidth, tickLogAxis, placeAbove, placeBeside };
})();
