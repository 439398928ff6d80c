// What a sheet asks of this device: the method and its numbers, checked before anything is trained.
//
// The sheet is untrusted: what is not known here is refused by its name, never guessed.
import { DescribedModel } from "./engine.js";
import { Refused } from "./refused.js";

const METHODS = ["fedavg", "fedprox"];
// Settings of a method that change nothing on the device, and those that change what this page can do.
const SERVER_SIDE = ["use", "bound"];
const KNOWN = ["lr", "epochs", "steps", "batch", "optimiser", "momentum", "weight_decay", "weigh", "max_samples", "mu", ...SERVER_SIDE];
const MOST_SHEET = 16 << 20;

/** The sheet in these bytes. */
export function readSheet(bytes) {
  if (bytes.length > MOST_SHEET) throw new Refused(`the settings of the run have ${bytes.length} bytes, more than this page reads`);
  let sheet;
  try {
    sheet = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    throw new Refused("the settings of the run cannot be read");
  }
  if (sheet?.form !== 1) throw new Refused("the settings of the run have a format that this page does not know");
  return sheet;
}

/** What a sheet asks for: {model, rate, epochs, steps, batch, momentum, decay, pull, weigh, mostSamples, seed, key}. */
export function readMethod(sheet) {
  const how = sheet.algorithm ?? {}, entry = sheet.described ?? {};
  if (!METHODS.includes(how.use)) throw new Refused(`this page does not know the method '${how.use}', only ${METHODS.join(" and ")}`);
  for (const [name, value] of Object.entries(how)) {
    if (value === null || value === false || KNOWN.includes(name)) continue;
    throw new Refused(`this page does not know the setting '${name}' of the method`);
  }
  if ((how.optimiser ?? "sgd") !== "sgd") throw new Refused(`this page does not know the optimiser '${how.optimiser}', only sgd`);
  if (sheet.frozen) throw new Refused("this page does not train models with frozen weights");
  if (typeof entry.model !== "string") throw new Refused(`the run cannot describe its model to this page: ${entry.refused ?? "it is not there"}`);
  const kind = sheet.reading?.kind ?? "classification";
  if (kind !== "classification") throw new Refused(`this page trains models that tell classes apart, and this run is of the kind '${kind}'`);
  return {
    model: new DescribedModel(entry.model),
    classes: amount(sheet.inputs?.classes, 1, 1e6, "inputs.classes"),
    rate: amount(how.lr, 0, 1e6, "lr"),
    epochs: amount(how.epochs ?? 1, 1, 1e6, "epochs"),
    steps: amount(how.steps ?? 0, 0, 1e9, "steps"),
    batch: amount(how.batch ?? 16, 1, 1e6, "batch"),
    momentum: amount(how.momentum ?? 0, 0, 1, "momentum"),
    decay: amount(how.weight_decay ?? 0, 0, 1e6, "weight_decay"),
    pull: how.use === "fedprox" ? amount(how.mu, 0, 1e6, "mu") : 0,
    weigh: how.weigh ?? "samples",
    mostSamples: how.max_samples ?? Infinity,
    seed: BigInt(amount(sheet.seed, 0, Number.MAX_SAFE_INTEGER, "seed")),
    key: BigInt(`0x${String(sheet.key)}`),
  };
}

/** How many rows a task trains on, and in how many steps. */
export function extent(method, work, samples) {
  const share = work.share ?? 1;
  const rows = share >= 1 ? samples : Math.ceil(share * samples);
  const steps = Number(work.steps ?? 0) || method.steps || method.epochs * Math.ceil(rows / method.batch);
  return { rows, steps };
}

function amount(value, least, most, name) {
  if (typeof value !== "number" || !(value >= least && value <= most)) throw new Refused(`the setting '${name}' of the run is no number from ${least} to ${most}`);
  return value;
}
