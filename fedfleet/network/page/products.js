// Products of matrices on typed arrays, in panels that fit into the caches.
//
// Both factors are copied into panels first, so any strides will do, and a transposed matrix costs nothing. Sums are in double
// precision: engines compute these faster than sums that Math.fround rounds at every step, and they are closer to the truth.
const ROWS = 4; // of the left factor in one panel
const COLUMNS = 4; // of the right factor in one panel
const DEPTH = 256; // of one block: a panel of each factor lies in the first cache

let left = new Float32Array(0);
let right = new Float32Array(0);

/**
 * c (rows x columns, row after row from `to` on) = a b, or c += a b where `add`.
 * Element (i, k) of a is a.data[a.from + i * a.row + k * a.column]; b likewise.
 */
export function multiply(rows, columns, depth, a, b, c, to, add) {
  if (!add) c.fill(0, to, to + rows * columns);
  const rowPanels = Math.ceil(rows / ROWS), columnPanels = Math.ceil(columns / COLUMNS);
  const most = Math.min(depth, DEPTH);
  if (left.length < rowPanels * ROWS * most) left = new Float32Array(rowPanels * ROWS * most);
  if (right.length < columnPanels * COLUMNS * most) right = new Float32Array(columnPanels * COLUMNS * most);
  for (let k = 0; k < depth; k += DEPTH) {
    const part = Math.min(DEPTH, depth - k);
    pack(left, ROWS, rows, part, a.data, a.from + k * a.column, a.row, a.column);
    pack(right, COLUMNS, columns, part, b.data, b.from + k * b.row, b.column, b.row);
    for (let j = 0; j < columnPanels; j++) {
      for (let i = 0; i < rowPanels; i++) {
        tile(part, i * ROWS * part, j * COLUMNS * part, c, to + i * ROWS * columns + j * COLUMNS, columns,
          Math.min(ROWS, rows - i * ROWS), Math.min(COLUMNS, columns - j * COLUMNS));
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

function pack(panels, width, lines, part, data, from, lineStep, step) {
  let at = 0;
  for (let first = 0; first < lines; first += width) {
    const whole = Math.min(width, lines - first);
    for (let k = 0; k < part; k++) {
      const place = from + first * lineStep + k * step;
      for (let line = 0; line < whole; line++) panels[at++] = data[place + line * lineStep];
      for (let line = whole; line < width; line++) panels[at++] = 0;
    }
  }
}

const sums = new Float64Array(ROWS * COLUMNS);

function tile(part, l, r, c, to, width, rows, columns) {
  const A = left, B = right;
  let s00 = 0, s01 = 0, s02 = 0, s03 = 0;
  let s10 = 0, s11 = 0, s12 = 0, s13 = 0;
  let s20 = 0, s21 = 0, s22 = 0, s23 = 0;
  let s30 = 0, s31 = 0, s32 = 0, s33 = 0;
  for (let k = 0; k < part; k++, l += 4, r += 4) {
    const b0 = B[r], b1 = B[r + 1], b2 = B[r + 2], b3 = B[r + 3];
    const a0 = A[l], a1 = A[l + 1];
    s00 = s00 + a0 * b0;
    s01 = s01 + a0 * b1;
    s02 = s02 + a0 * b2;
    s03 = s03 + a0 * b3;
    s10 = s10 + a1 * b0;
    s11 = s11 + a1 * b1;
    s12 = s12 + a1 * b2;
    s13 = s13 + a1 * b3;
    const a2 = A[l + 2], a3 = A[l + 3];
    s20 = s20 + a2 * b0;
    s21 = s21 + a2 * b1;
    s22 = s22 + a2 * b2;
    s23 = s23 + a2 * b3;
    s30 = s30 + a3 * b0;
    s31 = s31 + a3 * b1;
    s32 = s32 + a3 * b2;
    s33 = s33 + a3 * b3;
  }
  sums[0] = s00; sums[1] = s01; sums[2] = s02; sums[3] = s03;
  sums[4] = s10; sums[5] = s11; sums[6] = s12; sums[7] = s13;
  sums[8] = s20; sums[9] = s21; sums[10] = s22; sums[11] = s23;
  sums[12] = s30; sums[13] = s31; sums[14] = s32; sums[15] = s33;
  for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) c[to + i * width + j] += sums[i * 4 + j];
}
