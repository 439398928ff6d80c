// Operations on single numbers, reductions, softmax, changes of shape and dropout, each with its gradient.
import { keptUnits } from "./draws.js";
import { count, places, steps, sumTo, together, walk, zeros } from "./shapes.js";

// ---- arithmetic ---------------------------------------------------------------------------------------------------

function arithmetic(forward, ofLeft, ofRight) {
  return (inputs, settings, needs) => {
    const leftNumber = inputs.length === 1 && settings.left !== null;
    const left = leftNumber ? number(settings.left) : inputs[0];
    const right = inputs.length === 2 ? inputs[1] : leftNumber ? inputs[0] : number(settings.right);
    const shape = together(left.shape, right.shape), y = zeros(shape);
    const l = places(left.shape, shape), r = places(right.shape, shape);
    for (let i = 0; i < y.data.length; i++) y.data[i] = forward(left.data[l[i]], right.data[r[i]]);
    const backward = (gradient) => {
      const part = (slope, of) => {
        const whole = zeros(shape);
        for (let i = 0; i < whole.data.length; i++) whole.data[i] = slope(left.data[l[i]], right.data[r[i]], gradient.data[i]);
        return sumTo(whole, of.shape);
      };
      if (inputs.length === 1) return [part(leftNumber ? ofRight : ofLeft, inputs[0])];
      return [needs[0] ? part(ofLeft, left) : null, needs[1] ? part(ofRight, right) : null];
    };
    return [y, backward];
  };
}

function number(value) {
  return { data: Float32Array.of(value), shape: [] };
}

// ---- functions of one number --------------------------------------------------------------------------------------

/** `slope(x, y, settings)` is the derivative, from what went in and what came out. */
function elementwise(forward, slope) {
  return ([x], settings) => {
    const y = zeros(x.shape);
    for (let i = 0; i < y.data.length; i++) y.data[i] = forward(x.data[i], settings);
    const backward = (gradient) => {
      const result = zeros(x.shape);
      for (let i = 0; i < result.data.length; i++) result.data[i] = gradient.data[i] * slope(x.data[i], y.data[i], settings);
      return [result];
    };
    return [y, backward];
  };
}

function relu([x]) {
  const y = zeros(x.shape), a = x.data, b = y.data;
  for (let i = 0; i < b.length; i++) b[i] = a[i] > 0 ? a[i] : 0;
  const backward = (gradient) => {
    const result = zeros(x.shape), g = gradient.data, c = result.data;
    for (let i = 0; i < c.length; i++) c[i] = b[i] > 0 ? g[i] : 0;
    return [result];
  };
  return [y, backward];
}

const sigmoid = (x) => 0.5 * Math.tanh(0.5 * x) + 0.5;
const clip = (x, low, high) => Math.min(Math.max(x, low), high);

// Of exp(-x^2) times a polynomial in t = 1 / (1 + p |x|): Abramowitz and Stegun 7.1.26, whose error is below 1.5e-7.
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

const ROOT = Math.sqrt(2 / Math.PI), CUBIC = 0.044715;

function gelu(x, settings) {
  return settings.tanh ? 0.5 * x * (1 + Math.tanh(ROOT * (x + CUBIC * x ** 3))) : 0.5 * x * (1 + erf(x * Math.SQRT1_2));
}

function geluSlope(x, y, settings) {
  if (!settings.tanh) return 0.5 * (1 + erf(x * Math.SQRT1_2)) + (x * Math.exp(-0.5 * x * x)) / Math.sqrt(2 * Math.PI);
  const t = Math.tanh(ROOT * (x + CUBIC * x ** 3));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 3 * CUBIC * x * x);
}

// ---- softmax and reductions ---------------------------------------------------------------------------------------

/** An array as [before, along, after] an axis. */
function around(shape, axis) {
  const place = axis < 0 ? axis + shape.length : axis;
  return [count(shape.slice(0, place)), shape[place], count(shape.slice(place + 1))];
}

function softmax(logarithm) {
  return ([x], settings) => {
    const [outer, along, inner] = around(x.shape, settings.axis), y = zeros(x.shape);
    const each = (action) => {
      for (let o = 0; o < outer; o++) for (let i = 0; i < inner; i++) action(o * along * inner + i);
    };
    each((at) => {
      let most = -Infinity, total = 0;
      for (let k = 0; k < along; k++) most = Math.max(most, x.data[at + k * inner]);
      for (let k = 0; k < along; k++) total += Math.exp(x.data[at + k * inner] - most);
      for (let k = 0; k < along; k++) {
        const value = x.data[at + k * inner] - most - Math.log(total);
        y.data[at + k * inner] = logarithm ? value : Math.exp(value);
      }
    });
    const backward = (gradient) => {
      const result = zeros(x.shape), g = gradient.data;
      each((at) => {
        let total = 0;
        for (let k = 0; k < along; k++) total += g[at + k * inner] * (logarithm ? 1 : y.data[at + k * inner]);
        for (let k = 0; k < along; k++) {
          const place = at + k * inner, value = y.data[place];
          result.data[place] = logarithm ? g[place] - Math.exp(value) * total : value * (g[place] - total);
        }
      });
      return [result];
    };
    return [y, backward];
  };
}

function reduction(mean) {
  return ([x], settings) => {
    const axes = settings.axes.map((axis) => (axis < 0 ? axis + x.shape.length : axis));
    const kept = x.shape.map((n, axis) => (axes.includes(axis) ? 1 : n));
    const factor = mean ? count(kept) / Math.max(x.data.length, 1) : 1;
    const total = sumTo(x, kept);
    const shape = settings.keep ? kept : x.shape.filter((_, axis) => !axes.includes(axis));
    const at = places(kept, x.shape);
    const backward = (gradient) => {
      const result = zeros(x.shape);
      for (let i = 0; i < at.length; i++) result.data[i] = gradient.data[at[i]] * factor;
      return [result];
    };
    return [{ data: total.data.map((v) => v * factor), shape }, backward];
  };
}

// ---- changes of shape ---------------------------------------------------------------------------------------------

function sizes(shape, batch) {
  return shape.map((n) => (n >= 0 ? n : -n * batch));
}

function reshape([x], settings, needs, now) {
  const shape = sizes(settings.shape, now.batch);
  if (count(shape) !== x.data.length) throw new RangeError("a change of shape does not fit");
  return [{ data: x.data, shape }, (gradient) => [{ data: gradient.data, shape: x.shape }]];
}

function broadcast([x], settings, needs, now) {
  const shape = sizes(settings.shape, now.batch);
  now.limits?.check(4 * count(shape));
  const y = zeros(shape), at = places(x.shape, shape);
  for (let i = 0; i < at.length; i++) y.data[i] = x.data[at[i]];
  return [y, (gradient) => [sumTo({ data: gradient.data, shape }, x.shape)]];
}

function permute([x], settings) {
  const axes = settings.axes, own = steps(x.shape), shape = axes.map((axis) => x.shape[axis]);
  const y = zeros(shape), at = walk(shape, axes.map((axis) => own[axis]));
  for (let i = 0; i < at.length; i++) y.data[i] = x.data[at[i]];
  const backward = (gradient) => {
    const result = zeros(x.shape);
    for (let i = 0; i < at.length; i++) result.data[at[i]] = gradient.data[i];
    return [result];
  };
  return [y, backward];
}

function dropout([x], settings, needs, now) {
  if (!now.training) return [x, (gradient) => [gradient]];
  const kept = keptUnits(now.dropout, settings.layer, settings.rate, x.data.length), y = zeros(x.shape);
  for (let i = 0; i < kept.length; i++) y.data[i] = x.data[i] * kept[i];
  const backward = (gradient) => {
    const result = zeros(x.shape);
    for (let i = 0; i < kept.length; i++) result.data[i] = gradient.data[i] * kept[i];
    return [result];
  };
  return [y, backward];
}

const inside = (x, s) => (s.low === null || x >= s.low) && (s.high === null || x <= s.high);

export const ARITHMETIC = new Map([
  ["add", arithmetic((a, b) => a + b, (a, b, g) => g, (a, b, g) => g)],
  ["subtract", arithmetic((a, b) => a - b, (a, b, g) => g, (a, b, g) => -g)],
  ["multiply", arithmetic((a, b) => a * b, (a, b, g) => g * b, (a, b, g) => g * a)],
  ["divide", arithmetic((a, b) => a / b, (a, b, g) => g / b, (a, b, g) => (-g * a) / (b * b))],
  ["power", elementwise((x, s) => x ** s.exponent, (x, y, s) => s.exponent * x ** (s.exponent - 1))],
  ["relu", relu],
  ["tanh", elementwise(Math.tanh, (x, y) => 1 - y * y)],
  ["sigmoid", elementwise(sigmoid, (x, y) => y * (1 - y))],
  ["silu", elementwise((x) => x * sigmoid(x), (x, y) => sigmoid(x) + y * (1 - sigmoid(x)))],
  ["hardsigmoid", elementwise((x) => clip(x / 6 + 0.5, 0, 1), (x) => (x > -3 && x < 3 ? 1 / 6 : 0))],
  ["hardswish", elementwise((x) => (x * clip(x + 3, 0, 6)) / 6, (x) => (x < -3 ? 0 : x <= 3 ? x / 3 + 0.5 : 1))],
  ["exp", elementwise(Math.exp, (x, y) => y)],
  ["log", elementwise(Math.log, (x) => 1 / x)],
  ["sqrt", elementwise(Math.sqrt, (x, y) => 0.5 / y)],
  ["leaky_relu", elementwise((x, s) => (x > 0 ? x : x * s.slope), (x, y, s) => (x > 0 ? 1 : s.slope))],
  ["clamp", elementwise((x, s) => clip(x, s.low ?? -Infinity, s.high ?? Infinity), (x, y, s) => (inside(x, s) ? 1 : 0))],
  ["gelu", elementwise(gelu, geluSlope)],
  ["softmax", softmax(false)],
  ["log_softmax", softmax(true)],
  ["mean", reduction(true)],
  ["sum", reduction(false)],
  ["reshape", reshape],
  ["broadcast", broadcast],
  ["permute", permute],
  ["dropout", dropout],
]);
