// The inner loop of a product of matrices in WebAssembly, four numbers at a time. It is written here instruction by instruction:
// so small a loop needs no compiler and no file of its own. Browsers without such instructions compute it in JavaScript.

export const ROWS = 4, COLUMNS = 8; // of a tile

const PAGE = 65536, TILE_BYTES = 4 * ROWS * COLUMNS;
const I32 = 0x7f, V128 = 0x7b, SIMD = 0xfd;
const GET = 0x20, SET = 0x21, TEE = 0x22, CONST = 0x41, ADD = 0x6a, SUBTRACT = 0x6b, LOOP = 0x03, BRANCH_IF = 0x0d, NOTHING = 0x40, END = 0x0b;
const LOAD = [SIMD, 0x00, 2], LOAD_SPLAT = [SIMD, 0x09, 2], STORE = [SIMD, 0x0b, 2], PLUS = [SIMD, 0xe4, 1], TIMES = [SIMD, 0xe6, 1];
// The parameters of the function, and its locals behind them.
const DEPTH = 0, LEFT = 1, RIGHT = 2, INTO = 3, SUMS = 4, FIRST = 12, SECOND = 13, FACTOR = 14;

/** tile(depth, left, right, into): at `into` the product of a panel of 4 rows and one of 8 columns; places are in bytes. */
function instructions() {
  const code = [LOOP, NOTHING, GET, RIGHT, ...LOAD, 0, SET, FIRST, GET, RIGHT, ...LOAD, 16, SET, SECOND];
  for (let row = 0; row < ROWS; row++) {
    code.push(GET, LEFT, ...LOAD_SPLAT, 4 * row, SET, FACTOR);
    for (const half of [0, 1]) {
      const sum = SUMS + 2 * row + half;
      code.push(GET, sum, GET, FACTOR, GET, half ? SECOND : FIRST, ...TIMES, ...PLUS, SET, sum);
    }
  }
  code.push(GET, LEFT, CONST, 4 * ROWS, ADD, SET, LEFT, GET, RIGHT, CONST, 4 * COLUMNS, ADD, SET, RIGHT);
  code.push(GET, DEPTH, CONST, 1, SUBTRACT, TEE, DEPTH, BRANCH_IF, 0, END);
  for (let i = 0; i < 2 * ROWS; i++) code.push(GET, INTO, GET, SUMS + i, ...STORE, 16 * i);
  return [...code, END];
}

function leb(n) {
  return n < 128 ? [n] : [(n & 127) | 128, ...leb(n >> 7)];
}

function section(id, bytes) {
  return [id, ...leb(bytes.length), ...bytes];
}

const name = (text) => [text.length, ...text].map((c) => (typeof c === "string" ? c.charCodeAt(0) : c));

function moduleBytes() {
  const locals = 2 * ROWS + 3, body = [1, locals, V128, ...instructions()];
  return Uint8Array.from([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, [1, 0x60, 4, I32, I32, I32, I32, 0]), // types
    ...section(3, [1, 0]), // functions
    ...section(5, [1, 0, 1]), // memory, of one page at first
    ...section(7, [2, ...name("memory"), 2, 0, ...name("tile"), 0, 0]), // exports
    ...section(10, [1, ...leb(body.length), ...body]),
  ]);
}

/** Where the panels and a tile lie in the memory of the loop. */
class Kernel {
  constructor() {
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(moduleBytes()));
    this.memory = exports.memory;
    this.run = exports.tile;
    this.reserve(0, 0);
  }

  /** Make room for so many numbers of panels of each factor. */
  reserve(left, right) {
    const wanted = TILE_BYTES + 4 * (left + right), have = this.memory.buffer.byteLength;
    if (wanted > have) this.memory.grow(Math.ceil((wanted - have) / PAGE));
    if (this.sums?.buffer !== this.memory.buffer) this.sums = new Float32Array(this.memory.buffer, 0, ROWS * COLUMNS);
    this.left = new Float32Array(this.memory.buffer, TILE_BYTES, left);
    this.right = new Float32Array(this.memory.buffer, TILE_BYTES + 4 * left, right);
  }

  /** The product of the panels that begin at these numbers, in `sums`. */
  tile(depth, l, r) {
    this.run(depth, this.left.byteOffset + 4 * l, this.right.byteOffset + 4 * r, 0);
  }
}

/** The loop, or null where this browser cannot or may not compile it. */
export function fastKernel() {
  try {
    return new Kernel();
  } catch {
    return null;
  }
}
