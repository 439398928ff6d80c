// A device of a served run in Node (18 or newer), with the very modules of FedFleet's page: no package is needed.
//
//   node examples/device/device.mjs SERVER [--token TOKEN] [--data own.csv] [--store FOLDER] [--client N] [--minutes N]
//
// SERVER is the address of the HTTP door, such as https://fleet.example:8443. Without --data it trains on the samples that the
// server deals out for a rehearsal. A private authority's certificate: set NODE_EXTRA_CA_CERTS to its file.
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { totalmem } from "node:os";
import { parseArgs } from "node:util";
import { webcrypto } from "node:crypto";

globalThis.crypto ??= webcrypto; // Node 18 has it under this name alone

const { capsFrom } = await import("../../fedfleet/network/page/caps.js");
const { Connection } = await import("../../fedfleet/network/page/protocol.js");
const { Device } = await import("../../fedfleet/network/page/device.js");
const { readTable } = await import("../../fedfleet/network/page/samples.js");
const { Stopped } = await import("../../fedfleet/network/page/retries.js");
const { Trainer } = await import("../../fedfleet/network/page/trainer.js");

/** Values by name in files that only their owner can read; bytes inside a value are kept as base64. */
class FileStore {
  constructor(folder) {
    this.folder = folder;
  }

  async get(name) {
    try {
      const revive = (key, value) => (value?.base64 === undefined ? value : new Uint8Array(Buffer.from(value.base64, "base64")));
      return JSON.parse(await readFile(join(this.folder, `${name}.json`), "utf-8"), revive);
    } catch (error) {
      if (error.code === "ENOENT") return undefined;
      throw error;
    }
  }

  async set(name, value) {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const path = join(this.folder, `${name}.json`);
    const replace = (key, one) => (one instanceof Uint8Array ? { base64: Buffer.from(one).toString("base64") } : one);
    await writeFile(`${path}.part`, JSON.stringify(value, replace), { mode: 0o600 });
    await rename(`${path}.part`, path);
  }

  async delete(name) {
    await rm(join(this.folder, `${name}.json`), { force: true });
  }
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

function sentence(kind, detail) {
  switch (kind) {
    case "enrolled":
      return `enrolled as client ${detail.client} of ${detail.run || "a run"}`;
    case "ready":
      return `${detail.train} training samples, ${detail.test} test samples; the model has ${detail.nbytes} bytes`;
    case "profile":
      return `a batch of ${detail.batch} takes ${detail.seconds_per_batch.toFixed(4)} s here${detail.refused ? `; the server takes no profile: ${detail.refused}` : ""}`;
    case "work":
      return `round ${detail.work.round}: ${detail.work.kind.toLowerCase()} (task ${detail.work.task})`;
    case "handed":
      return `task ${detail.work.task}: ${detail.status}${detail.reason && ` (${detail.reason})`}${described(detail.detail)}`;
    case "declined":
      return `task ${detail.work.task} declined: ${detail.why}`;
    case "line":
      return detail.text ? `no usable answer (${detail.text}); trying again` : "the server answers again";
    default:
      return "";
  }
}

function described(detail) {
  if (detail.stats) return `, loss ${detail.stats.loss.toFixed(4)}`;
  return detail.total ? `, ${percent(detail.correct / detail.total)} right` : "";
}

const options = { token: { type: "string" }, data: { type: "string" }, store: { type: "string" }, client: { type: "string" }, minutes: { type: "string" } };
const { values, positionals } = parseArgs({ options, allowPositionals: true });
if (positionals.length !== 1) {
  console.error("give the address of the server's HTTP door, such as http://127.0.0.1:8080");
  process.exit(2);
}
const store = new FileStore(values.store ?? `fedfleet-device-${positionals[0].replace(/[^a-zA-Z0-9]+/g, "-")}`);
try {
  const device = new Device({
    connection: new Connection(positionals[0]),
    store,
    trainer: new Trainer(),
    caps: capsFrom({ minutes: values.minutes ?? 1e6, steps: 1e6, samples: 1e9, megabytes: 2048 }),
    token: values.token ?? process.env.FEDFLEET_TOKEN ?? "",
    client: values.client === undefined ? null : Number(values.client),
    table: values.data === undefined ? null : readTable(await readFile(values.data, "utf-8")),
    kind: `node ${process.versions.node}`,
    memory: totalmem(),
    tell: (kind, detail) => {
      const text = sentence(kind, detail);
      if (text) console.log(text);
    },
  });
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => device.stop());
  console.log(`over: ${await device.run()}`);
} catch (error) {
  if (error instanceof Stopped) console.log("over: stopped");
  else {
    console.error(error.message);
    process.exitCode = 2;
  }
}
