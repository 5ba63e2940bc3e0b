// Rank correlation in the report, which has no server: the twin of agreement() in selection.py.

const STEPS = 10,
  FEWEST = 4;
const Z = 1.959963984540054; // of a 95 % interval

// Spearman's coefficient of the rows, its interval, and mean and spread of the score in each tenth of human frequency.
export function agreement(human, values, rows) {
  const known = rows.filter((row) => Number.isFinite(human[row]) && Number.isFinite(values[row])),
    n = known.length;
  const result = { n, spearman: null, low: null, high: null, steps: [] };
  const r = n >= FEWEST ? pearson(ranks(known.map((row) => human[row])), ranks(known.map((row) => values[row]))) : NaN;
  if (Number.isFinite(r)) Object.assign(result, { spearman: r }, interval(r, n));
  for (let at = 0; at < STEPS; at++) {
    const part = known.filter((row) => Math.min(STEPS - 1, Math.floor(human[row] * STEPS)) === at).map((row) => values[row]);
    if (!part.length) continue;
    const mean = part.reduce((a, b) => a + b, 0) / part.length;
    const std = Math.sqrt(part.reduce((sum, value) => sum + (value - mean) ** 2, 0) / part.length);
    result.steps.push({ from: at / STEPS, to: (at + 1) / STEPS, count: part.length, mean, std });
  }
  return result;
}

// Ranks from 1; equal values share their mean rank.
function ranks(values) {
  const order = Uint32Array.from(values, (_, at) => at).sort((a, b) => values[a] - values[b]),
    ranked = new Float64Array(values.length);
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to < order.length && values[order[to]] === values[order[from]]) to++;
    for (let at = from; at < to; at++) ranked[order[at]] = (from + to + 1) / 2;
    from = to;
  }
  return ranked;
}

function pearson(x, y) {
  const mean = (x.length + 1) / 2; // of ranks
  let xy = 0,
    xx = 0,
    yy = 0;
  for (let i = 0; i < x.length; i++) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) ** 2;
    yy += (y[i] - mean) ** 2;
  }
  return xy / Math.sqrt(xx * yy); // NaN if all are equal
}

// Bonett and Wright (2000).
function interval(r, n) {
  if (Math.abs(r) >= 1) return { low: r, high: r };
  const half = Z * Math.sqrt((1 + r ** 2 / 2) / (n - 3));
  return { low: Math.tanh(Math.atanh(r) - half), high: Math.tanh(Math.atanh(r) + half) };
}
