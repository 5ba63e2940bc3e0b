// Axes: round numbers for the ticks.

const FEWEST = 3; // two numbers do not show how an axis continues

// About `wanted` round numbers between low and high, and at least three; only whole ones if `whole`.
export function ticks(low, high, wanted, whole = false) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const finer = [10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05].map((m) => m * power);
  let values = [];
  for (const step of finer.slice(finer.findLastIndex((s) => s >= rough * 0.999))) {
    if (whole && step < 1 && values.length) break;
    values = multiples(whole ? Math.max(1, step) : step, low, high);
    if (values.length >= FEWEST) break;
  }
  return values;
}

function multiples(step, low, high) {
  const values = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * (high - low); at++) values.push(at * step);
  return values;
}

// Which names stand along an axis from low to high: every, every second, ... of them.
export function namedTicks(names, low, high, wanted) {
  const shown = names.map((_, code) => code).filter((code) => code >= low && code <= high);
  const every = Math.max(1, Math.min(Math.ceil(shown.length / wanted), Math.floor((shown.length - 1) / (FEWEST - 1))));
  return shown.filter((_, at) => at % every === 0);
}

export function tickText(value, step) {
  if (value === 0) return "0";
  const digits = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)));
  const size = Math.abs(value);
  return size >= 1e5 || size < 1e-4 ? value.toExponential(1) : value.toFixed(digits);
}

// A canvas as large as its box on the screen, sharp on fine screens; gives width and height in CSS pixels.
export function fit(canvas, mostPixels = 4e6) {
  const box = canvas.getBoundingClientRect();
  const width = Math.max(1, box.width),
    height = Math.max(1, box.height);
  const ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(mostPixels / (width * height)));
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  return { width, height, ratio };
}
