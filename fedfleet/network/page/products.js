// Products of matrices on typed arrays, in panels that fit into the caches.
//
// Both factors are copied into panels first, so any strides will do, and a transposed matrix costs nothing.
import { COLUMNS, ROWS, fastKernel } from "./kernel.js";

const DEPTH = 256; // of one block: a panel of each factor lies in the first cache

/** The same tiles in JavaScript. Sums are in double precision: engines compute these faster than sums that are rounded each time. */
class PlainKernel {
  constructor() {
    this.left = this.right = new Float32Array(0);
    this.sums = new Float64Array(ROWS * COLUMNS);
  }

  reserve(left, right) {
    if (this.left.length < left) this.left = new Float32Array(left);
    if (this.right.length < right) this.right = new Float32Array(right);
  }

  tile(depth, l, r) {
    for (let half = 0; half < COLUMNS; half += 4) quarter(depth, this.left, this.right, l, r + half, this.sums, half);
  }
}

let kernel = fastKernel() ?? new PlainKernel();

/** How products are computed here: "WebAssembly" or "JavaScript". */
export function kernelName() {
  return kernel instanceof PlainKernel ? "JavaScript" : "WebAssembly";
}

/** Compute products in JavaScript, for tests and for comparison. */
export function computePlainly() {
  kernel = new PlainKernel();
}

/**
 * c (rows x columns, row after row from `to` on) = a b, or c += a b where `add`.
 * Element (i, k) of a is a.data[a.from + i * a.row + k * a.column]; b likewise.
 */
export function multiply(rows, columns, depth, a, b, c, to, add) {
  if (!add) c.fill(0, to, to + rows * columns);
  const rowPanels = Math.ceil(rows / ROWS), columnPanels = Math.ceil(columns / COLUMNS), most = Math.min(depth, DEPTH);
  kernel.reserve(rowPanels * ROWS * most, columnPanels * COLUMNS * most);
  for (let k = 0; k < depth; k += DEPTH) {
    const part = Math.min(DEPTH, depth - k);
    pack(kernel.left, ROWS, rows, part, a.data, a.from + k * a.column, a.row, a.column);
    pack(kernel.right, COLUMNS, columns, part, b.data, b.from + k * b.row, b.column, b.row);
    for (let j = 0; j < columnPanels; j++) {
      const wide = Math.min(COLUMNS, columns - j * COLUMNS);
      for (let i = 0; i < rowPanels; i++) {
        kernel.tile(part, i * ROWS * part, j * COLUMNS * part);
        place(kernel.sums, c, to + i * ROWS * columns + j * COLUMNS, columns, Math.min(ROWS, rows - i * ROWS), wide);
      }
    }
  }
}

/** A matrix as it lies in memory, row after row. */
export function matrix(data, columns, from = 0) {
  return { data, from, row: columns, column: 1 };
}

/** The same memory read as the transposed matrix. */
export function transposed(data, columns, from = 0) {
  return { data, from, row: 1, column: columns };
}

/** Copy a factor into panels of `width` lines: for each step along the product, the numbers of all lines. */
function pack(panels, width, lines, part, data, from, lineStep, step) {
  const full = lines - (lines % width), size = width * part;
  for (let first = 0; first < full; first += width) {
    const begin = from + first * lineStep;
    if (width === ROWS) packFour(panels, first * part, part, data, begin, lineStep, step);
    else packEight(panels, first * part, part, data, begin, lineStep, step);
  }
  if (full === lines) return;
  panels.fill(0, full * part, full * part + size);
  for (let line = full; line < lines; line++) {
    for (let k = 0, at = full * part + line - full; k < part; k++, at += width) panels[at] = data[from + line * lineStep + k * step];
  }
}

function packFour(panels, at, part, data, from, s, step) {
  for (let k = 0; k < part; k++, at += 4, from += step) {
    panels[at] = data[from];
    panels[at + 1] = data[from + s];
    panels[at + 2] = data[from + 2 * s];
    panels[at + 3] = data[from + 3 * s];
  }
}

function packEight(panels, at, part, data, from, s, step) {
  for (let k = 0; k < part; k++, at += 8, from += step) {
    panels[at] = data[from];
    panels[at + 1] = data[from + s];
    panels[at + 2] = data[from + 2 * s];
    panels[at + 3] = data[from + 3 * s];
    panels[at + 4] = data[from + 4 * s];
    panels[at + 5] = data[from + 5 * s];
    panels[at + 6] = data[from + 6 * s];
    panels[at + 7] = data[from + 7 * s];
  }
}

function place(sums, c, to, width, rows, columns) {
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) c[to + i * width + j] += sums[i * COLUMNS + j];
}

/** Four rows and four columns of a tile: as many sums as a processor holds in its registers. */
function quarter(depth, A, B, l, r, sums, to) {
  let s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
  let s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
  for (let k = 0; k < depth; k++, l += ROWS, r += COLUMNS) {
    const b0 = B[r], b1 = B[r + 1], b2 = B[r + 2], b3 = B[r + 3], a0 = A[l], a1 = A[l + 1], a2 = A[l + 2], a3 = A[l + 3];
    s00 += a0 * b0;
    s01 += a0 * b1;
    s02 += a0 * b2;
    s03 += a0 * b3;
    s10 += a1 * b0;
    s11 += a1 * b1;
    s12 += a1 * b2;
    s13 += a1 * b3;
    s20 += a2 * b0;
    s21 += a2 * b1;
    s22 += a2 * b2;
    s23 += a2 * b3;
    s30 += a3 * b0;
    s31 += a3 * b1;
    s32 += a3 * b2;
    s33 += a3 * b3;
  }
  const rows = [s00, s01, s02, s03, s10, s11, s12, s13, s20, s21, s22, s23, s30, s31, s32, s33];
  for (let i = 0; i < 16; i++) sums[(i >> 2) * COLUMNS + (i & 3) + to] = rows[i];
}
