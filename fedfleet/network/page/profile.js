// How quick this device is: seconds of a batch of the run's own model, the speed of its line, its memory and battery.
import { CallRefused, NotFound, Stopped, Unreachable, UnknownDevice } from "./retries.js";

const FIRST_BYTES = 1 << 16, MOST_BYTES = 1 << 22, ENOUGH_SECONDS = 0.4;

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
    table.latency_seconds = await latency(connection, signal);
    table.down_bytes_per_second = await speed((nbytes) => connection.down(nbytes, signal));
    table.up_bytes_per_second = await speed((nbytes) => connection.up(new Uint8Array(nbytes), signal));
    await connection.profile(table, signal);
  } catch (error) {
    if (error instanceof Stopped) throw error;
    // A server that takes no profile, or a line that breaks now, keeps nobody from taking part.
    const expected = [Unreachable, CallRefused, NotFound, UnknownDevice].some((kind) => error instanceof kind);
    if (!expected) throw error;
    table.refused = error.message;
  }
  return table;
}

async function latency(connection, signal) {
  let least = Infinity;
  for (let i = 0; i < 3; i++) {
    const began = performance.now();
    await connection.down(1, signal);
    least = Math.min(least, (performance.now() - began) / 1000);
  }
  return least;
}

/** Bytes a second, from a transfer that takes long enough to tell. */
async function speed(move) {
  for (let nbytes = FIRST_BYTES; ; nbytes = Math.min(4 * nbytes, MOST_BYTES)) {
    const began = performance.now();
    await move(nbytes);
    const seconds = Math.max((performance.now() - began) / 1000, 1e-4);
    if (seconds >= ENOUGH_SECONDS || nbytes === MOST_BYTES) return nbytes / seconds;
  }
}
