// A person's own samples: a CSV with one sample a row, read on the device and fitted to what the model takes.
import { order } from "./draws.js";
import { printable } from "./bytes.js";
import { Refused } from "./refused.js";
import { readTensors } from "./tensors.js";

const LABELS = ["label", "y", "class"];
const TEST_SHARE = 0.2;

/** The table in a text: the names of its columns and its rows, as text. */
export function readTable(text) {
  const rows = [], first = text.replace(/^\ufeff/, "");
  const head = first.slice(0, first.search(/[\r\n]|$/));
  const separator = [",", ";", "\t"].reduce((a, b) => (head.split(b).length > head.split(a).length ? b : a));
  let row = [], cell = "", quoted = false;
  for (let i = 0; i < first.length; i++) {
    const c = first[i];
    if (quoted) {
      if (c === '"' && first[i + 1] === '"') cell += first[++i];
      else if (c === '"') quoted = false;
      else cell += c;
    } else if (c === '"' && cell === "") quoted = true;
    else if (c === separator || c === "\n") {
      row.push(cell);
      cell = "";
      if (c === "\n") {
        rows.push(row);
        row = [];
      }
    } else if (c !== "\r") cell += c;
  }
  if (cell !== "" || row.length) rows.push([...row, cell]);
  const body = rows.slice(1).filter((cells) => cells.length > 1 || cells[0] !== "");
  if (!rows.length || body.length < 2) throw new Refused("your file has no samples; give a CSV with the names of its columns in the first row, and at least two samples below");
  const names = rows[0].map((name) => name.trim());
  const odd = body.findIndex((cells) => cells.length !== names.length);
  if (odd >= 0) throw new Refused(`row ${odd + 2} of your file has ${body[odd].length} cells, and the first row has ${names.length}`);
  return { names, rows: body };
}

/** How many of so many samples are trained on, and how many test. */
export function splitCounts(samples) {
  const test = Math.max(1, Math.round(TEST_SHARE * samples));
  return [samples - test, test];
}

/** A table as the run's model takes it: {train, test}, each {x, y}. */
export function fitTable(table, sheet) {
  const width = sheet.inputs.shape.reduce((a, b) => a * b, 1), reading = sheet.reading ?? null;
  const label = labelColumn(table, reading ? sheet.task.label : null);
  const columns = reading?.columns?.length ? named(table, reading.columns) : others(table, label);
  if (columns.length !== width) throw new Refused(`your file has ${columns.length} columns of numbers, and this run's model takes ${width}`);
  const rows = complete(table, reading, [...columns.map((c) => c.place), label], sheet.task?.missing);
  const x = new Float32Array(rows.length * width), y = new Int32Array(rows.length), scale = reading?.scale;
  const numbers = new Map((reading?.labels ?? []).map((name, i) => [name, i]));
  rows.forEach(([cells, number], i) => {
    columns.forEach(({ place, value, name }, c) => {
      const cell = cells[place].trim();
      let found = value === null ? Number(cell) : cell === value ? 1 : 0;
      if (cell === "" || !Number.isFinite(found)) throw new Refused(`row ${number} of your file: '${printable(cell, 40)}' in the column '${printable(name, 60)}' is no number`);
      if (scale) found = (found - scale[0][c]) / scale[1][c];
      x[i * width + c] = found;
    });
    y[i] = classOf(cells[label].trim(), numbers, sheet.inputs.classes, number);
  });
  return split(x, y, width, sheet);
}

function labelColumn(table, wanted) {
  const place = typeof wanted === "string" ? table.names.indexOf(wanted) : table.names.findIndex((name) => LABELS.includes(name.toLowerCase()));
  if (place < 0) throw new Refused(`your file has no column '${printable(wanted ?? "label", 60)}' with the class of each sample`);
  return place;
}

/** The columns that the run names: `colour=red` is 1 where the column `colour` says red. */
function named(table, names) {
  return names.map((name) => {
    const whole = table.names.indexOf(name), cut = name.indexOf("=");
    const place = whole >= 0 || cut < 0 ? whole : table.names.indexOf(name.slice(0, cut));
    if (place < 0) throw new Refused(`your file has no column '${printable(name, 60)}', which this run's model reads`);
    return { place, name, value: whole >= 0 ? null : name.slice(cut + 1) };
  });
}

function others(table, label) {
  return table.names.map((name, place) => ({ place, name, value: null })).filter((one) => one.place !== label);
}

/** The rows with their numbers in the file; those with an empty cell are left out where the run says so. */
function complete(table, reading, places, missing) {
  const rows = table.rows.map((cells, i) => [cells, i + 2]);
  return reading && missing === "drop" ? rows.filter(([cells]) => places.every((p) => cells[p].trim() !== "")) : rows;
}

function classOf(text, numbers, classes, row) {
  const number = numbers.size ? numbers.get(text) : Number(text);
  if (text === "" || !Number.isInteger(number) || number < 0 || number >= classes) {
    const known = numbers.size ? [...numbers.keys()].slice(0, 12).map((n) => printable(n, 30)).join(", ") : `0 to ${classes - 1}`;
    throw new Refused(`row ${row} of your file: the label '${printable(text, 40)}' is not one of this run, whose labels are ${known}`);
  }
  return number;
}

/** Which samples test and which are trained on: the same ones every time. */
function split(x, y, width, sheet) {
  const [, test] = splitCounts(y.length), shuffled = order(BigInt(sheet.data_seed ?? 0), BigInt(`0x${sheet.key}`), 0n, 0, y.length);
  const part = (rows) => {
    const result = { x: new Float32Array(rows.length * width), y: new Int32Array(rows.length) };
    rows.sort().forEach((row, i) => {
      result.x.set(x.subarray(row * width, (row + 1) * width), i * width);
      result.y[i] = y[row];
    });
    return result;
  };
  return { train: part(shuffled.slice(test)), test: part(shuffled.slice(0, test)) };
}

/** The samples that a server deals out for a rehearsal. */
export function readShard(bytes, sheet) {
  const held = readTensors(bytes), width = sheet.inputs.shape.reduce((a, b) => a * b, 1);
  const part = (name) => {
    const x = held.get(`${name}_x`), y = held.get(`${name}_y`);
    if (x?.type !== "<f4" || !y || x.data.length !== y.data.length * width) throw new Refused("the samples of this rehearsal are not those of its model");
    const labels = Int32Array.from(y.data, Number);
    if (labels.some((label) => label < 0 || label >= sheet.inputs.classes)) throw new Refused("the samples of this rehearsal have labels that the run does not have");
    return { x: x.data, y: labels };
  };
  return { train: part("train"), test: part("test") };
}
