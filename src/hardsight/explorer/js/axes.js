// Axes: round numbers to write beside a picture.

// About `wanted` round numbers between low and high.
export function ticks(low, high, wanted) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const values = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * span; at++) values.push(at * step);
  return values;
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
