// The trainer as the page sees it: the same calls, done by the worker.
import { Refused } from "./refused.js";
import { Stopped } from "./retries.js";

export class WorkerTrainer {
  constructor(address) {
    this.worker = new Worker(address, { type: "module" });
    this.worker.onmessage = ({ data }) => this.hear(data);
    this.worker.onerror = (event) => this.pending?.reject(new Error(event.message || "the training stopped"));
  }

  async hear(data) {
    if ("progress" in data) {
      let go = true;
      try {
        await this.pending.tell(data.progress, data.loss);
      } catch {
        go = false;
      }
      this.worker.postMessage({ go });
      return;
    }
    const { resolve, reject } = this.pending;
    if ("result" in data) resolve(data.result);
    else reject(data.stopped ? new Stopped() : data.refused ? new Refused(data.error) : new Error(data.error));
  }

  call(name, values, tell = async () => {}) {
    return new Promise((resolve, reject) => {
      this.pending = { resolve, reject, tell };
      this.worker.postMessage({ call: name, values });
    });
  }

  prepare(sheet, samples) {
    return this.call("prepare", [sheet, samples]);
  }

  time() {
    return this.call("time", []);
  }

  work(work, model, caps, until, tell) {
    return this.call("work", [work, model, caps, until], tell);
  }
}
