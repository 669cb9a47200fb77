// Draws the figures of the page with plotly, in the colours of the current theme, at the width they have.
(() => {
  "use strict";
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const FONT = getComputedStyle(root).getPropertyValue("--font").trim();
  const { SIZE, ROW, wrap, cut, textWidth, tickLogAxis, placeAbove, placeBeside } = overparamPlaces;

  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  // Colours by name: the traces say which ink they have.
  function paint(spec) {
    for (const trace of spec.data) {
      const ink = colour(trace.meta.ink);
      if (trace.meta.part === "band") {
        trace.fillcolor = ink + (isDark() ? "40" : "33");
        trace.line.color = ink;
      } else {
        if (trace.line) trace.line.color = ink;
        if (trace.marker) trace.marker.color = ink;
        if (trace.error_y) trace.error_y.color = trace.type === "bar" ? colour("ink") : ink;
      }
    }
    const axis = {
      linecolor: colour("soft"), tickcolor: colour("soft"), gridcolor: colour("grid"),
      tickfont: { color: colour("soft"), size: SIZE },
    };
    Object.assign(spec.layout.xaxis, axis);
    Object.assign(spec.layout.yaxis, axis);
    for (const shape of spec.layout.shapes) shape.line.color = colour("soft");
    Object.assign(spec.layout, {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: FONT, size: SIZE, color: colour("ink") },
      hoverlabel: {
        bgcolor: colour("panel"), bordercolor: colour("rule"), namelength: -1,
        font: { family: FONT, size: SIZE, color: colour("ink") },
      },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("ink") },
    });
  }

  // Labels as plotly annotations; those of vertical lines are led to by their lines.
  function labels(spec, upright, width, height) {
    const common = { showarrow: false, font: { color: colour("soft"), size: SIZE }, borderpad: 1 };
    const above = upright.labels.map(({ line, place, row, words, shift }) => {
      spec.layout.shapes[line.index].y1 = 1 + ((row + words.length) * ROW - 3) / height;
      return {
        ...common, text: words.join("<br>"), x: place, xref: "x", xanchor: "left", xshift: shift, align: "left",
        y: 1, yref: "paper", yanchor: "bottom", yshift: row * ROW, bgcolor: colour("page"),
      };
    });
    const beside = placeBeside(spec, width, height).map(({ place, words, side, over }) => ({
      ...common, text: words.join("<br>"), x: side === "right" ? 1 : 0, xref: "paper", xanchor: side, align: side,
      y: place, yref: "y", yanchor: over ? "bottom" : "top", bgcolor: colour("page") + "cc",
    }));
    return [...above, ...beside];
  }

  // Sizes, margins, wrapped titles and labels for the width the figure has now.
  function fit(spec, frame) {
    const wide = frame.clientWidth;
    const narrow = wide < 560;
    const layout = spec.layout;
    const left = narrow ? 58 : 72;
    const plotWidth = wide - left - (narrow ? 8 : 16);
    const upright = placeAbove(spec, plotWidth, narrow ? 8 : 16);
    const top = 10 + upright.rows * ROW;
    const titleSize = narrow ? SIZE : SIZE + 1;
    const plotHeight = narrow ? 240 : Math.min(360, Math.max(280, wide * 0.45));
    const xWords = wrap(spec.home.xaxis.title, plotWidth, titleSize);
    const yWords = wrap(spec.home.yaxis.title, plotHeight, titleSize);
    const category = spec.home.xaxis.type === "category";
    layout.width = wide;
    layout.height = top + plotHeight + 44 + xWords.length * 15;
    layout.margin = { l: left + (yWords.length - 1) * 15, r: narrow ? 8 : 16, t: top, b: 44 + xWords.length * 15, pad: 0 };
    layout.xaxis.title = { text: xWords.join("<br>"), standoff: 10, font: { size: titleSize } };
    layout.yaxis.title = { text: yWords.join("<br>"), standoff: 8, font: { size: titleSize } };
    layout.xaxis.range = spec.home.xaxis.range.slice();
    layout.yaxis.range = spec.home.yaxis.range.slice();
    if (category) {
      const names = spec.home.xaxis.categoryarray;
      const room = plotWidth / names.length - 6;
      const broken = names.map((name) => wrap(name, Math.max(room, 40)));
      const whole = (name) => name.split(" ").every((word) => textWidth(word) <= room);
      const fits = names.every(whole) && broken.every((lines) => lines.length <= 4);
      Object.assign(layout.xaxis, {
        tickmode: "array", tickvals: names, tickangle: fits ? 0 : -40,
        ticktext: fits ? broken.map((lines) => lines.join("<br>")) : names.map((name) => cut(name, 20)),
      });
    } else {
      layout.xaxis.nticks = narrow ? 6 : 10;
    }
    spec.most = { xaxis: narrow ? 5 : 9, yaxis: narrow ? 6 : 8 };
    for (const trace of spec.data) if (trace.meta.size) trace.marker.size = trace.meta.size * (narrow ? 0.8 : 1);
    tickAxes(spec, spec.home.xaxis.range, spec.home.yaxis.range);
    layout.annotations = labels(spec, upright, plotWidth, plotHeight);
    // A drag on a phone scrolls the page; it must not zoom the figure under the finger.
    const touch = narrow || matchMedia("(pointer: coarse)").matches;
    layout.dragmode = touch ? false : "zoom";
    layout.xaxis.fixedrange = layout.yaxis.fixedrange = touch;
    return touch;
  }

  function tickAxes(spec, xRange, yRange) {
    if (spec.layout.xaxis.type === "log") tickLogAxis(spec.layout.xaxis, xRange, spec.most.xaxis);
    if (spec.layout.yaxis.type === "log") tickLogAxis(spec.layout.yaxis, yRange, spec.most.yaxis);
  }

  // After a zoom: new ticks for the part that is seen.
  function afterZoom(plot, spec, change) {
    if (!Object.keys(change).some((key) => /^[xy]axis\.(range|autorange)/.test(key))) return;
    tickAxes(spec, plot.layout.xaxis.range, plot.layout.yaxis.range);
    Plotly.react(plot, spec.data, spec.layout, spec.config);
  }

  async function draw(plot, spec) {
    const frame = plot.parentElement;
    if (!window.Plotly || frame.closest("details:not([open])")) return; // the still image stays; a fold draws when opened
    paint(spec);
    const touch = fit(spec, frame);
    spec.width = frame.clientWidth;
    spec.config = {
      displaylogo: false, displayModeBar: touch ? false : "hover", scrollZoom: false, responsive: false, showTips: false,
      modeBarButtons: [["toImage", "resetScale2d"]],
      toImageButtonOptions: { format: "svg", filename: spec.file },
    };
    await Plotly.react(plot, spec.data, spec.layout, spec.config);
    if (!spec.listens) plot.on("plotly_relayout", (change) => afterZoom(plot, spec, change));
    spec.listens = true;
    frame.classList.add("drawn"); // hides the still image
  }

  function toggle(plot, spec, button) {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    for (const trace of spec.data) if (String(trace.meta.series) === button.dataset.series) trace.visible = on;
    draw(plot, spec);
  }

  async function start() {
    const specs = JSON.parse(document.getElementById("figures").textContent);
    const plots = [...document.querySelectorAll(".plot")];
    const jobs = plots.map((plot) => {
      const spec = specs[plot.dataset.figure];
      const { xaxis, yaxis } = spec.layout;
      spec.home = {
        xaxis: { type: xaxis.type, range: xaxis.range, title: xaxis.title.text, categoryarray: xaxis.categoryarray },
        yaxis: { type: yaxis.type, range: yaxis.range, title: yaxis.title.text },
      };
      spec.file = plot.closest("figure").querySelector("h3").textContent.replace(/[^A-Za-z0-9]+/g, "-").slice(0, 60);
      for (const button of plot.closest("figure").querySelectorAll(".legend button")) {
        button.addEventListener("click", () => toggle(plot, spec, button));
      }
      return [plot, spec];
    });
    const redraw = () => jobs.reduce((before, [plot, spec]) => before.then(() => draw(plot, spec)), Promise.resolve());
    themeButton(redraw);
    prefersDark.addEventListener("change", redraw);
    await overparamPlotly.then(redraw, () => {});
    const watch = new ResizeObserver((entries) => {
      for (const { target } of entries) {
        const [plot, spec] = jobs.find(([p]) => p.parentElement === target);
        if (target.clientWidth && target.clientWidth !== spec.width) draw(plot, spec);
      }
    });
    for (const [plot] of jobs) watch.observe(plot.parentElement);
    for (const fold of document.querySelectorAll("details")) {
      fold.addEventListener("toggle", () => jobs.filter(([plot]) => fold.contains(plot)).forEach(([plot, spec]) => draw(plot, spec)));
    }
    root.dataset.ready = "true";
  }

  function themeButton(redraw) {
    const button = document.getElementById("theme");
    const say = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`); };
    button.hidden = false;
    say();
    prefersDark.addEventListener("change", say);
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("overparam-theme", root.dataset.theme); } catch (error) { /* not remembered, still applied */ }
      say();
      redraw();
    });
  }

  function markCurrent() {
    const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const a of links.values()) a.removeAttribute("aria-current");
        links.get(entry.target.id)?.setAttribute("aria-current", "true");
      }
    }, { rootMargin: "0px 0px -75% 0px" });
    for (const id of links.keys()) watch.observe(document.getElementById(id));
  }

  // Folded sections open when a link leads to them, and on paper.
  function unfold() {
    const folds = [...document.querySelectorAll("details")];
    const reveal = (hash) => {
      const target = hash.length > 1 && document.getElementById(decodeURIComponent(hash.slice(1)));
      const fold = target && target.querySelector(":scope > details:not([open])");
      if (!fold) return;
      fold.open = true;
      target.scrollIntoView();
    };
    for (const link of document.querySelectorAll('a[href^="#"]')) link.addEventListener("click", () => reveal(link.hash));
    addEventListener("hashchange", () => reveal(location.hash));
    reveal(location.hash);
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = folds.filter((fold) => !fold.open);
      for (const fold of opened) fold.open = true;
    });
    addEventListener("afterprint", () => { for (const fold of opened) fold.open = false; });
  }

  markCurrent();
  unfold();
  start();
})();
