// How quick this device is: seconds of a batch of the run's own model, the speed of its line, its memory and battery.
import { CallRefused, NotFound, Stopped, Unreachable, UnknownDevice, sleep, withRetries } from "./retries.js";

const FIRST_BYTES = 1 << 17, MOST_BYTES = 1 << 22, ENOUGH_SECONDS = 0.5;
const PAUSE_SECONDS = 0.07; // before a call that is timed, so that it need not wait for its turn

/** Measure this device, and give the server the result where it takes one. */
export async function measure(device) {
  const { connection, trainer, signal, sheet } = device, battery = device.battery();
  device.tell("measuring", {});
  const { seconds, batch } = await trainer.time();
  const table = { model: String(sheet.described.name), seconds_per_batch: seconds, batch, seconds_per_sample: seconds / batch };
  if (device.kind) table.kind = device.kind;
  if (device.memory) table.memory_mb = Math.round(device.memory / 2 ** 20);
  if (battery) table.battery = battery.level;
  try {
    const tries = device.tries();
    const timed = async (move) => {
      await sleep(PAUSE_SECONDS, signal);
      return withRetries(() => secondsOf(move), tries);
    };
    table.latency_seconds = await latency(() => timed(() => connection.serving(signal)));
    table.down_bytes_per_second = await speed((nbytes) => timed(() => connection.down(nbytes, signal)));
    table.up_bytes_per_second = await speed((nbytes) => timed(() => connection.up(new Uint8Array(nbytes), signal)));
    await withRetries(() => connection.profile(table, signal), tries);
  } catch (error) {
    if (error instanceof Stopped) throw error;
    // A server that takes no profile, or a line that breaks now, keeps nobody from taking part.
    const expected = [Unreachable, CallRefused, NotFound, UnknownDevice].some((kind) => error instanceof kind);
    if (!expected) throw error;
    table.refused = error.message;
  }
  return table;
}

async function secondsOf(move) {
  const began = performance.now();
  await move();
  return Math.max((performance.now() - began) / 1000, 1e-4);
}

async function latency(call) {
  let least = Infinity;
  for (let i = 0; i < 3; i++) least = Math.min(least, await call());
  return least;
}

/** Bytes a second: of a small transfer, and where that was quick, of one that takes about long enough to tell. */
async function speed(transfer) {
  const first = await transfer(FIRST_BYTES), nbytes = Math.min(Math.round((FIRST_BYTES * ENOUGH_SECONDS) / first), MOST_BYTES);
  return nbytes <= 2 * FIRST_BYTES ? FIRST_BYTES / first : nbytes / (await transfer(nbytes));
}
