// What the page shows while it takes part: the state in words, key figures, a chart, a table of rounds.

const SHOWN_ROUNDS = 12;
const element = (id) => document.getElementById(id);

export function show(id, visible) {
  element(id).hidden = !visible;
}

export function write(id, text) {
  element(id).textContent = text;
}

/** A number of bytes in words. */
export function bytes(n) {
  if (!n) return "0 KB";
  if (n < 1024 * 1000) return `${(n / 1024).toFixed(n < 10240 ? 1 : 0)} KB`;
  return `${(n / 2 ** 20).toFixed(1)} MB`;
}

export function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

/** Seconds in words, with two figures that count. */
export function seconds(s) {
  if (s < 0.01) return `${(1000 * s).toFixed(1)} ms`;
  if (s >= 100) return `${(s / 60).toFixed(1)} min`;
  return s < 1 ? `${(1000 * s).toFixed(0)} ms` : `${s.toFixed(1)} s`;
}

/** What this device does now: a heading, a sentence, and how far it is (null: nothing to measure). */
export function state(now, more = "", share = null) {
  write("now", now);
  write("more", more);
  element("bar").style.visibility = share === null ? "hidden" : "visible";
  element("bar").value = share ?? 0;
}

/** Figures, chart and table from the rounds so far: [{round, loss, accuracy, seconds, up, down}]. */
export function rounds(history) {
  const trained = history.filter((one) => one.loss !== undefined), judged = history.filter((one) => one.accuracy !== undefined);
  write("rounds", String(trained.length));
  write("accuracy", judged.length ? percent(judged.at(-1).accuracy) : "not yet");
  write("received", bytes(history.reduce((sum, one) => sum + (one.down ?? 0), 0)));
  write("sent", bytes(history.reduce((sum, one) => sum + (one.up ?? 0), 0)));
  show("table", history.length > 0);
  element("body").replaceChildren(...history.slice(-SHOWN_ROUNDS).reverse().map(row));
  show("figure", trained.length > 1);
  if (trained.length > 1) chart(trained);
}

function row(one) {
  const cells = [
    one.round + 1, one.loss?.toFixed(3) ?? "", one.accuracy === undefined ? "" : percent(one.accuracy), one.seconds === undefined ? "" : seconds(one.seconds),
    one.up ? bytes(one.up) : "",
  ];
  const line = document.createElement("tr");
  line.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  return line;
}

/** The loss round by round as a step line. */
function chart(trained) {
  const most = Math.max(...trained.map((one) => one.loss)), left = 34, right = 346, top = 8, bottom = 98;
  const x = (i) => left + ((right - left) * i) / trained.length, y = (loss) => bottom - ((bottom - top) * loss) / (most || 1);
  const path = trained.map((one, i) => `${i ? "V" : `M${x(0)} `}${y(one.loss).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("");
  const svg = element("chart"), make = (name, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const first = trained[0], last = trained.at(-1);
  svg.setAttribute("aria-label", `Loss ${first.loss.toFixed(3)} in round ${first.round + 1}, ${last.loss.toFixed(3)} in round ${last.round + 1}`);
  svg.replaceChildren(
    make("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
    make("line", { class: "axis", x1: left, x2: right, y1: top, y2: top }),
    make("text", { x: left - 6, y: bottom + 4, "text-anchor": "end" }, "0"),
    make("text", { x: left - 6, y: top + 4, "text-anchor": "end" }, most.toFixed(most < 10 ? 1 : 0)),
    make("text", { x: left, y: bottom + 18 }, `round ${first.round + 1}`),
    make("text", { x: right, y: bottom + 18, "text-anchor": "end" }, `round ${last.round + 1}`),
    make("path", { class: "loss", d: path }),
  );
}

/** Names and values, such as what was measured. */
export function facts(table) {
  const items = Object.entries(table).flatMap(([name, value]) => [
    Object.assign(document.createElement("dt"), { textContent: name }), Object.assign(document.createElement("dd"), { textContent: value }),
  ]);
  element("facts").replaceChildren(...items);
}
