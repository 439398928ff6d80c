// Tensors as they travel: the safetensors form. A tensor here is {data, shape, type}, its type in numpy's words ("<f4").
import { Refused } from "./refused.js";

const TYPES = {
  F32: ["<f4", Float32Array], F64: ["<f8", Float64Array], I64: ["<i8", BigInt64Array], U64: ["<u8", BigUint64Array],
  I32: ["<i4", Int32Array], U32: ["<u4", Uint32Array], I16: ["<i2", Int16Array], U16: ["<u2", Uint16Array],
  I8: ["|i1", Int8Array], U8: ["|u1", Uint8Array], BOOL: ["|b1", Uint8Array],
};
const NAMES = Object.fromEntries(Object.entries(TYPES).map(([name, [type]]) => [type, name]));
const MOST_HEADER = 1 << 20;

/** The tensors in some bytes, by name; what is wrong with the bytes is refused. */
export function readTensors(bytes) {
  if (bytes.length < 8) throw new Refused("its tensors are not in safetensors form (too short)");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length), length = view.getBigUint64(0, true);
  if (length > BigInt(Math.min(MOST_HEADER, bytes.length - 8))) {
    throw new Refused("its tensors are not in safetensors form (the header is longer than what came)");
  }
  const body = 8 + Number(length), space = bytes.length - body;
  let header;
  try {
    header = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(8, body)));
  } catch {
    throw new Refused("its tensors are not in safetensors form (its header cannot be read)");
  }
  if (header === null || typeof header !== "object" || Array.isArray(header)) {
    throw new Refused("its tensors are not in safetensors form (the header is no object)");
  }
  const result = new Map(), ends = [];
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const kind = TYPES[entry?.dtype], shape = entry?.shape, [start, end] = entry?.data_offsets ?? [];
    const whole = (n) => Number.isSafeInteger(n) && n >= 0;
    if (!kind || !Array.isArray(shape) || !shape.every(whole) || !whole(start) || !whole(end) || end > space) {
      throw new Refused(`its tensors have a type or shape that cannot be read (leaf '${name.slice(0, 80)}')`);
    }
    if (end - start !== shape.reduce((a, b) => a * b, kind[1].BYTES_PER_ELEMENT)) {
      throw new Refused("its tensors are not in safetensors form (they are not of their size)");
    }
    ends.push([start, end]);
    // A copy, because the bytes of a tensor may begin anywhere.
    const data = new kind[1](bytes.slice(body + start, body + end).buffer);
    result.set(name, { data, shape, type: kind[0] });
  }
  let position = 0;
  for (const [start, end] of ends.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
    if (start !== position) throw new Refused("its tensors are not in safetensors form (they overlap or leave gaps)");
    position = end;
  }
  if (position !== space) throw new Refused("its tensors are not in safetensors form (there is more than they take)");
  return result;
}

/** Tensors as bytes, in the order of their names, wide types first: the same tensors give the same bytes. */
export function writeTensors(tensors) {
  const order = [...tensors].sort(([a, x], [b, y]) => y.data.BYTES_PER_ELEMENT - x.data.BYTES_PER_ELEMENT || (a < b ? -1 : 1));
  const header = {};
  let position = 0;
  for (const [name, { data, shape, type }] of order) {
    header[name] = { dtype: NAMES[type ?? "<f4"], shape, data_offsets: [position, position + data.byteLength] };
    position += data.byteLength;
  }
  let text = JSON.stringify(header);
  let encoded = new TextEncoder().encode(text);
  if (encoded.length % 8) {
    text += " ".repeat(8 - (encoded.length % 8));
    encoded = new TextEncoder().encode(text);
  }
  const result = new Uint8Array(8 + encoded.length + position);
  new DataView(result.buffer).setBigUint64(0, BigInt(encoded.length), true);
  result.set(encoded, 8);
  let at = 8 + encoded.length;
  for (const [, { data }] of order) {
    result.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
    at += data.byteLength;
  }
  return result;
}
