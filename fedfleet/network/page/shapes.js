// Shapes, and walks through arrays that are repeated along some axes.

/** How many numbers an array of this shape has. */
export function count(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

/** An array of zeros. */
export function zeros(shape) {
  return { data: new Float32Array(count(shape)), shape };
}

/** The steps of each axis in memory. */
export function steps(shape) {
  const result = new Array(shape.length);
  for (let i = shape.length - 1, step = 1; i >= 0; i--) {
    result[i] = step;
    step *= shape[i];
  }
  return result;
}

/** The shape of two arrays together. */
export function together(a, b) {
  const axes = Math.max(a.length, b.length), at = (shape, i) => shape[i - axes + shape.length] ?? 1;
  return Array.from({ length: axes }, (_, i) => Math.max(at(a, i), at(b, i)) * (Math.min(at(a, i), at(b, i)) && 1));
}

/** For each number of an array of the shape `whole`, its place in one of the shape `part` that is repeated to it. */
export function places(part, whole) {
  const own = steps(part), before = whole.length - part.length;
  const step = whole.map((_, i) => (i < before || part[i - before] === 1 ? 0 : own[i - before]));
  return walk(whole, step);
}

/** The places of an array that is read with these steps, in the order of a shape. */
export function walk(shape, step) {
  const result = new Int32Array(count(shape)), index = new Array(shape.length).fill(0);
  for (let i = 0, at = 0; i < result.length; i++) {
    result[i] = at;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at += step[axis];
      if (++index[axis] < shape[axis]) break;
      at -= step[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return result;
}

/** The gradient of an array that was repeated: summed over what it was repeated along. */
export function sumTo(gradient, shape) {
  if (gradient.shape.join() === shape.join()) return gradient;
  const result = zeros(shape), at = places(shape, gradient.shape), sums = new Float64Array(result.data.length);
  for (let i = 0; i < at.length; i++) sums[at[i]] += gradient.data[i];
  result.data.set(sums);
  return result;
}
