// Draws the surfaces of the page with plotly when they come into view, in space and as contours; takes them down when far
// away, since a browser has room for few pictures in space at a time.
(() => {
  "use strict";
  const root = document.documentElement;
  const holder = document.getElementById("surfaces");
  if (!holder) return;
  const specs = JSON.parse(holder.textContent);
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const FONT = getComputedStyle(root).getPropertyValue("--font").trim();
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const config = {
    displaylogo: false, displayModeBar: "hover", responsive: false, scrollZoom: false, showTips: false,
    modeBarButtonsToRemove: ["tableRotation", "hoverClosest3d", "select2d", "lasso2d", "zoom2d", "pan2d", "autoScale2d"],
  };
  let canDraw = null;

  // Without WebGL the still image stays.
  function hasSpace() {
    if (canDraw === null) {
      try {
        const gl = document.createElement("canvas").getContext("webgl");
        canDraw = Boolean(gl);
        gl?.getExtension("WEBGL_lose_context")?.loseContext();
      } catch (error) {
        canDraw = false;
      }
    }
    return canDraw;
  }

  const axis = (text, more = {}) => ({
    title: { text, font: { size: 12 } }, color: colour("soft"), gridcolor: colour("rule"), linecolor: colour("soft"),
    tickcolor: colour("soft"), zerolinecolor: colour("rule"), tickfont: { size: 11, color: colour("soft") }, ...more,
  });

  // Ticks of heights that are logarithms, as the numbers they stand for.
  function heightTicks(spec) {
    if (!spec.log) return {};
    const [low, high] = spec.range;
    const step = Math.max(1, Math.ceil((high - low) / 5));
    const whole = high - low >= 2;
    const values = [];
    for (let k = Math.ceil(low); k <= high; k += step) values.push(k);
    if (!whole) for (let k = Math.floor(low); k <= high; k++) for (const digit of [2, 5]) values.push(k + Math.log10(digit));
    const kept = values.filter((value) => value >= low && value <= high).sort((a, b) => a - b);
    return { tickmode: "array", tickvals: kept, ticktext: kept.map((value) => String(Number((10 ** value).toPrecision(3)))) };
  }

  function common(width, height) {
    return {
      width, height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      font: { family: FONT, size: 12, color: colour("ink") },
      hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("rule"), font: { family: FONT, size: 12, color: colour("ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("ink") },
    };
  }

  // The names of axes in space run along them and are cut at the edge of the picture: long ones take two lines.
  function folded(text, width) {
    const middle = text.length / 2;
    const gaps = [...text.matchAll(/ /g)].map((found) => found.index);
    if (text.length * 17 <= width || !gaps.length || text.includes("<")) return text;
    const gap = gaps.reduce((best, next) => (Math.abs(next - middle) < Math.abs(best - middle) ? next : best));
    return text.slice(0, gap) + "<br>" + text.slice(gap + 1);
  }

  function inSpace(spec, width) {
    const zName = spec.labels[2];
    const [xName, yName] = spec.labels.map((label) => folded(label, width));
    const narrow = width < 400; // a phone: smaller names, and a step back
    const away = narrow ? 1.16 : 1;
    const named = (text) => axis(text, { showbackground: false, title: { text, font: { size: narrow ? 10 : 12 } } });
    const data = [{
      type: "surface", x: spec.x, y: spec.y, z: spec.z, text: spec.words, colorscale: spec.scale, showscale: false,
      cmin: spec.range[0], cmax: spec.range[1],
      contours: { x: { highlight: false }, y: { highlight: false }, z: { highlight: false } },
      hovertemplate: "%{x:.4~g}, %{y:.4~g}: %{text}<extra></extra>",
    }];
    if (spec.marked) {
      const [x, y, z] = spec.marked;
      const [low, high] = spec.range;
      data.push({
        type: "scatter3d", mode: "lines", x: [x, x], y: [y, y], z: [low, high + 0.06 * (high - low)], hoverinfo: "skip",
        line: { color: colour("true"), width: 6 },
      }, {
        type: "scatter3d", mode: "markers", x: [x], y: [y], z: [z], hoverinfo: "skip",
        marker: { color: colour("true"), size: 5, line: { color: "#fff", width: 1 } },
      });
    }
    const layout = {
      ...common(width, Math.min(420, Math.max(300, width))), margin: { l: 0, r: 0, t: 4, b: 0 },
      annotations: [{
        text: zName, showarrow: false, x: 0, y: 1, xref: "paper", yref: "paper", xanchor: "left", yanchor: "top",
        font: { size: 12, color: colour("soft") },
      }],
      scene: {
        xaxis: named(xName), yaxis: named(yName),
        zaxis: axis("", { showbackground: false, ...heightTicks(spec) }),
        aspectmode: "manual", aspectratio: { x: 1, y: 1, z: 0.75 },
        camera: { eye: { x: 1.5 * away, y: 1.5 * away, z: 0.85 * away }, center: { x: 0, y: 0, z: -0.16 } },
      },
    };
    return { data, layout };
  }

  function fromAbove(spec, width) {
    const [xName, yName] = spec.labels;
    const data = [{
      type: "contour", x: spec.x, y: spec.y, z: spec.z, text: spec.words, colorscale: spec.scale, showscale: false,
      zmin: spec.range[0], zmax: spec.range[1], autocontour: false, line: { color: "rgba(255,255,255,0.65)", width: 1 },
      contours: { coloring: "heatmap", start: spec.range[0], end: spec.range[1], size: spec.step },
      hovertemplate: "%{x:.4~g}, %{y:.4~g}: %{text}<extra></extra>",
    }];
    if (spec.path.length) {
      data.push({
        type: "scatter", mode: "lines+markers", x: spec.path.map((p) => p[0]), y: spec.path.map((p) => p[1]), hoverinfo: "skip",
        line: { color: "#fff", width: 2 }, marker: { color: "#fff", size: 4 },
      });
    }
    if (spec.marked) {
      data.push({
        type: "scatter", mode: "markers", x: [spec.marked[0]], y: [spec.marked[1]], hoverinfo: "skip",
        marker: { color: colour("true"), size: 11, line: { color: "#fff", width: 2 } },
      });
    }
    const ends = (values) => [values[0], values[values.length - 1]];
    const layout = {
      ...common(width, Math.min(400, Math.max(280, width * 0.95))), margin: { l: 62, r: 10, t: 10, b: 48 }, dragmode: false,
      xaxis: axis(xName, { range: ends(spec.x), fixedrange: true, ticks: "outside", showgrid: false, zeroline: false }),
      yaxis: axis(yName, { range: ends(spec.y), fixedrange: true, ticks: "outside", showgrid: false, zeroline: false }),
    };
    return { data, layout };
  }

  async function draw(frame) {
    const spec = specs[frame.dataset.surface];
    const [left, right] = frame.querySelectorAll(".relief");
    const wide = frame.clientWidth;
    if (!wide || !hasSpace()) return;
    const side = wide >= 680 ? Math.floor(wide / 2) - 4 : wide;
    const space = inSpace(spec, side);
    const above = fromAbove(spec, side);
    const turned = left.layout?.scene?.camera; // the reader's own view stays
    if (turned) space.layout.scene.camera = turned;
    frame.classList.add("drawn");
    try {
      await Plotly.react(left, space.data, space.layout, config);
      await Plotly.react(right, above.data, above.layout, config);
      frame.dataset.width = wide;
    } catch (error) {
      frame.classList.remove("drawn");
      canDraw = false;
    }
  }

  function takeDown(frame) {
    if (!frame.classList.contains("drawn")) return;
    for (const plot of frame.querySelectorAll(".relief")) Plotly.purge(plot);
    frame.classList.remove("drawn");
  }

  const frames = [...document.querySelectorAll("[data-surface]")];
  const seen = new Set();
  const redraw = () => Promise.all([...seen].map(draw));
  const watch = new IntersectionObserver(async (entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { seen.add(entry.target); await draw(entry.target); }
      else { seen.delete(entry.target); takeDown(entry.target); }
    }
    root.dataset.surfaces = "true";
  }, { rootMargin: "200px 0px" });
  overparamPlotly.then(() => frames.forEach((frame) => watch.observe(frame)), () => {});
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (seen.has(target) && target.clientWidth && String(target.clientWidth) !== target.dataset.width) draw(target);
    }
  });
  for (const frame of frames) sizes.observe(frame);
  new MutationObserver(redraw).observe(root, { attributes: true, attributeFilter: ["data-theme"] });
  prefersDark.addEventListener("change", redraw);
})();
