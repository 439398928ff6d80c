// The page of the dashboard: what the server tells is put in its place, accuracy is drawn with uPlot, devices on a canvas.
"use strict";
(() => {
  const byId = id => document.getElementById(id);
  const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const run = document.body.dataset.run;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // ---- accuracy against time, in steps
  const mine = { t: [], a: [], said: "" };
  let other = null, plot = null, number = false; // a score that is a number, such as R2, and no percentage
  const scoreText = value => number ? value.toFixed(3).replace("-", "\u2212") : `${value.toFixed(0)} %`;
  const units = [[86400, "days"], [3600, "h"], [60, "min"], [1, "s"]];
  const unitOf = top => units.find(([length]) => top >= 1.5 * length) || units[3];

  function joined() { // both lines over all moments, so that each keeps its own steps
    const times = [...new Set([...mine.t, ...(other ? other.t : [])])].sort((x, y) => x - y);
    const along = line => { let i = -1; return times.map(t => { while (i + 1 < line.t.length && line.t[i + 1] <= t) i++; return i < 0 || t > line.t[line.t.length - 1] ? null : line.a[i]; }); };
    return other ? [times, along(mine), along(other)] : [times, along(mine)];
  }

  function ends(u) { // labels on the lines, at their ends
    const ctx = u.ctx, ratio = devicePixelRatio || 1, placed = [];
    const say = (line, text, ink, bold) => {
      if (!line || !line.t.length) return;
      const i = line.t.length - 1, x = u.valToPos(line.t[i], "x", true);
      ctx.save();
      ctx.textAlign = "left"; ctx.textBaseline = "alphabetic";
      ctx.font = `${bold ? "600 " : ""}${12.5 * ratio}px ${colour("--sans")}`;
      ctx.fillStyle = colour(ink); ctx.strokeStyle = colour("--paper"); ctx.lineWidth = 4 * ratio; ctx.lineJoin = "round";
      const wide = ctx.measureText(text).width, at = Math.max(u.bbox.left, Math.min(x + 6 * ratio, u.width * ratio - wide - 2 * ratio));
      let y = u.valToPos(line.a[i], "y", true) + (at < x ? -8 : 4) * ratio; // above the line where there is no room beside its end
      while (placed.some(p => Math.abs(p - y) < 15 * ratio)) y -= 16 * ratio;
      placed.push(y);
      ctx.strokeText(text, at, y); ctx.fillText(text, at, y);
      ctx.restore();
    };
    const last = mine.a[mine.a.length - 1];
    say(mine, mine.a.length ? `${scoreText(last)} now` : "", "--d1", true);
    if (other) say(other, `${scoreText(other.a[other.a.length - 1])} with ${other.name}`.slice(0, 40), "--soft", false);
  }

  function draw() {
    const place = byId("curve");
    if (!place || typeof uPlot === "undefined") return;
    const data = joined(), top = data[0].length ? data[0][data[0].length - 1] : 1, [length, unit] = unitOf(top);
    if (plot) plot.destroy();
    const lowest = number ? Math.max(-1, Math.floor(Math.min(0, ...mine.a, ...(other ? other.a : [])) * 4) / 4) : 0;
    const grid = { stroke: colour("--hair"), width: 1 }, font = `12.5px ${colour("--sans")}`;
    const line = (ink, width) => ({ stroke: colour(ink), width, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } });
    plot = new uPlot({
      width: place.clientWidth, height: 250, padding: [12, 84, 0, 0], legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false, range: [0, Math.max(top, 1e-6)] }, y: { range: number ? [lowest, 1] : [0, 100] } },
      axes: [
        { stroke: colour("--soft"), font, grid: { show: false }, ticks: grid, size: 34, values: (u, at) => at.map(v => v === 0 ? "start" : `${+(v / length).toPrecision(3)} ${unit}`),
          splits: (u, i, min, max) => { const rough = max / length / (place.clientWidth < 500 ? 3 : 6), ten = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].map(k => k * ten).find(s => s >= rough) * length, found = []; for (let v = 0; v <= max; v += step) found.push(v); return found; } },
        { stroke: colour("--soft"), font, grid, ticks: { show: false }, size: 52, splits: () => number ? [lowest, 0, 0.5, 1].filter((v, i, all) => all.indexOf(v) === i) : [0, 25, 50, 75, 100], values: (u, at) => at.map(v => number ? `${+v.toFixed(2)}` : `${v} %`) },
      ],
      series: [{}, line("--d1", 2.4), ...(other ? [line("--d6", 1.5)] : [])],
      hooks: { draw: [ends] },
    }, data, place);
    const canvas = place.querySelector("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", mine.said || "Accuracy: no model has been evaluated yet.");
  }

  // ---- devices: a dot each, in groups by what they do; of large fleets those who were never asked are only counted
  let states = "", spots = [], side = 0, columns = 1, asked = 0;
  const order = ["r", "w", "x", "l", "n", "u", "o", "-"], counted = 2000;
  const inks = { r: "--d4", w: "--d5", x: "--d3", l: "--soft", n: "--d2", u: "--soft", o: "--soft", "-": "--d6" };

  function devices() {
    const canvas = byId("devices");
    if (!canvas) return;
    const began = performance.now(), ratio = devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    const groups = Object.fromEntries(order.map(letter => [letter, []]));
    for (let i = 0; i < states.length; i++) (groups[states[i]] || groups.u).push(i);
    if (states.length > counted) groups["-"] = [];
    spots = order.flatMap(letter => groups[letter]);
    side = Math.max(4, Math.min(25, Math.floor(Math.sqrt(width * 300 / Math.max(1, spots.length)))));
    columns = Math.max(1, Math.floor(width / side));
    const height = Math.max(side, Math.ceil(spots.length / columns) * side);
    canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    const r = side * .34;
    let at = 0;
    const tiny = side < 8; // then squares, and shades instead of rings
    for (const letter of order) {
      const ink = colour(tiny && (letter === "u" || letter === "o") ? "--hair" : inks[letter]), full = tiny || letter === "r" || letter === "w" || letter === "-";
      ctx.beginPath();
      for (const _ of groups[letter]) {
        const x = (at % columns + .5) * side, y = (Math.floor(at / columns) + .5) * side, small = letter === "-" ? r * .3 : r;
        at++;
        if (tiny) { ctx.rect(x - small, y - small, 2 * small, 2 * small); continue; }
        if (letter === "o") { const h = r * .75; ctx.moveTo(x - h, y - h); ctx.lineTo(x + h, y + h); ctx.moveTo(x - h, y + h); ctx.lineTo(x + h, y - h); continue; }
        ctx.moveTo(x + small, y); ctx.arc(x, y, small, 0, 7);
        if (letter === "l") { ctx.moveTo(x - r * .7, y + r * .7); ctx.lineTo(x + r * .7, y - r * .7); }
      }
      if (full) { ctx.fillStyle = ink; ctx.fill(); } else { ctx.strokeStyle = ink; ctx.lineWidth = 1.4; ctx.setLineDash(letter === "x" ? [2, 2] : []); ctx.stroke(); }
    }
    canvas.dataset.ms = (performance.now() - began).toFixed(2);
    canvas.dataset.dots = spots.length;
  }
  const under = event => { const box = byId("devices").getBoundingClientRect(), column = Math.floor((event.clientX - box.left) / side); return column < columns ? spots[Math.floor((event.clientY - box.top) / side) * columns + column] : undefined; };

  // ---- what the server tells
  let owed = false; // one drawing a frame, however much is told
  const later = () => { if (!owed) { owed = true; requestAnimationFrame(() => { owed = false; draw(); devices(); }); } };

  function told(news) {
    if (news.pieces?.state !== undefined && byId("act-said")) byId("act-said").textContent = ""; // what was answered holds no longer
    for (const [id, html] of Object.entries(news.pieces || {})) {
      const place = byId(id), held = place && place.contains(document.activeElement);
      if (!place) continue;
      place.innerHTML = html;
      htmx.process(place);
      if (held) place.querySelector("button, a, pre")?.focus(); // whoever works with the keyboard stays where they were
    }
    if (news.curve) { const c = news.curve; mine.t.length = mine.a.length = c.from; mine.t.push(...c.t); mine.a.push(...c.a); mine.said = c.said; number = Boolean(c.number); later(); }
    if ("other" in news) { other = news.other && news.other.t.length ? news.other : null; later(); }
    if (news.devices) {
      if (news.devices.all !== undefined) states = news.devices.all;
      else { const letters = [...states]; for (const [i, letter] of Object.entries(news.devices.some)) letters[i] = letter; states = letters.join(""); }
      byId("devices")?.setAttribute("aria-label", news.devices_said);
      later();
    }
    if (news.runs && byId("empty")) location.reload(); // the first run
    else if (news.runs) htmx.trigger(document.body, "runs-changed");
  }

  let source = null; // only while somebody looks: a browser holds six lines to one address, and tabs are many
  function listen() {
    const live = byId("live"), say = (words, on) => { live.textContent = words; live.className = on ? "on" : ""; };
    if (source) source.close();
    source = null;
    if (document.hidden) return;
    source = new EventSource(`/events?run=${encodeURIComponent(run)}`);
    source.onopen = () => say("live", true);
    source.onerror = () => say("the dashboard does not answer; trying again", false);
    source.onmessage = event => told(JSON.parse(event.data));
  }

  // ---- ticks, cures, and marks beside fields
  const ticks = (place, which) => [...place.querySelectorAll(`input[type=checkbox]${which}`)];
  function tally() {
    const rows = byId("rows"), button = byId("compare");
    if (!rows || !button) return;
    const inWhole = box => box.name !== "group" && !!box.closest(".grp")?.querySelector("input[name=group]:checked");
    const n = ticks(rows, ":checked").filter(box => !inWhole(box)).reduce((sum, box) => sum + +box.dataset.n, 0), most = +button.dataset.most;
    button.textContent = n > most ? `${n} ticked, ${most} at most` : `Compare ${n} ticked`;
    button.disabled = n < 2 || n > most;
    byId("clear").hidden = !n;
  }
  function tick(box) { // a group stands for its arms
    const group = box.closest(".grp");
    if (group && box.name === "group") for (const arm of ticks(group, ":not([name=group])")) arm.checked = box.checked;
    else if (group && !box.checked) group.querySelector("input[name=group]").checked = false;
    tally();
  }
  function marks() {
    for (const said of document.querySelectorAll("#ask .msg")) byId(said.id.replace(/^m-/, "f-"))?.setAttribute("aria-invalid", said.textContent ? "true" : "false");
  }
  const mendable = () => { const start = byId("start"); if (start) start.disabled = !!document.querySelector("#ask .msg:not(:empty)"); };
  async function copy(button) {
    const place = byId("as-toml");
    try { await navigator.clipboard.writeText(place.textContent); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(place); button.textContent = "Selected"; } // without TLS a browser lets no page copy
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }
  function mend(button) {
    const field = byId(button.dataset.field), { wrong, right } = button.dataset;
    field.value = field.tagName === "TEXTAREA" && wrong ? field.value.replace(wrong, right) : right;
    field.dispatchEvent(new Event("change", { bubbles: true }));
    field.focus();
  }
  addEventListener("DOMContentLoaded", () => {
    document.body.addEventListener("change", event => { if (event.target.closest("#rows")) tick(event.target); });
    document.body.addEventListener("click", event => { const button = event.target.closest("button.fix"); if (button) mend(button); if (event.target.id === "copy") copy(event.target); });
    document.body.addEventListener("htmx:afterSettle", () => { tally(); marks(); mendable(); });
    document.body.addEventListener("htmx:oobAfterSwap", () => { marks(); mendable(); });
    document.body.addEventListener("htmx:beforeRequest", event => { if (event.target.id === "start") byId("left").textContent = "getting ready .."; });
    document.body.addEventListener("htmx:afterRequest", event => { if (event.target.id === "start") setTimeout(mendable); });
    document.body.addEventListener("htmx:responseError", event => { const place = byId("act-said"); if (place) place.textContent = event.detail.xhr.responseText; });
    document.body.addEventListener("submit", event => { if (event.target.id === "ask") event.preventDefault(); else if (event.target.matches("#rows form")) for (const arm of ticks(event.target, "[name=group]:checked").flatMap(box => ticks(box.closest("li"), ":not([name=group])"))) arm.disabled = true; });
    const canvas = byId("devices");
    if (canvas) {
      canvas.addEventListener("mousemove", event => { const who = under(event); canvas.title = who === undefined ? "" : `device ${who}`; canvas.style.cursor = who === undefined ? "" : "pointer"; });
      canvas.addEventListener("click", event => { const who = under(event); if (who !== undefined) htmx.ajax("GET", `/device?run=${encodeURIComponent(run)}&client=${who}`, "#device"); });
    }
    tally();
    draw();
    dark.addEventListener("change", later);
    let wide = innerWidth;
    addEventListener("resize", () => { if (innerWidth !== wide) { wide = innerWidth; later(); } });
    listen();
    document.addEventListener("visibilitychange", listen);
    addEventListener("pagehide", () => source?.close());
    addEventListener("pageshow", event => { if (event.persisted) listen(); });
  });
})();
