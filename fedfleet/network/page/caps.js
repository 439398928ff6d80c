// Caps: the most that a server may ask of this device. What goes beyond is declined, with the reason.
import { Refused } from "./refused.js";

export const CAPS = { megabytes: 64, steps: 5000, samples: 100000, minutes: 60 };

/** The caps that somebody chose; what is no number above 0 is as in CAPS. */
export function capsFrom(table) {
  return Object.fromEntries(Object.entries(CAPS).map(([name, usual]) => {
    const value = Number(table?.[name]);
    return [name, value > 0 ? value : usual];
  }));
}

export function checkBytes(caps, nbytes, what) {
  const most = caps.megabytes * 2 ** 20;
  if (!(Number(nbytes) <= most)) throw new Refused(`${what} has ${nbytes} bytes, and this device takes ${most} at most`);
}

/** Refuse a task of too many steps, or too many samples in all its steps. */
export function checkExtent(caps, { steps }, batch) {
  if (!(steps <= caps.steps)) throw new Refused(`the task has ${steps} steps, and this device does ${caps.steps} at most`);
  const samples = steps * batch;
  if (!(samples <= caps.samples)) throw new Refused(`the task trains on ${samples} samples, and this device on ${caps.samples} at most`);
}

/** Why this device does no more; nothing where it does. */
export function budgetReason(caps, seconds) {
  return seconds >= 60 * caps.minutes ? `this device works for ${caps.minutes} minutes at most, and has done so` : null;
}
