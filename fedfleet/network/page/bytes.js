// Bytes as text and back.

export function toHex(bytes) {
  return Array.from(bytes, (v) => v.toString(16).padStart(2, "0")).join("");
}

export function fromHex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

export function toBase64(bytes) {
  let text = "";
  for (const value of bytes) text += String.fromCharCode(value);
  return btoa(text);
}

export function fromBase64(text) {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** Random bytes that nobody can guess; browsers give them on pages without TLS too. */
export function randomBytes(n) {
  return globalThis.crypto.getRandomValues(new Uint8Array(n));
}

/** Text from elsewhere as it may be shown: without signs that control a terminal, and not too long. */
export function printable(text, most = 300) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e]/g, " ").slice(0, most);
}
