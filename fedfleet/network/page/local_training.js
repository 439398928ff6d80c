// The work of one task: from the bytes of a model to the update that goes up, or to a score.
import { crossEntropy, ForwardPass, Limits } from "./engine.js";
import { hashKey, order } from "./draws.js";
import { extent } from "./method.js";
import { Refused } from "./refused.js";
import { readTensors, writeTensors } from "./tensors.js";

const EVALUATION_BATCH = 256;
const YIELD_MS = 40; // after which other work of this thread has its turn
const MEMORY_BYTES = 512 << 20; // that one batch may take

/** The samples of these rows as one batch. */
function batchOf(samples, rows, shape) {
  const width = samples.x.length / Math.max(samples.y.length, 1), data = new Float32Array(rows.length * width);
  const labels = new Int32Array(rows.length);
  rows.forEach((row, i) => {
    data.set(samples.x.subarray(row * width, (row + 1) * width), i * width);
    labels[i] = samples.y[row];
  });
  return { x: { data, shape: [rows.length, ...shape] }, labels };
}

/** The rows of each step: a fresh order in every epoch, the same as in a simulation of this client. */
function* batches(method, work, rows, steps) {
  const seed = BigInt(work.seed ?? 0) || method.seed, task = BigInt(work.task);
  for (let epoch = 0, done = 0; done < steps; epoch++) {
    const shuffled = order(seed, method.key, task, epoch, rows);
    for (let a = 0; a < rows && done < steps; a += method.batch, done++) yield shuffled.subarray(a, a + method.batch);
  }
}

/**
 * Train one task. `tell(share)` hears how far it is, and may wait: training goes on when its promise is kept.
 * The answer holds the bytes that go up, their weight, and statistics.
 */
export async function train(method, work, bytes, samples, tell = async () => {}, until = Infinity) {
  const { rows, steps } = extent(method, work, samples.y.length);
  if (!rows) throw new Refused("this device has no samples to train on");
  for (const name of Object.keys(work.settings ?? {})) {
    if (name !== "rate") throw new Refused(`this page does not know the setting '${name}' of a task`);
  }
  const rate = Math.fround(work.settings?.rate ?? method.rate), start = readTensors(bytes), model = method.model;
  if (start.size > model.leaves.size) throw new Refused("the server sends more with the model than this page knows");
  model.check(start);
  const state = new Map([...start].map(([name, leaf]) => [name, { ...leaf, data: leaf.data.slice() }]));
  const wanted = new Set(model.trained), velocity = new Map(model.trained.map((name) => [name, new Float32Array(state.get(name).data.length)]));
  const limits = new Limits(MEMORY_BYTES, until), seed = BigInt(work.seed ?? 0) || method.seed;
  let lossSum = 0, squared = 0, seen = 0, done = 0, last = Date.now();
  for (const chosen of batches(method, work, rows, steps)) {
    const { x, labels } = batchOf(samples, chosen, model.sampleShape);
    const now = new ForwardPass(chosen.length, { training: true, limits, dropout: hashKey(seed, "dropout", method.key, BigInt(work.task), done) });
    const tape = model.record(state, x, wanted, now), found = crossEntropy(tape.output, labels);
    const gradients = model.gradients(tape, found.gradient, wanted);
    for (const name of model.trained) {
      const gradient = gradients.get(name)?.data;
      step(method, state.get(name).data, gradient, start.get(name).data, velocity.get(name), rate);
    }
    for (const [name, value] of tape.buffers) state.set(name, value);
    for (const loss of found.losses) {
      lossSum += loss;
      squared += loss * loss;
    }
    seen += chosen.length;
    done += 1;
    if (Date.now() - last > YIELD_MS) {
      await tell(done / steps, lossSum / seen);
      last = Date.now();
    }
  }
  const update = difference(start, state);
  return {
    payload: writeTensors(update),
    weight: method.weigh === "one" ? 1 : Math.min(rows, method.mostSamples),
    stats: {
      loss: lossSum / seen, samples: Math.min(rows, seen), steps: done, squared_loss: squared / seen, update_norm: length(update),
    },
  };
}

/** One step of SGD: v <- momentum v + g + decay w + pull (w - start); w <- w - rate v. */
function step(method, weights, gradient, start, velocity, rate) {
  const { momentum, decay, pull } = method;
  for (let i = 0; i < weights.length; i++) {
    const w = weights[i], g = (gradient ? gradient[i] : 0) + decay * w + pull * (w - start[i]);
    const v = momentum ? (velocity[i] = momentum * velocity[i] + g) : g;
    weights[i] = w - rate * v;
  }
}

function difference(start, state) {
  return new Map([...state].map(([name, leaf]) => {
    if (leaf.type !== "<f4") return [name, leaf];
    const before = start.get(name).data, data = new Float32Array(before.length);
    for (let i = 0; i < data.length; i++) data[i] = leaf.data[i] - before[i];
    return [name, { ...leaf, data }];
  }));
}

function length(update) {
  let sum = 0;
  for (const { data, type } of update.values()) if (type === "<f4") for (let i = 0; i < data.length; i++) sum += data[i] * data[i];
  return Math.sqrt(sum);
}

/** How the model does on some samples: {correct, total, loss}. */
export async function score(method, bytes, samples, tell = async () => {}, until = Infinity) {
  const leaves = readTensors(bytes), n = samples.y.length, model = method.model;
  if (!n) throw new Refused("this client has no test samples");
  model.check(leaves);
  let correct = 0, loss = 0;
  for (let a = 0; a < n; a += EVALUATION_BATCH) {
    const rows = Int32Array.from({ length: Math.min(EVALUATION_BATCH, n - a) }, (_, i) => a + i);
    const { x, labels } = batchOf(samples, rows, model.sampleShape);
    const now = new ForwardPass(rows.length, { limits: new Limits(MEMORY_BYTES, until) });
    const found = crossEntropy(model.record(leaves, x, new Set(), now).output, labels);
    correct += found.correct;
    loss += found.losses.reduce((a, b) => a + b, 0);
    await tell((a + rows.length) / n, loss / (a + rows.length));
  }
  return { correct, total: n, loss: loss / n };
}

/** Seconds of one training batch of this model on made-up numbers, after a first one that does not count: {seconds, batch, steps}. */
export async function timeBatches(method, atLeast = 0.3) {
  const { model, batch } = method, width = model.sampleShape.reduce((a, b) => a * b, 1);
  const noise = (n, spread) => new Float32Array(n).map((_, i) => spread * Math.sin(i * 12.9898 + 1));
  const leaves = new Map([...model.leaves].map(([name, leaf]) => {
    const size = leaf.shape.reduce((a, b) => a * b, 1);
    return [name, { ...leaf, data: leaf.type === "<f4" ? noise(size, 0.05) : new BigInt64Array(size) }];
  }));
  const samples = { x: noise(batch * width, 1), y: Int32Array.from({ length: batch }, (_, i) => i % method.classes) };
  const bytes = writeTensors(leaves), work = { task: 0, steps: 1 };
  await train(method, work, bytes, samples);
  const began = performance.now();
  let steps = 0;
  for (let next = 1; performance.now() - began < 1000 * atLeast && steps < 1000; next *= 2) {
    await train(method, { ...work, steps: next }, bytes, samples);
    steps += next;
  }
  return { seconds: (performance.now() - began) / 1000 / steps, batch, steps };
}
