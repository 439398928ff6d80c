// A described model (see fedfleet/tasks/description/format.py): its outputs for a batch, and the gradients of its weights.
//
// A tensor is {data, shape}: a Float32Array in row-major order. An operation is a function (inputs, settings, needs, pass) that
// returns [value, backward]; backward(gradient) gives one gradient for each input, or null.
import { ARITHMETIC } from "./operations.js";
import { LAYERS } from "./layers.js";
import { NORMALISATIONS } from "./normalisation.js";
import { Refused } from "./refused.js";

const OPERATIONS = new Map([...ARITHMETIC, ...LAYERS, ...NORMALISATIONS]);
const MOST_OPERATIONS = 20000;

/** What a forward pass knows beside its values: the size of the batch, whether it trains, what dropout draws, its limits. */
export class ForwardPass {
  constructor(batch, { training = false, dropout = null, limits = null } = {}) {
    this.batch = batch;
    this.training = training;
    this.dropout = dropout;
    this.limits = limits;
    this.buffers = new Map();
    this.names = [];
  }
}

/** Ends a pass that takes more memory or time than the owner of this device allows. */
export class Limits {
  constructor(bytes, until = Infinity) {
    this.bytes = bytes;
    this.until = until;
  }

  check(used) {
    if (used > this.bytes) {
      throw new Refused(`one batch needs more than ${Math.round(this.bytes / 2 ** 20)} MB of memory, the most that this device gives`);
    }
    if (Date.now() > this.until) throw new Refused("it takes longer than this device may train");
  }
}

/** The model in a description: its JSON as text. What this engine cannot compute is refused by its name. */
export class DescribedModel {
  constructor(text) {
    let table;
    try {
      table = JSON.parse(text);
    } catch {
      throw new Refused("the description of the model cannot be read");
    }
    if (table.version !== 1) throw new Refused(`the description of the model is of version ${table.version}; this page reads version 1`);
    if (!Array.isArray(table.operations) || table.operations.length > MOST_OPERATIONS) {
      throw new Refused("the description of the model has too many operations");
    }
    const missing = [...new Set(table.operations.map((one) => one.name))].filter((name) => !OPERATIONS.has(name)).sort();
    if (missing.length) throw new Refused(`this page cannot compute ${missing.join(", ")}`);
    if (Object.keys(table.constants).length) throw new Refused("this page cannot compute models with constant arrays");
    if (table.sample.type !== "<f4") throw new Refused("this page trains on numbers, and not on tokens of text");
    this.sampleShape = table.sample.shape;
    this.leaves = new Map(Object.entries(table.leaves));
    this.trained = table.trained;
    this.operations = table.operations;
    this.output = table.output;
    this.checkPlaces();
  }

  checkPlaces() {
    for (const name of this.trained) if (!this.leaves.has(name)) throw new Refused("the model trains weights that it does not have");
    this.operations.forEach((one, number) => {
      const known = (place) => (typeof place === "string" ? this.leaves.has(place) : Number.isInteger(place) && place >= 0 && place <= number);
      if (!one.inputs.every(known)) throw new Refused(`operation ${number} of the model reads something that does not exist before it`);
    });
    if (!(this.output >= 0 && this.output <= this.operations.length)) throw new Refused("the model gives a value that it does not compute");
  }

  /** How many bytes its weights have. */
  get nbytes() {
    let sum = 0;
    for (const leaf of this.leaves.values()) sum += leaf.shape.reduce((a, b) => a * b, leaf.type === "<f4" ? 4 : 8);
    return sum;
  }

  /** Refuse weights that are not those of the description. */
  check(leaves) {
    for (const [name, leaf] of this.leaves) {
      const found = leaves.get(name);
      if (!found || found.type !== leaf.type || found.shape.join() !== leaf.shape.join()) {
        throw new Refused(`the weights '${name}' do not have the shape and the type that the description of the model says`);
      }
    }
  }

  /** The outputs for a batch, and what the gradients of the wanted leaves need. */
  record(leaves, x, wanted, now) {
    const values = [x], moving = [false], steps = [];
    let used = 0;
    this.operations.forEach((one, number) => {
      const inputs = one.inputs.map((i) => (typeof i === "string" ? leaves.get(i) : values[i]));
      const needs = one.inputs.map((i) => (typeof i === "string" ? wanted.has(i) : moving[i]));
      now.names = one.inputs;
      const [value, backward] = OPERATIONS.get(one.name)(inputs, one.settings ?? {}, needs, now);
      values.push(value);
      moving.push(needs.some(Boolean));
      if (moving[number + 1]) steps.push([number + 1, one.inputs, backward]);
      used += value.data.length * 4;
      now.limits?.check(used);
      if (one.name === "batch_norm" && now.training && one.settings.counter !== null) {
        const counter = leaves.get(one.settings.counter);
        now.buffers.set(one.settings.counter, { ...counter, data: counter.data.map((v) => v + 1n) });
      }
    });
    return { output: values[this.output], steps, buffers: now.buffers };
  }

  /** The gradients of the wanted leaves, from that of the output. */
  gradients(tape, ofOutput, wanted) {
    const flows = new Map([[this.output, ofOutput]]);
    for (let i = tape.steps.length - 1; i >= 0; i--) {
      const [number, inputs, backward] = tape.steps[i];
      const gradient = flows.get(number);
      if (!gradient) continue;
      flows.delete(number);
      const parts = backward(gradient);
      inputs.forEach((place, j) => {
        const part = parts[j];
        if (!part || (typeof place === "string" && !wanted.has(place))) return;
        const before = flows.get(place);
        flows.set(place, before ? sum(before, part) : part);
      });
    }
    return flows;
  }
}

function sum(a, b) {
  const data = new Float32Array(a.data.length);
  for (let i = 0; i < data.length; i++) data[i] = a.data[i] + b.data[i];
  return { data, shape: a.shape };
}

/** Cross-entropy: the loss of each sample, the gradient of their mean, and how many are right. */
export function crossEntropy(outputs, labels) {
  const n = labels.length, classes = outputs.data.length / Math.max(n, 1);
  const losses = new Float64Array(n), gradient = new Float32Array(outputs.data.length);
  let correct = 0;
  for (let i = 0; i < n; i++) {
    const row = outputs.data.subarray(i * classes, (i + 1) * classes);
    let best = 0;
    for (let c = 1; c < classes; c++) if (row[c] > row[best]) best = c;
    let total = 0;
    for (let c = 0; c < classes; c++) total += Math.exp(row[c] - row[best]);
    const logarithm = Math.log(total) + row[best];
    losses[i] = logarithm - row[labels[i]];
    for (let c = 0; c < classes; c++) gradient[i * classes + c] = (Math.exp(row[c] - logarithm) - (c === labels[i] ? 1 : 0)) / n;
    correct += best === labels[i];
  }
  return { losses, gradient: { data: gradient, shape: outputs.shape }, correct };
}
