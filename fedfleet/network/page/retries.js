// What a failed call means, and patience with a server: growing pauses, and one sentence for each change of the line.

const FIRST_PAUSE = 0.1, LONGEST_PAUSE = 10, WARN_AFTER = 1;
const REFUSALS = 3; // times that a server says the same, before it is believed

/** The server gave no usable answer this time; trying again may help. `seconds`: not earlier than in so many. */
export class Unreachable extends Error {
  constructor(text, seconds = 0) {
    super(text);
    this.seconds = seconds;
  }
}
/** The server says that this device cannot take part. */
export class CallRefused extends Error {}
/** The server does not know this device (any more). */
export class UnknownDevice extends Error {}
/** What was asked for is not there any more. */
export class NotFound extends Error {}
/** The owner of this device ends what it does. */
export class Stopped extends Error {}

/** One pause after the other in seconds, each between half of its length and the whole of it. */
export function* pauses() {
  for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) yield pause * (1 - 0.5 * Math.random());
}

/** Wait; sooner back if the signal ends it, or if the device is on line again. */
export function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const wake = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", wake);
      globalThis.removeEventListener?.("online", wake);
      if (signal?.aborted) reject(new Stopped());
      else resolve();
    };
    const timer = setTimeout(wake, 1000 * Math.max(0, Math.min(seconds, 3600)));
    signal?.addEventListener("abort", wake);
    globalThis.addEventListener?.("online", wake);
    if (signal?.aborted) wake();
  });
}

/** The tries of one exchange. `tell(text)` hears when the line breaks, and `tell("")` when it works again. */
export class Tries {
  constructor(seconds, tell, signal) {
    this.seconds = seconds;
    this.tell = tell;
    this.signal = signal;
    this.begin();
  }

  begin() {
    this.since = Date.now();
    this.same = 0;
    this.last = "";
    this.pauses = pauses();
  }

  /** A try failed: wait and return if another may help, else throw what ends the exchange. */
  async fail(error) {
    if (this.signal?.aborted) throw new Stopped();
    const certain = error instanceof CallRefused || error instanceof UnknownDevice || error instanceof NotFound;
    if (!certain && !(error instanceof Unreachable)) throw error;
    const text = `${error.constructor.name} ${error.message}`;
    this.same = text === this.last ? this.same + 1 : 1;
    this.last = text;
    if (error instanceof NotFound || (certain && this.same >= REFUSALS)) throw error;
    const gone = (Date.now() - this.since) / 1000, pause = Math.max(this.pauses.next().value, error.seconds ?? 0);
    if (gone + pause > this.seconds) throw error;
    if (gone > WARN_AFTER && !this.told) {
      this.told = true;
      this.tell(error.message);
    }
    await sleep(pause, this.signal);
  }

  succeed() {
    if (this.told) this.tell("");
    this.told = false;
    this.begin();
  }
}

/** One call, tried again until it works. */
export async function withRetries(call, tries) {
  for (;;) {
    try {
      const reply = await call();
      tries.succeed();
      return reply;
    } catch (error) {
      await tries.fail(error);
    }
  }
}
