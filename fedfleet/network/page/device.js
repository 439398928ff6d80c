// Taking part: enrol, measure, check in, do the work, hand it in, until the run is over or the owner of this device leaves.
//
// Killed at any moment, it goes on as the same client: who it is and a report that was made lie in the store.
import { fromBase64, fromHex, printable, randomBytes, toBase64, toHex } from "./bytes.js";
import { budgetReason, checkBytes } from "./caps.js";
import { readSheet } from "./method.js";
import { measure } from "./profile.js";
import { PROTOCOL, deliverReport, fetchBlob, headOf } from "./protocol.js";
import { Refused } from "./refused.js";
import { CallRefused, NotFound, Stopped, Tries, UnknownDevice, Unreachable, sleep, withRetries } from "./retries.js";
import { fitTable, readShard, splitCounts } from "./samples.js";
import { equalBytes, hmac, join, sha256 } from "./sha256.js";

const MOST_REST = 3600, MOST_FAILURES = 3, MOST_FAREWELLS = 4, USUAL_LEASE = 600, MOST_LEASE = 30 * 86400;
const SHEET_LABEL = new TextEncoder().encode("fedfleet sheet 1\0");

export class Device {
  /**
   * `store` keeps values by name over restarts; `table` are the owner's samples (null: those of a rehearsal); `tell(kind, detail)`
   * hears what happens; `battery()` gives {level, charging} or null. `anew`: where the server does not accept who this device was,
   * perhaps in an earlier run, it asks as a newcomer.
   */
  constructor({ connection, store, trainer, caps, token = "", client = null, table = null, patience = 600, anew = false, kind = "", memory = 0, tell, battery = () => null }) {
    Object.assign(this, { connection, store, trainer, caps, token, client, table, patience, anew, kind, memory, tell, battery });
    this.control = new AbortController();
    this.signal = this.control.signal;
    this.failed = 0;
    this.work = null;
    this.resumed = Promise.resolve();
  }

  /** Take part; the answer says why it is over. Ends with Stopped when the owner leaves. */
  async run() {
    this.spent = (await this.store.get("seconds")) ?? 0;
    try {
      await this.enrol();
      await this.begin();
      let answer = (await this.resend()) ?? (await this.check());
      for (;;) {
        await this.gate();
        if (answer.over) return printable(answer.over.reason) || "the run is over";
        const reason = budgetReason(this.caps, this.spent);
        if (reason) {
          this.work = answer.work ?? null;
          await this.farewell(reason);
          return reason;
        }
        if (answer.work) answer = (await this.doWork(answer.work)) ?? (await this.check());
        else {
          this.tell("waiting", {});
          await sleep(Math.min(Number(answer.later?.seconds) || 0, MOST_REST), this.signal);
          await this.gate();
          answer = await this.check();
        }
      }
    } catch (error) {
      if (error instanceof Stopped) await this.farewell("the owner of this device left");
      else await this.farewell(error.message);
      throw error;
    }
  }

  /** Stop at the next step of training, until `resume`. */
  pause() {
    if (!this.open) this.resumed = new Promise((resolve) => { this.open = resolve; });
  }

  resume() {
    this.open?.();
    this.open = null;
  }

  /** End, with a word to the server. */
  stop() {
    this.control.abort();
    this.resume();
  }

  async gate() {
    await this.resumed;
    if (this.signal.aborted) throw new Stopped();
  }

  line() {
    return (text) => this.tell("line", { text });
  }

  tries() {
    return new Tries(this.patience, this.line(), this.signal);
  }

  // ---- who it is --------------------------------------------------------------------------------------------------

  /** Become a client, or the same one as before; its sheet must be signed for this device. */
  async enrol() {
    const identity = await this.store.get("identity");
    let reply;
    try {
      reply = await this.askToEnrol(identity);
    } catch (error) {
      if (!identity || !this.anew || !(error instanceof UnknownDevice || error instanceof CallRefused)) throw error;
      for (const name of ["attempt", "identity", "report"]) await this.store.delete(name);
      reply = await this.askToEnrol(null);
    }
    const secret = fromBase64(reply.secret), bytes = fromBase64(reply.sheet);
    if (!equalBytes(hmac(secret, join(SHEET_LABEL, bytes)), fromBase64(reply.signature))) {
      throw new Refused("the settings from the server are not signed for this device; they may have been changed on the way");
    }
    if (identity && identity.client !== reply.client) await this.store.delete("report");
    await this.store.set("identity", { client: reply.client, secret: toHex(secret), run: reply.run });
    this.connection.identify(reply.client, secret);
    this.number = reply.client;
    const hash = toHex(sha256(bytes));
    if (hash !== this.hash) {
      this.hash = hash;
      this.sheet = readSheet(bytes);
      this.ready = false;
    }
    this.tell("enrolled", { client: reply.client, run: printable(reply.run, 80) });
  }

  async askToEnrol(identity) {
    let attempt = await this.store.get("attempt");
    if (!attempt) await this.store.set("attempt", (attempt = toHex(randomBytes(16))));
    const [train, test] = this.table ? splitCounts(this.table.rows.length) : [0, 0];
    const request = {
      protocol: PROTOCOL, token: this.token, samples: String(train), test_samples: String(test), data: this.table ? "own" : "",
      memory_bytes: String(this.memory), attempt: toBase64(fromHex(attempt)),
    };
    const wanted = identity?.client ?? this.client;
    if (wanted !== null && wanted !== undefined) request.client = wanted;
    if (identity) request.secret = toBase64(fromHex(identity.secret));
    return withRetries(() => this.connection.enrol(request, this.signal), this.tries());
  }

  /** Make ready what this device trains with, and tell the server how quick it is. */
  async begin() {
    if (this.ready) return;
    const sheet = this.sheet, own = sheet.data?.use === "own";
    if (own && !this.table) throw new Refused("the server expects samples of your own from this device; choose your file");
    const samples = own ? fitTable(this.table, sheet) : readShard(await withRetries(() => this.connection.shard(this.signal), this.tries()), sheet);
    const { nbytes } = await this.trainer.prepare(sheet, samples);
    checkBytes(this.caps, nbytes, "the model");
    this.ready = true;
    this.tell("ready", { train: samples.train.y.length, test: samples.test.y.length, nbytes, sheet });
    if (!this.measured) {
      this.measured = await measure(this);
      this.tell("profile", this.measured);
    }
  }

  // ---- the loop ---------------------------------------------------------------------------------------------------

  async check() {
    this.checked = true;
    for (let again = false; ; again = true) {
      try {
        return await withRetries(() => this.connection.check(this.signal), this.tries());
      } catch (error) {
        if (!(error instanceof UnknownDevice) || again) throw error;
        await this.enrol();
        await this.begin();
      }
    }
  }

  async doWork(work) {
    this.work = work;
    const lease = Math.min(Number(work.lease_seconds) || USUAL_LEASE, MOST_LEASE), until = Date.now() + 1000 * lease;
    if (work.sheet && work.sheet !== this.hash) {
      await this.enrol();
      await this.begin();
    }
    const began = Date.now(), up = this.connection.bytesUp, down = this.connection.bytesDown;
    let head, payload, detail;
    try {
      this.tell("work", { work });
      checkBytes(this.caps, work.model.nbytes, "the model");
      const progress = (share) => this.tell("download", { share });
      const model = await fetchBlob(this.connection, work.model, until, this.line(), this.signal, progress);
      const computing = Date.now(), end = Math.min(until, computing + 1000 * (60 * this.caps.minutes - this.spent));
      const done = await this.trainer.work(work, model, this.caps, end, async (share, loss) => {
        this.tell("progress", { share, loss });
        await this.gate();
      });
      payload = done.payload;
      const seconds = (Date.now() - computing) / 1000;
      head = headOf(work, payload, this.resources(done, began, up, down, payload.length));
      head.spent = { download: (computing - began) / 1000, compute: seconds };
      if (work.kind === "TRAIN") Object.assign(head, { weight: done.weight, stats: finite(done.stats) });
      else Object.assign(head, { correct: String(done.correct), total: String(done.total), loss: done.loss });
      detail = { ...done, payload: undefined, seconds, down: model.length, up: payload.length };
      this.failed = 0;
    } catch (error) {
      await this.spend(began);
      if (error instanceof UnknownDevice) {
        await this.enrol();
        await this.begin();
        return null;
      }
      if (error instanceof NotFound) return null;
      if (!(error instanceof Refused)) throw error;
      const next = await this.decline(work, error.message);
      if (++this.failed >= MOST_FAILURES) throw new Refused(`${this.failed} tasks in a row failed on this device; the last error: ${error.message}`);
      return next;
    }
    await this.spend(began);
    await this.store.set("report", { task: work.task, head, payload, until, detail, round: work.round, kind: work.kind });
    this.work = null;
    return this.send(work, head, payload, until, detail);
  }

  resources(done, began, up, down, nbytes) {
    return {
      resources: {
        wall_seconds: (Date.now() - began) / 1000,
        bytes_down: String(this.connection.bytesDown - down),
        bytes_up: String(this.connection.bytesUp - up + nbytes),
        samples: String(done.stats?.samples ?? done.total ?? 0),
      },
    };
  }

  async spend(began) {
    this.spent += (Date.now() - began) / 1000;
    await this.store.set("seconds", this.spent);
  }

  /** A report that an earlier life of this page had ready is handed in first. */
  async resend() {
    const kept = await this.store.get("report");
    if (!kept || Date.now() > kept.until) {
      await this.store.delete("report");
      return null;
    }
    this.tell("resend", { round: kept.round });
    return this.send(kept, kept.head, kept.payload, kept.until, kept.detail);
  }

  /** Hand a report in; the next answer, if it came with the receipt. */
  async send(work, head, payload, until, detail) {
    this.tell("sending", { round: work.round, nbytes: payload.length });
    let receipt;
    try {
      receipt = await deliverReport(this.connection, work.task, head, payload, until, this.line(), this.signal);
    } catch (error) {
      if (!(error instanceof UnknownDevice)) throw error;
      const before = this.number;
      await this.enrol();
      await this.begin();
      if (this.number !== before) return null; // of another client, whose reports these are not
      receipt = await deliverReport(this.connection, work.task, head, payload, until, this.line(), this.signal);
    }
    await this.store.delete("report");
    const status = receipt?.status ?? "LATE";
    this.tell("handed", { work, status, reason: printable(receipt?.reason ?? ""), detail, declined: head.declined ?? "" });
    return receipt?.next ?? null;
  }

  /** Tell the server that it need not wait for this task. */
  async decline(work, why) {
    this.work = null;
    this.tell("declined", { work, why });
    const nothing = new Uint8Array(0), until = Date.now() + 60000;
    return this.send(work, headOf(work, nothing, { declined: printable(why) }), nothing, until, {});
  }

  /** Say that this device goes, and that the task which it was at, or has just been given, will not be done. */
  async farewell(why = "") {
    let work = this.work;
    this.work = null;
    if (!this.connection.authorization) return;
    const nothing = new Uint8Array(0);
    try {
      for (let times = 0; this.checked && times < MOST_FAREWELLS; times++) {
        // The server may have given it another task since, and would wait for that one.
        work ??= (await this.connection.check(undefined, false)).work;
        if (!work) break;
        const head = headOf(work, nothing, { declined: printable(why) });
        const receipt = await deliverReport(this.connection, work.task, head, nothing, Date.now() + 2000, () => {}, undefined);
        work = receipt?.next?.work;
      }
      await this.connection.leave();
    } catch (error) {
      // If nobody hears it, that is no harm.
      if (!(error instanceof Unreachable || error instanceof CallRefused || error instanceof UnknownDevice || error instanceof NotFound)) throw error;
    }
  }
}

function finite(table) {
  return Object.fromEntries(Object.entries(table).filter(([, value]) => Number.isFinite(value)));
}
