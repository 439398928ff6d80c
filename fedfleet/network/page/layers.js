// Layers with weights and windows: linear, convolution, pooling.
import { matrix, multiply, transposed } from "./products.js";
import { zeros } from "./shapes.js";

/** x W' + b along the last axis. */
function linear(inputs, settings, needs) {
  const [x, weight, bias] = inputs, [units, width] = weight.shape, rows = x.data.length / width;
  if (x.shape.at(-1) !== width) throw new RangeError("a linear layer does not fit its input");
  const y = zeros([...x.shape.slice(0, -1), units]);
  if (bias) for (let i = 0; i < rows; i++) y.data.set(bias.data, i * units);
  multiply(rows, units, width, matrix(x.data, width), transposed(weight.data, width), y.data, 0, true);
  const backward = (gradient) => {
    const g = gradient.data, result = [null, null];
    if (needs[0]) {
      result[0] = zeros(x.shape);
      multiply(rows, width, units, matrix(g, units), matrix(weight.data, width), result[0].data, 0, false);
    }
    if (needs[1]) {
      result[1] = zeros(weight.shape);
      multiply(units, width, rows, transposed(g, units), matrix(x.data, width), result[1].data, 0, false);
    }
    return bias ? [...result, { data: columnSums(g, units), shape: bias.shape }] : result;
  };
  return [y, backward];
}

function columnSums(data, width) {
  const sums = new Float64Array(width);
  for (let i = 0; i < data.length; i += width) for (let j = 0; j < width; j++) sums[j] += data[i + j];
  return Float32Array.from(sums);
}

// ---- windows ------------------------------------------------------------------------------------------------------

/** How windows move over a picture; a series is a picture of height one. */
function windowsOf(x, size, settings) {
  const flat = x.shape.length === 3, two = (values, one) => (values.length === 1 ? [one, values[0]] : values);
  const [batch, channels, high, wide] = flat ? [x.shape[0], x.shape[1], 1, x.shape[2]] : x.shape;
  const [kernelHigh, kernelWide] = two(size, 1), [down, right] = two(settings.stride, 1);
  const [spreadHigh, spreadWide] = two(settings.dilation ?? [1], 1), [top, left] = two(settings.padding, 0);
  const rows = Math.floor((high + 2 * top - (kernelHigh - 1) * spreadHigh - 1) / down) + 1;
  const columns = Math.floor((wide + 2 * left - (kernelWide - 1) * spreadWide - 1) / right) + 1;
  if (!(rows > 0 && columns > 0)) throw new RangeError("a window is larger than its input");
  return { flat, batch, channels, high, wide, kernelHigh, kernelWide, down, right, spreadHigh, spreadWide, top, left, rows, columns };
}

/** The first and the last place along an axis whose window has its element `offset` inside. */
function within(offset, stride, places, length) {
  return [Math.max(0, Math.ceil(-offset / stride)), Math.min(places, Math.floor((length - 1 - offset) / stride) + 1)];
}

/** What each element of a kernel sees of one picture: [channels x kernel, places], zeros outside. */
function spread(x, from, channels, w, into) {
  const places = w.rows * w.columns, area = w.high * w.wide;
  let row = 0;
  for (let c = 0; c < channels; c++) {
    for (let i = 0; i < w.kernelHigh; i++) {
      for (let j = 0; j < w.kernelWide; j++, row++) {
        const v = i * w.spreadHigh - w.top, h = j * w.spreadWide - w.left;
        const [first, last] = within(v, w.down, w.rows, w.high), [a, b] = within(h, w.right, w.columns, w.wide);
        const to = row * places;
        into.fill(0, to, to + places);
        for (let r = first; r < last; r++) {
          let at = from + c * area + (r * w.down + v) * w.wide + a * w.right + h;
          const start = to + r * w.columns;
          for (let k = a; k < b; k++, at += w.right) into[start + k] = x[at];
        }
      }
    }
  }
}

/** The inverse of `spread` for gradients: what many windows see of one number adds up. */
function gather(columns, channels, w, result, to) {
  const places = w.rows * w.columns, area = w.high * w.wide;
  let row = 0;
  for (let c = 0; c < channels; c++) {
    for (let i = 0; i < w.kernelHigh; i++) {
      for (let j = 0; j < w.kernelWide; j++, row++) {
        const v = i * w.spreadHigh - w.top, h = j * w.spreadWide - w.left;
        const [first, last] = within(v, w.down, w.rows, w.high), [a, b] = within(h, w.right, w.columns, w.wide);
        for (let r = first; r < last; r++) {
          let at = to + c * area + (r * w.down + v) * w.wide + a * w.right + h;
          const start = row * places + r * w.columns;
          for (let k = a; k < b; k++, at += w.right) result[at] += columns[start + k];
        }
      }
    }
  }
}

/** A convolution as products of matrices, one picture and one group of channels after the other. */
function convolution(inputs, settings, needs, now) {
  const [x, weight, bias] = inputs, w = windowsOf(x, weight.shape.slice(2), settings), groups = settings.groups;
  const units = weight.shape[0] / groups, channels = w.channels / groups;
  if (weight.shape[1] !== channels) throw new RangeError("a convolution does not fit its input");
  const inner = channels * w.kernelHigh * w.kernelWide, places = w.rows * w.columns, area = w.high * w.wide;
  now.limits?.check(4 * places * (inner + w.batch * weight.shape[0]));
  const y = zeros([w.batch, weight.shape[0], ...(w.flat ? [w.columns] : [w.rows, w.columns])]);
  if (bias) for (let i = 0, at = 0; at < y.data.length; i++, at += places) y.data.fill(bias.data[i % bias.data.length], at, at + places);
  const columns = new Float32Array(inner * places);
  const each = (action) => {
    for (let b = 0; b < w.batch; b++) {
      for (let g = 0; g < groups; g++) action((b * groups + g) * channels * area, (b * groups + g) * units * places, g * units * inner);
    }
  };
  each((from, to, filters) => {
    spread(x.data, from, channels, w, columns);
    multiply(units, places, inner, matrix(weight.data, inner, filters), matrix(columns, places), y.data, to, true);
  });
  const backward = (gradient) => {
    const g = gradient.data, ofX = needs[0] ? zeros(x.shape) : null, ofWeight = needs[1] ? zeros(weight.shape) : null;
    each((from, to, filters) => {
      if (ofWeight) {
        spread(x.data, from, channels, w, columns);
        multiply(units, inner, places, matrix(g, places, to), transposed(columns, places), ofWeight.data, filters, true);
      }
      if (ofX) {
        multiply(inner, places, units, transposed(weight.data, inner, filters), matrix(g, places, to), columns, 0, false);
        gather(columns, channels, w, ofX.data, from);
      }
    });
    if (!bias) return [ofX, ofWeight];
    const sums = new Float64Array(bias.data.length);
    for (let i = 0; i < g.length; i++) sums[Math.floor(i / places) % sums.length] += g[i];
    return [ofX, ofWeight, { data: Float32Array.from(sums), shape: bias.shape }];
  };
  return [y, backward];
}

/** For each place of a pooled picture, its window: visit(place of the output, place of the input, number in the window). */
function eachWindow(w, visit) {
  for (let plane = 0, to = 0; plane < w.batch * w.channels; plane++) {
    for (let r = 0; r < w.rows; r++) {
      for (let c = 0; c < w.columns; c++, to++) {
        for (let i = 0; i < w.kernelHigh; i++) {
          const y = r * w.down + i - w.top;
          if (y < 0 || y >= w.high) continue;
          for (let j = 0; j < w.kernelWide; j++) {
            const x = c * w.right + j - w.left;
            if (x >= 0 && x < w.wide) visit(to, plane * w.high * w.wide + y * w.wide + x);
          }
        }
      }
    }
  }
}

function pooled(w) {
  return zeros([w.batch, w.channels, ...(w.flat ? [w.columns] : [w.rows, w.columns])]);
}

/** The largest of each window; of equals the first takes the gradient. */
function maxPool([x], settings) {
  const w = windowsOf(x, settings.size, settings), y = pooled(w), best = new Int32Array(y.data.length).fill(-1);
  y.data.fill(-Infinity);
  eachWindow(w, (to, from) => {
    if (best[to] < 0 || x.data[from] > y.data[to]) {
      y.data[to] = x.data[from];
      best[to] = from;
    }
  });
  const backward = (gradient) => {
    const result = zeros(x.shape);
    for (let i = 0; i < best.length; i++) if (best[i] >= 0) result.data[best[i]] += gradient.data[i];
    return [result];
  };
  return [y, backward];
}

/** The mean of each window, in which the padding counts as zeros. */
function averagePool([x], settings) {
  const w = windowsOf(x, settings.size, settings), y = pooled(w), share = 1 / (w.kernelHigh * w.kernelWide);
  eachWindow(w, (to, from) => {
    y.data[to] += x.data[from] * share;
  });
  const backward = (gradient) => {
    const result = zeros(x.shape);
    eachWindow(w, (to, from) => {
      result.data[from] += gradient.data[to] * share;
    });
    return [result];
  };
  return [y, backward];
}

export const LAYERS = new Map([
  ["linear", linear],
  ["convolution", convolution],
  ["max_pool", maxPool],
  ["average_pool", averagePool],
]);
