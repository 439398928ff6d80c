// The page: what a person sees and presses. Taking part is in device.js, training in a worker.
import { CAPS, capsFrom } from "./caps.js";
import { Device } from "./device.js";
import { Connection } from "./protocol.js";
import { CallRefused, Stopped, Unreachable, UnknownDevice } from "./retries.js";
import { readTable } from "./samples.js";
import { BrowserStore } from "./store.js";
import * as view from "./view.js";
import { WorkerTrainer } from "./worker_trainer.js";

const MOST_FILE = 50 << 20, MOST_HISTORY = 2000, LOCK_SECONDS = 3;
const element = (id) => document.getElementById(id);
const store = await BrowserStore.open();
let device = null, trainer = null, history = [], battery = null, lock = null, paused = false, doing = ["Joining", "", null];
const known = {};

/** The invitation in the address, behind the #, where no log of a server sees it; kept for when the page is opened again. */
async function invitation() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) await store.set("token", given);
  return given ?? (await store.get("token")) ?? "";
}

// ---- before -------------------------------------------------------------------------------------------------------

async function begin() {
  view.write("place", location.host);
  const caps = capsFrom(await store.get("caps"));
  for (const name of Object.keys(CAPS)) element(name).value = caps[name];
  view.write("limits", `At most ${limits(caps)}.`);
  view.show("awake-choice", "wakeLock" in navigator);
  battery = (await navigator.getBattery?.().catch(() => null)) ?? null;
  battery?.addEventListener("levelchange", facts);
  battery?.addEventListener("chargingchange", facts);
  await invitation();
  if (await store.get("joined")) await join(true);
  else view.show("before", true);
}

/** Only one page of a browser is this device: two would be one client twice. A page that was just killed may hold on for a moment. */
async function alone() {
  if (!navigator.locks) return true;
  return new Promise((resolve) => {
    const control = new AbortController(), timer = setTimeout(() => control.abort(), 1000 * LOCK_SECONDS);
    const hold = () => new Promise((release) => {
      clearTimeout(timer);
      lock = release;
      resolve(true);
    });
    navigator.locks.request("fedfleet device", { signal: control.signal }, hold).catch(() => resolve(false));
  });
}

function refuse(text) {
  view.write("why", text);
  view.show("why", true);
}

async function samplesChosen() {
  if (new FormData(element("form")).get("source") !== "own") return "";
  const file = element("file").files[0];
  if (!file) throw new Error("Choose your file first, or take the practice samples.");
  if (file.size > MOST_FILE) throw new Error(`The file has ${view.bytes(file.size)}; this page reads ${view.bytes(MOST_FILE)} at most.`);
  const text = await file.text();
  readTable(text);
  return text;
}

async function submit(event) {
  event.preventDefault();
  view.show("why", false);
  try {
    const text = await samplesChosen();
    await store.set("own", text);
    await store.set("caps", wantedCaps());
    await store.set("awake", element("awake").checked);
    await store.delete("seconds");
    await join(false);
  } catch (error) {
    refuse(error.message);
  }
}

// ---- taking part --------------------------------------------------------------------------------------------------

async function join(again) {
  if (!(await alone())) {
    view.show("before", true);
    refuse("This page is open in another tab or window, which takes part already. Go on there, or close it first.");
    return;
  }
  view.show("before", false);
  view.show("during", true);
  for (const id of ["pause", "leave"]) view.show(id, true);
  for (const id of ["again", "forget", "notice"]) view.show(id, false);
  history = (await store.get("history")) ?? [];
  view.rounds(history);
  say(again ? "Going on as before" : "Joining", "Asking the server.");
  await store.set("joined", true);
  known.caps = capsFrom(await store.get("caps"));
  const text = await store.get("own");
  trainer = new WorkerTrainer("/join/training.js");
  device = new Device({
    connection: new Connection(location.origin), store, trainer, caps: known.caps, token: await invitation(), table: text ? readTable(text) : null,
    kind: kindOfDevice(), memory: (navigator.deviceMemory ?? 0) * 2 ** 30, tell: hear,
    battery: () => battery && { level: battery.level, charging: battery.charging },
    patience: 3600, anew: !again,
  });
  facts();
  stayAwake();
  try {
    const reason = await device.run();
    await end("The run is over. Thank you!", `${reason[0].toUpperCase()}${reason.slice(1)}.`.replace("Rounds.", "All rounds are done."));
  } catch (error) {
    if (error instanceof Stopped) await end("You have left", "This device takes no part any more. Nothing is trained or sent.");
    else await end("This device cannot take part", sentence(error));
  }
}

function sentence(error) {
  if (error instanceof UnknownDevice) return `The server does not accept this invitation (${error.message}). Ask whoever invited you for a new link.`;
  if (error instanceof CallRefused) return `The server refuses: ${error.message}.`;
  if (error instanceof Unreachable) return `The server gave no answer for a long time (${error.message}). Try again later.`;
  return `${error.message[0].toUpperCase()}${error.message.slice(1)}.`;
}

async function end(now, more) {
  await store.set("joined", false);
  await store.delete("own");
  trainer.worker.terminate();
  lock?.();
  paused = false;
  view.state(now, more);
  for (const id of ["pause", "leave", "line"]) view.show(id, false);
  for (const id of ["again", "forget"]) view.show(id, true);
}

function say(now, more = "", share = null) {
  doing = [now, more, share];
  if (!paused) view.state(...doing);
}

/** What happens on the device, in words. */
function hear(kind, detail) {
  const round = (detail.work?.round ?? 0) + 1;
  switch (kind) {
    case "enrolled":
      view.write("run", `${detail.run} · client ${detail.client}`);
      return;
    case "ready":
      Object.assign(known, { train: detail.train, test: detail.test, nbytes: detail.nbytes, name: detail.sheet.described.name });
      return facts();
    case "measuring":
      return say("Measuring this device", "A few batches of the model and a few transfers, to know how fast it is.");
    case "profile":
      known.profile = detail;
      return facts();
    case "waiting":
      return say("Waiting for work", "The server will ask when it is this device's turn.");
    case "work":
      known.kind = detail.work.kind;
      known.round = round;
      return say(`Round ${round}: receiving the model`, view.bytes(Number(detail.work.model.nbytes)), 0);
    case "download":
      return say(`Round ${known.round}: receiving the model`, doing[1], detail.share);
    case "progress": {
      const what = known.kind === "TRAIN" ? "training" : "measuring the model";
      return say(`Round ${known.round}: ${what}`, `${Math.round(100 * detail.share)} % done, loss ${detail.loss.toFixed(3)}`, detail.share);
    }
    case "sending":
      return detail.nbytes
        ? say(`Round ${detail.round + 1}: sending the update`, view.bytes(detail.nbytes), 1)
        : say(`Round ${detail.round + 1}: sending the answer`, "A few numbers.", 1);
    case "resend":
      return say("Going on as before", `The update of round ${detail.round + 1} was ready, and is sent now.`);
    case "handed":
      return handed(detail);
    case "declined":
      notice(`Round ${round} was declined: ${detail.why}.`);
      return;
    case "line":
      view.write("line", `No connection (${detail.text}). The page tries again by itself; what was trained is kept.`);
      view.show("line", Boolean(detail.text));
  }
}

async function handed({ work, status, reason, detail, declined }) {
  if (declined) return;
  if (status !== "SAFE") {
    notice(`The update of round ${work.round + 1} was not used: ${reason || "it came too late"}.`);
    return;
  }
  let one = history.find((entry) => entry.round === work.round);
  if (!one) history.push((one = { round: work.round, up: 0, down: 0 }));
  if (work.kind === "TRAIN") Object.assign(one, { loss: detail.stats.loss, seconds: detail.seconds });
  else if (work.kind === "EVALUATE") one.accuracy = detail.correct / Math.max(detail.total, 1);
  one.up += detail.up;
  one.down += detail.down;
  history.splice(0, history.length - MOST_HISTORY);
  view.rounds(history);
  await store.set("history", history);
}

function notice(text) {
  view.write("notice", text);
  view.show("notice", true);
}

function limits(caps) {
  return `${caps.megabytes} MB a model, ${caps.steps} steps and ${caps.samples} samples a round, ${caps.minutes} minutes in all`;
}

/** The limits that stand in the form. */
function wantedCaps() {
  return capsFrom(Object.fromEntries(Object.keys(CAPS).map((name) => [name, element(name).value])));
}

function facts() {
  if (battery) view.write("battery", `Battery ${Math.round(100 * battery.level)} %, ${battery.charging ? "charging" : "not charging"}.`);
  view.show("battery", Boolean(battery));
  const { profile, caps } = known, rate = (v) => (v ? `${view.bytes(v)} a second` : "not measured");
  view.facts({
    ...(known.train ? { Samples: `${known.train} to train, ${known.test} to test` } : {}),
    ...(known.nbytes ? { Model: `${known.name}, ${view.bytes(known.nbytes)}` } : {}),
    ...(profile ? { "A batch": `${view.seconds(profile.seconds_per_batch)} for ${profile.batch} samples`, "Down, up": `${rate(profile.down_bytes_per_second)}, ${rate(profile.up_bytes_per_second)}` } : {}),
    ...(caps ? { Limits: limits(caps) } : {}),
  });
}

/** Which browser on which system, in few words. */
function kindOfDevice() {
  const agent = navigator.userAgent, find = (names) => names.find((name) => agent.includes(name)) ?? "";
  const system = find(["Android", "iPhone", "iPad", "Windows", "Mac OS", "Linux"]), browser = find(["Edg", "Firefox", "Chrome", "Safari"]);
  return `page, ${browser || "browser"}${system && ` on ${system}`}`;
}

async function stayAwake() {
  if (document.visibilityState !== "visible" || !(await store.get("awake")) || !(await store.get("joined"))) return;
  await navigator.wakeLock?.request("screen").catch(() => {}); // refused with a low battery
}

// ---- buttons ------------------------------------------------------------------------------------------------------

function pause() {
  paused = !paused;
  view.write("pause", paused ? "Go on" : "Pause");
  if (paused) {
    device.pause();
    view.state("Paused", "Nothing is trained until you go on. The server may give this round to others.");
  } else {
    device.resume();
    view.state(...doing);
  }
}

async function leave() {
  view.write("pause", "Pause");
  await store.set("joined", false);
  view.state("Leaving", "Telling the server.");
  paused = true;
  device.stop();
}

async function forget() {
  await store.clear();
  location.reload();
}

element("form").addEventListener("submit", submit);
element("form").addEventListener("change", () => {
  view.show("picker", new FormData(element("form")).get("source") === "own");
  view.write("limits", `At most ${limits(wantedCaps())}.`);
});
element("pause").addEventListener("click", pause);
element("leave").addEventListener("click", leave);
element("forget").addEventListener("click", forget);
element("again").addEventListener("click", () => location.reload());
document.addEventListener("visibilitychange", stayAwake);
await begin();
