// CRC-32C (Castagnoli), four bytes at a time.

const TABLES = [0, 1, 2, 3].map(() => new Uint32Array(256));

for (let byte = 0; byte < 256; byte++) {
  let value = byte;
  for (let bit = 0; bit < 8; bit++) value = (value >>> 1) ^ (value & 1 ? 0x82f63b78 : 0);
  TABLES[0][byte] = value;
}
for (let level = 1; level < 4; level++) {
  for (let byte = 0; byte < 256; byte++) {
    const before = TABLES[level - 1][byte];
    TABLES[level][byte] = (before >>> 8) ^ TABLES[0][before & 0xff];
  }
}

/** The CRC-32C of some bytes. */
export function crc32c(bytes) {
  const [t0, t1, t2, t3] = TABLES;
  let left = 0xffffffff, i = 0;
  for (; i + 4 <= bytes.length; i += 4) {
    left ^= bytes[i] | (bytes[i + 1] << 8) | (bytes[i + 2] << 16) | (bytes[i + 3] << 24);
    left = t3[left & 0xff] ^ t2[(left >>> 8) & 0xff] ^ t1[(left >>> 16) & 0xff] ^ t0[left >>> 24];
  }
  for (; i < bytes.length; i++) left = (left >>> 8) ^ t0[(left ^ bytes[i]) & 0xff];
  return (left ^ 0xffffffff) >>> 0;
}
