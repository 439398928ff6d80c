// SHA-256 and HMAC in plain JavaScript: browsers offer theirs on secure pages alone, and only through promises.

const K = new Uint32Array(64), START = new Uint32Array(8);

// The first 32 bits of the fractional parts of the cube roots and square roots of primes; doubles are exact enough for 8 and 64.
for (let candidate = 2, found = 0; found < 64; candidate++) {
  if (Array.from({ length: candidate - 2 }, (_, i) => i + 2).some((d) => candidate % d === 0)) continue;
  if (found < 8) START[found] = Math.floor((Math.sqrt(candidate) % 1) * 2 ** 32);
  K[found++] = Math.floor((Math.cbrt(candidate) % 1) * 2 ** 32);
}

const turn = (x, n) => (x >>> n) | (x << (32 - n));

/** The SHA-256 of some bytes. */
export function sha256(bytes) {
  const blocks = Math.ceil((bytes.length + 9) / 64), data = new Uint8Array(blocks * 64), view = new DataView(data.buffer);
  data.set(bytes);
  data[bytes.length] = 0x80;
  view.setBigUint64(data.length - 8, BigInt(bytes.length) * 8n);
  const state = START.slice(), w = new Uint32Array(64);
  for (let block = 0; block < data.length; block += 64) {
    for (let t = 0; t < 64; t++) {
      if (t < 16) {
        w[t] = view.getUint32(block + 4 * t);
        continue;
      }
      const a = w[t - 15], b = w[t - 2];
      w[t] = w[t - 16] + (turn(a, 7) ^ turn(a, 18) ^ (a >>> 3)) + w[t - 7] + (turn(b, 17) ^ turn(b, 19) ^ (b >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 64; t++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + one) | 0;
      d = c;
      c = b;
      b = a;
      a = (one + two) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((v, i) => {
      state[i] += v;
    });
  }
  const result = new Uint8Array(32), out = new DataView(result.buffer);
  state.forEach((v, i) => out.setUint32(4 * i, v));
  return result;
}

/** The HMAC-SHA-256 of some bytes under a key. */
export function hmac(key, bytes) {
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? sha256(key) : key);
  const inner = sha256(join(block.map((v) => v ^ 0x36), bytes));
  return sha256(join(block.map((v) => v ^ 0x5c), inner));
}

/** Are these the same bytes? The time that it takes does not say where they differ. */
export function equalBytes(a, b) {
  let difference = a.length ^ b.length;
  for (let i = 0; i < a.length; i++) difference |= a[i] ^ b[i % Math.max(b.length, 1)];
  return difference === 0;
}

/** Some bytes after others. */
export function join(a, b) {
  const result = new Uint8Array(a.length + b.length);
  result.set(a);
  result.set(b, a.length);
  return result;
}
