// The controls of the page: loss, steps, movement and laziness computed here from two stored measures, by the formulas of
// `theory` (dynamics, movement, lazy_regime, label_noise), and a curve drawn from them. No other library is needed.
(() => {
  "use strict";
  const TURNED = 0.1; // how far rounding may turn a direction before later steps mean nothing
  const GROWN = 1e3; // a loss of so many times its start is not shown
  const RUN_AWAY = 1e6; // nor a squared movement of so many times rate × ‖labels‖²
  const MOST_STEPS = 1e12;

  // What every node does at a rate (of the summed loss): log |1 − ηx|.
  function atRate(measure, rate, perturbation) {
    const nodes = measure.nodes.map((x) => Math.max(x, 0));
    const logs = nodes.map((x) => (rate * x < 1 ? Math.log1p(-rate * x) : Math.log(rate * x - 1)));
    const shift = perturbation * rate;
    return { ...measure, nodes, logs, rate, perturbation, last: shift > 0 ? Math.floor(TURNED / shift) : Infinity };
  }

  const total = ({ weights }) => weights.reduce((sum, w) => sum + w, 0);

  // Σ w (1 − ηx)^{2s}, over its start.
  function lossAfter(run, steps) {
    const s = Math.min(steps, run.last);
    let sum = 0;
    for (let i = 0; i < run.logs.length; i++) sum += run.weights[i] * (s === 0 ? 1 : Math.exp(2 * s * run.logs[i]));
    const share = sum / run.mass;
    return share <= GROWN ? share : Infinity;
  }

  // (1 − (1 − ηx)^s)/x.
  function growth(x, log, steps, rate) {
    const z = rate * x;
    if (steps === 0) return 0;
    if (z * Math.max(steps, 1) < 1e-290) return rate * steps;
    if (z < 1) return -Math.expm1(steps * log) / x;
    return (steps % 2 === 0 ? -Math.expm1(steps * log) : 1 + Math.exp(steps * log)) / x;
  }

  // √Σ w x growth²; late, what rounding cannot tell from 0 is left out: it would look as if it had moved.
  function movedAfter(run, steps, isStable) {
    let sum = 0;
    for (let i = 0; i < run.nodes.length; i++) {
      const x = run.nodes[i];
      if (steps > run.last && !(x > run.perturbation)) continue;
      sum += run.weights[i] * x * growth(x, run.logs[i], steps, run.rate) ** 2;
    }
    const grown = isStable ? Number.isNaN(sum) : !(sum <= RUN_AWAY * run.mass * run.rate);
    return grown ? Infinity : Math.sqrt(sum);
  }

  // The first step at which the loss is at most `share` of its start; null: never.
  function stepsTo(run, share, falls) {
    if (!falls) return null;
    let high = 1;
    while (high < MOST_STEPS && lossAfter(run, high) > share) high *= 2;
    high = Math.min(high, MOST_STEPS);
    if (lossAfter(run, high) > share) return null;
    let low = Math.floor(high / 2);
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (lossAfter(run, middle) > share) low = middle;
      else high = middle;
    }
    return high;
  }

  // Labels of which a share p is drawn anew: E zᵀf(H)z = (1 − p)² yᵀf(H)y + (1 − (1 − p)²) ‖y‖²/n tr f(H), since a label
  // drawn anew has mean 0 and draws are independent; random labels give the trace. Both measures have the same weight.
  function redrawn(labels, random, share) {
    const kept = (1 - share) ** 2;
    return {
      nodes: [...labels.nodes, ...random.nodes],
      weights: [...labels.weights.map((w) => kept * w), ...random.weights.map((w) => (1 - kept) * w)],
    };
  }

  function computed(spec, set) {
    const [largest, lower, upper] = spec.largest_rate;
    const isStable = set.rate <= lower;
    const falls = isStable || set.rate <= largest;
    const sides = { labels: spec.labels };
    if (spec.noise) sides.noisy = redrawn(spec.labels, spec.random, set.noise);
    const mass = total(spec.labels);
    const found = { runs: {}, values: {}, isStable, state: falls ? (isStable ? "stable" : "undecided") : set.rate > upper ? "unstable" : "undecided" };
    for (const [side, measure] of Object.entries(sides)) {
      const run = { ...atRate(measure, set.rate * spec.scale, spec.perturbation), mass };
      const moved = movedAfter(run, set.steps, isStable);
      const lazy = moved / (Math.sqrt(set.width) * set.kappa);
      found.runs[side] = run;
      found.values[side] = {
        loss: lossAfter(run, set.steps), tenth: stepsTo(run, 0.1, falls), hundredth: stepsTo(run, 0.01, falls),
        moved, lazy, flips: Math.atan(spec.alignment * lazy) / Math.PI,
      };
    }
    return found;
  }

  // Numbers as the rest of the page has them.
  const raised = (power) => [...String(power)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");
  function words(value, digits = 4) {
    if (value === null || Number.isNaN(value)) return "never";
    if (!Number.isFinite(value)) return "∞";
    if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString("en");
    const [mantissa, power] = value.toExponential(digits - 1).split("e").map(Number);
    if (power >= -4 && power < 6) return Number(value.toPrecision(digits)).toLocaleString("en", { maximumFractionDigits: 8 });
    return `${mantissa} × 10${raised(power)}`;
  }

  const SHOWN = {
    flips: (value) => `${words(100 * value, 3)}%`,
    lazy: (value) => `${words(value, 3)} (${value <= 0.1 ? "lazy" : value <= 1 ? "borderline" : "not lazy"})`,
  };

  // The curve: loss against steps, both axes in powers of ten.
  const make = (name, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  function powerText(x, y, power, anchor) {
    const text = make("text", { x, y, "text-anchor": anchor, class: "f-soft" }, power === 0 ? "1" : "10");
    if (power !== 0 && power !== 1) text.append(make("tspan", { dy: -4, "font-size": 9.5 }, String(power).replace("-", "−")));
    return text;
  }

  function grid(last) {
    const steps = new Set();
    for (let i = 0; i <= 160; i++) steps.add(Math.round(10 ** ((i / 160) * last)));
    return [...steps];
  }

  function drawCurve(holder, found, set) {
    const width = Math.max(280, holder.clientWidth || 640);
    const height = width < 560 ? 260 : 320;
    const reached = Object.values(found.values).map((v) => v.hundredth ?? 1e4);
    const last = Math.min(9, Math.max(2, Math.ceil(Math.log10(Math.max(set.steps, ...reached) * 1.01))));
    const steps = grid(last);
    const curves = Object.entries(found.runs).map(([side, run]) => [side, steps.map((s) => lossAfter(run, s))]);
    const seen = curves.flatMap(([, losses]) => losses).filter((loss) => loss > 0 && Number.isFinite(loss));
    const low = Math.max(-5, Math.min(-2, Math.floor(Math.log10(Math.min(...seen, 1)))));
    const high = Math.min(3, Math.max(0, Math.ceil(Math.log10(Math.max(...seen, 1)) - 1e-9)));
    const [left, right, top, bottom] = [62, width - 12, 12, height - 44];
    const x = (s) => left + (Math.log10(s) / last) * (right - left);
    const y = (loss) => bottom - ((Math.log10(loss) - low) / (high - low)) * (bottom - top);
    const picture = make("svg", {
      viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "font-size": 12,
      "aria-label": `Predicted training loss over its start, against steps up to ${words(10 ** last)}`,
    });
    const rule = (d, ink, more = {}) => picture.append(make("path", { d, fill: "none", class: `s-${ink}`, ...more }));
    for (let k = 0; k <= last; k += last > 6 ? 2 : 1) {
      rule(`M${x(10 ** k)} ${top}V${bottom}`, "grid");
      picture.append(powerText(x(10 ** k), bottom + 18, k, "middle"));
    }
    for (let k = low; k <= high; k++) {
      rule(`M${left} ${y(10 ** k)}H${right}`, "grid");
      picture.append(powerText(left - 8, y(10 ** k) + 4, k, "end"));
    }
    rule(`M${left} ${top}V${bottom}H${right}`, "soft");
    picture.append(make("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle", class: "f-ink" }, "steps"));
    const middle = (top + bottom) / 2;
    picture.append(make("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})`, class: "f-ink" }, "loss / loss at start"));
    if (set.steps >= 1 && Math.log10(set.steps) <= last) rule(`M${x(set.steps)} ${top}V${bottom}`, "soft", { "stroke-dasharray": "2 3", "stroke-width": 1.3 });
    for (const [side, losses] of curves.reverse()) { // these labels on top
      const ink = side === "labels" ? "true" : "random";
      let d = "";
      losses.forEach((loss, i) => {
        if (!(Number.isFinite(loss) && loss >= 10 ** low && loss <= 10 ** high)) return;
        d += `${d ? "L" : "M"}${x(steps[i]).toFixed(1)} ${y(loss).toFixed(1)}`;
      });
      rule(d, ink, { "stroke-width": 2.4, "stroke-linejoin": "round", "data-side": side });
      const here = found.values[side].loss;
      if (set.steps >= 1 && here >= 10 ** low && here <= 10 ** high) picture.append(make("circle", { cx: x(set.steps), cy: y(here), r: 4.5, class: `f-${ink}` }));
    }
    holder.replaceChildren(picture);
  }

  const STATES = {
    stable: (limit) => `Largest stable rate: ${limit}. At this rate the loss falls.`,
    undecided: (limit) => `Largest stable rate: about ${limit}, and this rate is too near to tell.`,
    unstable: (limit) => `Largest stable rate: ${limit}. Above it the loss grows.`,
  };

  function connect(figure, spec) {
    const set = {};
    const wholes = ["steps", "width"];
    const dials = [...figure.querySelectorAll(".dial")].map((box) => {
      const name = box.dataset.dial;
      const [field, slider] = box.querySelectorAll("input");
      const { start, least, most } = spec[name];
      const even = name === "noise";
      set[name] = start;
      const value = (place) => {
        const share = place / slider.max;
        const found = even ? least + share * (most - least) : least * (most / least) ** share;
        return wholes.includes(name) ? Math.round(found) : Number(found.toPrecision(3));
      };
      const place = (found) => {
        const share = even ? (found - least) / (most - least) : Math.log(found / least) / Math.log(most / least);
        slider.value = Math.round(Math.min(1, Math.max(0, share)) * slider.max);
      };
      const allowed = (found) => field.value !== "" && Number.isFinite(found)
        && (even ? found >= 0 && found <= 1 : wholes.includes(name) ? Number.isInteger(found) && found >= 1 : found > 0);
      place(start);
      slider.addEventListener("input", () => { set[name] = value(Number(slider.value)); field.value = set[name]; field.removeAttribute("aria-invalid"); show(); });
      field.addEventListener("input", () => {
        const found = Number(field.value);
        if (!allowed(found)) { field.setAttribute("aria-invalid", "true"); return; }
        field.removeAttribute("aria-invalid");
        set[name] = found;
        place(found);
        show();
      });
      return name;
    });
    const out = (name) => figure.querySelector(`output[data-of="${name}"]`);
    const curve = figure.querySelector(".curve");
    let found = null;

    function show() {
      found = computed(spec, set);
      for (const [side, values] of Object.entries(found.values)) {
        for (const [name, value] of Object.entries(values)) {
          const cell = out(`${side}-${name}`);
          cell.dataset.value = value;
          cell.textContent = Number.isFinite(value) && value !== null && SHOWN[name] ? SHOWN[name](value) : words(value);
        }
      }
      const state = out("state");
      state.textContent = STATES[found.state](words(spec.largest_rate[0]));
      state.dataset.value = found.state;
      state.className = found.state === "stable" ? "" : "remark warning";
      drawCurve(curve, found, set);
    }

    figure.querySelector(".live").hidden = false;
    figure.querySelector(".without").hidden = true;
    show();
    new ResizeObserver(() => { if (curve.clientWidth) drawCurve(curve, found, set); }).observe(curve);
    return dials;
  }

  const specs = JSON.parse(document.getElementById("controls").textContent);
  for (const figure of document.querySelectorAll("[data-controls]")) connect(figure, specs[figure.dataset.controls]);
})();
