// Addressed randomness: every draw is a function of (seed, label, numbers), as in fedfleet/core/rng.py, with the same values.
import { sha256 } from "./sha256.js";

const MASK = (1n << 64n) - 1n;
const GOLDEN = 0x9e3779b97f4a7c15n, FIRST = 0xbf58476d1ce4e5b9n, SECOND = 0x94d049bb133111ebn;

/** The finaliser of splitmix64. */
function mix(x) {
  x = ((x ^ (x >> 30n)) * FIRST) & MASK;
  x = ((x ^ (x >> 27n)) * SECOND) & MASK;
  return x ^ (x >> 31n);
}

/** The hash of a key for the address (seed, label, numbers..). */
export function hashKey(seed, label, key, ...numbers) {
  const text = new TextEncoder().encode(label), bytes = new Uint8Array(4 + text.length + 16), view = new DataView(bytes.buffer);
  view.setUint32(0, text.length, true);
  bytes.set(text, 4);
  view.setBigUint64(4 + text.length, seed & MASK, true);
  const base = new DataView(sha256(bytes).buffer).getBigUint64(0, true);
  let x = mix(((key + GOLDEN) & MASK) ^ base);
  for (const number of numbers) x = mix(((x + GOLDEN) & MASK) ^ ((BigInt(number) * GOLDEN) & MASK));
  return x;
}

// Many hashes in a row, as pairs of 32 bits: whole numbers of 64 bits are slow in JavaScript.
const pair = { high: 0, low: 0 };

function times(high, low, factorHigh, factorLow) {
  const a = low & 0xffff, b = low >>> 16, c = factorLow & 0xffff, d = factorLow >>> 16;
  const ac = Math.imul(a, c) >>> 0, ad = Math.imul(a, d) >>> 0, bc = Math.imul(b, c) >>> 0, bd = Math.imul(b, d) >>> 0;
  const middle = (ac >>> 16) + (ad & 0xffff) + (bc & 0xffff);
  pair.low = ((middle << 16) | (ac & 0xffff)) >>> 0;
  const carried = bd + (ad >>> 16) + (bc >>> 16) + Math.floor(middle / 65536);
  pair.high = (carried + Math.imul(high, factorLow) + Math.imul(low, factorHigh)) >>> 0;
}

/** Call visit(high, low, i) with the hash of each of n elements at an address. */
function eachHash(address, n, visit) {
  let high = Number(address >> 32n), low = Number(address & 0xffffffffn);
  for (let i = 0; i < n; i++) {
    let h = high ^ (high >>> 30), l = low ^ ((low >>> 30) | (high << 2));
    times(h >>> 0, l >>> 0, 0xbf58476d, 0x1ce4e5b9);
    h = pair.high ^ (pair.high >>> 27);
    l = pair.low ^ ((pair.low >>> 27) | (pair.high << 5));
    times(h >>> 0, l >>> 0, 0x94d049bb, 0x133111eb);
    h = pair.high ^ (pair.high >>> 31);
    l = pair.low ^ ((pair.low >>> 31) | (pair.high << 1));
    visit(h >>> 0, l >>> 0, i);
    const sum = low + 0x7f4a7c15;
    high = (high + 0x9e3779b9 + (sum > 0xffffffff ? 1 : 0)) >>> 0;
    low = sum >>> 0;
  }
}

/** A random order of 0..n-1 for a client's task and epoch. */
export function order(seed, key, task, epoch, n) {
  const high = new Uint32Array(n), low = new Uint32Array(n);
  eachHash(hashKey(seed, "batches", key, task, epoch), n, (h, l, i) => {
    high[i] = h;
    low[i] = l;
  });
  return Int32Array.from({ length: n }, (_, i) => i).sort((a, b) => high[a] - high[b] || low[a] - low[b] || a - b);
}

/** What dropout multiplies n units with: 0, or the factor that makes up for those that are gone. */
export function keptUnits(address, layer, rate, n) {
  const base = mix((address + BigInt(layer + 1) * FIRST) & MASK), limit = Math.round(rate * 2 ** 24), factor = 1 / (1 - rate);
  const kept = new Float32Array(n);
  eachHash(base, n, (high, low, i) => {
    kept[i] = high >>> 8 >= limit ? factor : 0;
  });
  return kept;
}
