// Layers that standardise their input: over the last axes, over groups of channels, over the batch.
import { count, zeros } from "./shapes.js";

/**
 * Standardise the sets of numbers that `setOf` tells apart. `scaleOf` gives the place of each number's weight and bias;
 * `fixed` are means and variances that are not those of the batch.
 */
function standardised(x, sets, setOf, scaleOf, settings, weight, bias, fixed) {
  const size = x.data.length, share = sets / size, set = new Int32Array(size), place = new Int32Array(size);
  for (let i = 0; i < size; i++) {
    set[i] = setOf(i);
    place[i] = scaleOf(i);
  }
  const mean = fixed ? Float64Array.from(fixed.mean.data) : new Float64Array(sets);
  const variance = fixed ? Float64Array.from(fixed.variance.data) : new Float64Array(sets);
  if (!fixed) {
    for (let i = 0; i < size; i++) mean[set[i]] += x.data[i] * share;
    for (let i = 0; i < size; i++) variance[set[i]] += (x.data[i] - mean[set[i]]) ** 2 * share;
  }
  const inverse = variance.map((v) => 1 / Math.sqrt(v + settings.epsilon));
  const normal = new Float32Array(size), y = zeros(x.shape);
  for (let i = 0; i < size; i++) {
    normal[i] = (x.data[i] - mean[set[i]]) * inverse[set[i]];
    y.data[i] = normal[i] * (weight ? weight.data[place[i]] : 1) + (bias ? bias.data[place[i]] : 0);
  }
  const backward = (gradient) => {
    const g = gradient.data, inner = new Float32Array(size), result = zeros(x.shape);
    const first = new Float64Array(sets), second = new Float64Array(sets);
    const ofWeight = weight && new Float64Array(weight.data.length), ofBias = bias && new Float64Array(bias.data.length);
    for (let i = 0; i < size; i++) {
      inner[i] = g[i] * (weight ? weight.data[place[i]] : 1);
      first[set[i]] += inner[i] * share;
      second[set[i]] += inner[i] * normal[i] * share;
      if (weight) ofWeight[place[i]] += g[i] * normal[i];
      if (bias) ofBias[place[i]] += g[i];
    }
    for (let i = 0; i < size; i++) {
      const pull = fixed ? 0 : first[set[i]] + normal[i] * second[set[i]];
      result.data[i] = inverse[set[i]] * (inner[i] - pull);
    }
    const parts = [result, ...(fixed || settings.counter !== undefined ? [null, null] : [])];
    if (weight) parts.push({ data: Float32Array.from(ofWeight), shape: weight.shape });
    if (bias) parts.push({ data: Float32Array.from(ofBias), shape: bias.shape });
    return parts;
  };
  return { y, backward, mean, variance };
}

function affine(inputs, settings, first) {
  const rest = inputs.slice(first), weight = settings.weighted ? rest.shift() : null;
  return [weight, settings.biased ? rest.shift() : null];
}

function layerNorm(inputs, settings) {
  const x = inputs[0], [weight, bias] = affine(inputs, settings, 1);
  const width = count(x.shape.slice(x.shape.length - settings.axes));
  const done = standardised(x, x.data.length / width, (i) => Math.floor(i / width), (i) => i % width, settings, weight, bias, null);
  return [done.y, done.backward];
}

function groupNorm(inputs, settings) {
  const x = inputs[0], [weight, bias] = affine(inputs, settings, 1), [batch, channels] = x.shape;
  const area = count(x.shape.slice(2)), width = (channels / settings.groups) * area, sets = batch * settings.groups;
  const channel = (i) => Math.floor(i / area) % channels;
  const done = standardised(x, sets, (i) => Math.floor(i / width), channel, settings, weight, bias, null);
  return [done.y, done.backward];
}

function batchNorm(inputs, settings, needs, now) {
  const [x, mean, variance] = inputs, [weight, bias] = affine(inputs, settings, 3), channels = x.shape[1];
  const area = count(x.shape.slice(2)), channel = (i) => Math.floor(i / area) % channels;
  const done = standardised(x, channels, channel, channel, settings, weight, bias, now.training ? null : { mean, variance });
  if (now.training) {
    const seen = x.data.length / channels, unbiased = seen / Math.max(seen - 1, 1), share = settings.momentum;
    const moved = (old, fresh, factor) => ({ ...old, data: old.data.map((v, i) => (1 - share) * v + share * fresh[i] * factor) });
    now.buffers.set(now.names[1], moved(mean, done.mean, 1));
    now.buffers.set(now.names[2], moved(variance, done.variance, unbiased));
  }
  return [done.y, done.backward];
}

export const NORMALISATIONS = new Map([
  ["layer_norm", layerNorm],
  ["group_norm", groupNorm],
  ["batch_norm", batchNorm],
]);
