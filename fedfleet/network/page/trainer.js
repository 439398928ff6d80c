// What a device trains with, once a sheet and samples are there. A page runs it in a worker, Node in its own thread.
import { checkBytes, checkExtent } from "./caps.js";
import { score, timeBatches, train } from "./local_training.js";
import { extent, readMethod } from "./method.js";
import { Refused } from "./refused.js";

export class Trainer {
  /** Refused where this device cannot train what the sheet asks for. */
  async prepare(sheet, samples) {
    this.method = readMethod(sheet);
    this.samples = samples;
    return { nbytes: this.method.model.nbytes };
  }

  /** Seconds of one batch. */
  async time() {
    return timeBatches(this.method);
  }

  /** One piece of work; `tell(share, loss)` hears how far it is. */
  async work(work, model, caps, until, tell) {
    try {
      if (work.rows?.length) throw new Refused("this run changes the samples of a device every round, which this page does not do");
      if (work.kind !== "TRAIN") {
        const part = work.kind === "EVALUATE" ? this.samples.test : this.samples.train;
        return { payload: new Uint8Array(0), ...(await score(this.method, model, part, tell, until)) };
      }
      checkExtent(caps, extent(this.method, work, this.samples.train.y.length), this.method.batch);
      const done = await train(this.method, work, model, this.samples.train, tell, until);
      checkBytes(caps, done.payload.length, "the report");
      return done;
    } catch (error) {
      // A model whose operations do not fit together ends in such an error.
      if (error instanceof RangeError || error instanceof TypeError) throw new Refused(`the model cannot be computed: ${error.message}`);
      throw error;
    }
  }
}
