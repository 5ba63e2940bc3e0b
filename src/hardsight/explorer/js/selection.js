// From filters to one byte per row: 1 is selected.

export const columnsOf = (filter) =>
  filter[0] === "id" ? [] : filter[0] === "box" || filter[0] === "lasso" ? [filter[1], filter[2]] : [filter[1]];

// Which filters the page can apply: their columns must be there.
export const usable = (filters, columns) => filters.filter((filter) => columnsOf(filter).every((name) => columns.has(name)));

// The mask and how many rows it holds. `rowsById` maps the text of an id filter to its rows.
export function select(filters, columns, rowsById) {
  const mask = new Uint8Array(columns.n).fill(1);
  for (const filter of filters) narrow(mask, filter, columns, rowsById);
  let size = 0;
  for (let i = 0; i < mask.length; i++) size += mask[i];
  return { mask, size };
}

function narrow(mask, filter, columns, rowsById) {
  const n = mask.length;
  if (filter[0] === "range") {
    const values = columns.get(filter[1]);
    const low = filter[2] ?? -Infinity,
      high = filter[3] ?? Infinity;
    for (let i = 0; i < n; i++) if (!(values[i] >= low && values[i] <= high)) mask[i] = 0; // NaN is in no range
  } else if (filter[0] === "in") {
    const values = columns.get(filter[1]),
      names = columns.meta(filter[1]).names;
    const wanted = new Uint8Array(names.length + 1);
    const chosen = new Set(filter[2]);
    names.forEach((name, code) => (wanted[code] = chosen.has(name) ? 1 : 0));
    const none = names.length;
    for (let i = 0; i < n; i++) mask[i] &= wanted[Math.min(values[i], none)];
  } else if (filter[0] === "box") {
    const xs = columns.axis(filter[1]),
      ys = columns.axis(filter[2]);
    const [x0, x1, y0, y1] = filter.slice(3);
    for (let i = 0; i < n; i++) if (!(xs[i] >= x0 && xs[i] <= x1 && ys[i] >= y0 && ys[i] <= y1)) mask[i] = 0;
  } else if (filter[0] === "lasso") {
    inside(mask, columns.axis(filter[1]), columns.axis(filter[2]), filter[3]);
  } else if (filter[0] === "id") {
    const keep = new Uint8Array(n);
    for (const row of rowsById.get(filter[1]) ?? []) keep[row] = 1;
    for (let i = 0; i < n; i++) mask[i] &= keep[i];
  }
}

// Rows inside a polygon: a ray to the right crosses its edges an odd number of times.
function inside(mask, xs, ys, points) {
  let x0 = Infinity,
    x1 = -Infinity,
    y0 = Infinity,
    y1 = -Infinity;
  for (let k = 0; k < points.length; k += 2) {
    [x0, x1] = [Math.min(x0, points[k]), Math.max(x1, points[k])];
    [y0, y1] = [Math.min(y0, points[k + 1]), Math.max(y1, points[k + 1])];
  }
  for (let i = 0; i < mask.length; i++) {
    if (!mask[i]) continue;
    const x = xs[i],
      y = ys[i];
    if (!(x >= x0 && x <= x1 && y >= y0 && y <= y1)) {
      mask[i] = 0;
      continue;
    }
    let odd = 0;
    for (let k = 0, j = points.length - 2; k < points.length; j = k, k += 2) {
      const ya = points[k + 1],
        yb = points[j + 1];
      if (ya > y !== yb > y && x < points[k] + ((y - ya) / (yb - ya)) * (points[j] - points[k])) odd ^= 1;
    }
    mask[i] = odd;
  }
}

// One bit per row, the lowest first, as the server reads it.
export function packed(mask) {
  const bytes = new Uint8Array((mask.length + 7) >> 3);
  for (let i = 0; i < mask.length; i++) bytes[i >> 3] |= mask[i] << (i & 7);
  return bytes;
}

// Reports the selection to Python, shortly after it changed; only if somebody listens there.
const CALM = 120; // milliseconds; a drag selects many times a second

export class Reporter {
  constructor(source, about) {
    this.source = source;
    this.listens = Boolean(about.reports);
  }

  tell({ mask, size }) {
    if (!this.listens || mask === this.mask) return;
    this.mask = mask;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.send(mask, size), CALM);
  }

  async send(mask, size) {
    try {
      await this.source.post("api/selection", size === mask.length ? undefined : packed(mask));
      window.frameElement?.selected?.(size);
    } catch {
      // The kernel has ended: the page says so at the next thing it needs.
    }
  }
}
