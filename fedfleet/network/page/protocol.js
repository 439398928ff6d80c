// The calls of a device in the JSON form of the HTTP door (docs/reference/http.md): heads are JSON, tensors are bodies of bytes.
import { fromBase64, printable, toHex } from "./bytes.js";
import { crc32c } from "./crc32c.js";
import { Refused } from "./refused.js";
import { CallRefused, NotFound, Stopped, Tries, Unreachable, UnknownDevice } from "./retries.js";

export const PROTOCOL = 4;
const CALL_SECONDS = 60; // a server holds a call for 20
const LEAST_RATE = 4096; // bytes a second of a line that is worth waiting for
const MOST_DAMAGES = 8;
const APART = 60; // milliseconds between two calls: a server takes 20 a second of one device

/** A server, and how many bytes went each way. */
export class Connection {
  constructor(server) {
    this.server = server.replace(/\/+$/, "");
    this.bytesUp = this.bytesDown = 0;
    this.authorization = "";
    this.next = 0;
  }

  /** Wait until the next call may begin. */
  async turn() {
    const wait = this.next - Date.now();
    this.next = Math.max(this.next, Date.now()) + APART;
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  }

  /** From now on calls say who calls. */
  identify(client, secret) {
    this.authorization = `Bearer ${client}:${toHex(secret)}`;
  }

  /** One call; `took(bytes)` gets the answer in pieces, else the whole answer is returned: {status, headers, bytes}. */
  async call(method, path, { headers = {}, body, signal, seconds = CALL_SECONDS, took, anonymous = false } = {}) {
    await this.turn();
    const control = new AbortController(), stop = () => control.abort();
    const timer = setTimeout(stop, 1000 * seconds);
    signal?.addEventListener("abort", stop);
    try {
      if (signal?.aborted) throw new Stopped();
      const known = this.authorization && !anonymous ? { Authorization: this.authorization, ...headers } : headers;
      this.bytesUp += body?.length ?? 0;
      const answer = await fetch(this.server + path, { method, headers: known, body, signal: control.signal, cache: "no-store", redirect: "error" });
      if (!answer.ok) throw failure(answer.status, answer.headers, await answer.text());
      const pieces = [];
      for (const reader = answer.body.getReader(); ; ) {
        const { done, value } = await reader.read();
        if (done) break;
        this.bytesDown += value.length;
        if (took) took(value, answer);
        else pieces.push(value);
      }
      return { status: answer.status, headers: answer.headers, bytes: took ? null : joined(pieces) };
    } catch (error) {
      if (signal?.aborted) throw new Stopped();
      if (known(error)) throw error;
      throw new Unreachable(control.signal.aborted ? "no answer came in time" : "the server cannot be reached");
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", stop);
    }
  }

  /** A call whose answer is JSON, and perhaps its request. */
  async ask(method, path, { json, ...more } = {}) {
    const headers = json === undefined ? more.headers : { ...more.headers, "Content-Type": "application/json" };
    const body = json === undefined ? more.body : new TextEncoder().encode(JSON.stringify(json));
    const answer = await this.call(method, path, { ...more, headers, body });
    try {
      return JSON.parse(new TextDecoder().decode(answer.bytes));
    } catch {
      throw new Unreachable("the answer of the server cannot be read");
    }
  }

  enrol(request, signal) {
    return this.ask("POST", "/v1/enrol", { json: request, signal });
  }

  check(signal, hold = true) {
    return this.ask("POST", "/v1/check", { json: { hold }, signal, seconds: hold ? CALL_SECONDS : 5 });
  }

  leave() {
    return this.ask("POST", "/v1/leave", { json: {}, seconds: 5 });
  }

  async shard(signal) {
    return (await this.call("GET", "/v1/shard", { signal })).bytes;
  }

  profile(table, signal) {
    return this.ask("POST", "/v1/profile", { json: table, signal });
  }

  /** The smallest question that a server answers. */
  serving(signal) {
    return this.ask("GET", "/v1/status", { signal, anonymous: true });
  }

  async down(nbytes, signal) {
    return (await this.call("GET", `/v1/speed?nbytes=${nbytes}`, { signal })).bytes.length;
  }

  up(bytes, signal) {
    return this.ask("POST", "/v1/speed", { body: bytes, headers: { "Content-Type": "application/octet-stream" }, signal });
  }
}

/** A blob, resumed as often as the line breaks; refused if what comes is never what was announced. */
export async function fetchBlob(connection, blob, until, tell, signal, progress = () => {}) {
  const nbytes = Number(blob.nbytes), data = new Uint8Array(nbytes), tries = new Tries((until - Date.now()) / 1000, tell, signal);
  for (let have = 0, damages = 0; ; ) {
    try {
      let first = true;
      const took = (piece, answer) => {
        if (first && answer.status !== 206) have = 0; // it begins anew
        first = false;
        if (have + piece.length > nbytes) throw new Unreachable("the model is longer than was announced");
        data.set(piece, have);
        have += piece.length;
        progress(have / nbytes);
      };
      if (have < nbytes) {
        const headers = have ? { Range: `bytes=${have}-` } : {};
        await connection.call("GET", `/v1/blobs/${blob.name}`, { headers, signal, took, seconds: callSeconds(until, nbytes - have) });
      }
      if (have === nbytes && crc32c(data) === Number(blob.crc32c)) {
        tries.succeed();
        return data;
      }
      damages += have === nbytes;
      have = have === nbytes ? 0 : have;
      if (damages === MOST_DAMAGES) throw new Refused("the model arrived damaged too often");
      throw new Unreachable("the model arrived damaged");
    } catch (error) {
      if (Date.now() > until && error instanceof Unreachable) throw new Refused("the model did not arrive before the lease ended");
      await tries.fail(error);
    }
  }
}

/**
 * Hand a report in, again and again until there is a word on it: the receipt; null if the lease ended first.
 * After a break the server is asked how much it has, and the upload goes on there.
 */
export async function deliverReport(connection, task, head, payload, until, tell, signal) {
  const tries = new Tries((until - Date.now()) / 1000, tell, signal), total = payload.length;
  const text = JSON.stringify(head).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  for (let resumes = false; Date.now() <= until; resumes = true) {
    try {
      const seconds = callSeconds(until, total);
      const headers = { "FedFleet-Report": text, "Content-Type": "application/octet-stream" };
      let offset = 0;
      if (resumes && total) {
        const nonce = toHex(fromBase64(head.nonce));
        const held = await connection.ask("GET", `/v1/reports/${task}?nonce=${nonce}&nbytes=${total}&crc32c=${head.crc32c}`, { signal });
        offset = Math.min(Number(held.offset), total);
        // A report that is whole and has no receipt yet is sent again: a body must have at least one byte.
        if (offset >= total) offset = 0;
      }
      if (offset) headers["Content-Range"] = `bytes ${offset}-${total - 1}/${total}`;
      const receipt = await connection.ask("PUT", `/v1/reports/${task}`, { headers, body: payload.subarray(offset), signal, seconds });
      if (receipt.status !== "BUSY" && receipt.status !== "RETRY") {
        tries.succeed();
        return receipt;
      }
      throw new Unreachable(printable(receipt.reason) || "the server is busy", Math.min(Number(receipt.seconds) || 0, 60));
    } catch (error) {
      if (error instanceof Unreachable && Date.now() > until) return null;
      try {
        await tries.fail(error);
      } catch (end) {
        if (end instanceof Unreachable) return null;
        throw end;
      }
    }
  }
  return null;
}

/** The head of a report on a piece of work. */
export function headOf(work, payload, more = {}) {
  return { nonce: work.nonce, kind: work.kind, nbytes: String(payload.length), crc32c: crc32c(payload), ...more };
}

function callSeconds(until, nbytes) {
  return Math.max(Math.min((until - Date.now()) / 1000, CALL_SECONDS + nbytes / LEAST_RATE), 5);
}

function known(error) {
  return [Unreachable, CallRefused, UnknownDevice, NotFound, Refused, Stopped].some((kind) => error instanceof kind);
}

/** What a refused call means, by its status and the server's sentence. */
function failure(status, headers, body) {
  let code = "", text = "";
  try {
    const { error } = JSON.parse(body);
    code = String(error.code);
    text = printable(error.message);
  } catch {
    return new Unreachable(`what answers is not a FedFleet server, or it is not ready (status ${status})`);
  }
  if (status === 401 && text) return new UnknownDevice(text);
  if (status === 404 && code === "NOT_FOUND") return new NotFound(text);
  if ([403, 404, 405, 409].includes(status) && text) return new CallRefused(text);
  return new Unreachable(text || `status ${status}`, Math.min(Number(headers.get("Retry-After")) || 0, 60));
}

function joined(pieces) {
  if (pieces.length === 1) return pieces[0];
  const result = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    result.set(piece, at);
    at += piece.length;
  }
  return result;
}
