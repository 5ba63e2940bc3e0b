// The columns of the page: fetched when first needed, then kept as typed arrays.

import { measured } from "./words.js";

export class Columns {
  constructor(source, about) {
    this.source = source;
    this.n = about.n;
    this.list = [...about.columns];
    this.by = new Map(this.list.map((meta) => [meta.name, meta]));
    this.loaded = new Map();
    this.coming = new Map();
    this.orders = new Map();
  }

  has(name) {
    return this.by.has(name);
  }

  meta(name) {
    return this.by.get(name);
  }

  // Columns of the menus; hidden ones are used only by filters.
  shown() {
    return this.list.filter((meta) => !meta.hidden);
  }

  numbers() {
    return this.shown().filter((meta) => !meta.names);
  }

  groups() {
    return this.shown().filter((meta) => meta.names);
  }

  // The values, if they are loaded.
  get(name) {
    return this.loaded.get(name);
  }

  // Load these columns.
  need(names) {
    return Promise.all(names.filter((name) => this.has(name) && !this.loaded.has(name)).map((name) => this.fetch(name)));
  }

  fetch(name) {
    if (!this.coming.has(name)) {
      const coming = this.source
        .column(this.meta(name))
        .then((values) => this.loaded.set(name, values))
        .finally(() => this.coming.delete(name));
      this.coming.set(name, coming);
    }
    return this.coming.get(name);
  }

  // Columns that were made after the page was loaded.
  add(metas) {
    for (const meta of metas) {
      if (!this.by.has(meta.name)) this.list.push(meta);
      this.by.set(meta.name, meta);
    }
  }

  // A column that only the page has, such as the marks.
  put(meta, values) {
    if (!this.by.has(meta.name)) this.list.push(meta);
    this.by.set(meta.name, meta);
    this.loaded.set(meta.name, values);
    this.orders.delete(meta.name);
  }

  // The group of a row, or null.
  word(name, row) {
    const names = this.meta(name)?.names;
    return names?.[this.get(name)?.[row]] ?? null;
  }

  // A row's value as text, with its unit.
  text(name, row, digits) {
    return this.meta(name)?.names ? (this.word(name, row) ?? "–") : measured(this.get(name)[row], this.meta(name)?.unit, digits);
  }

  // Numbers for an axis: a group's place, spread a little so that points do not hide each other.
  axis(name) {
    const values = this.get(name),
      meta = this.meta(name);
    if (!meta.names) return values;
    const key = "axis of " + name;
    if (!this.loaded.has(key)) {
      const spread = new Float32Array(this.n);
      for (let i = 0; i < this.n; i++) {
        const noise = ((Math.imul(i + 1, 0x9e3779b1) >>> 8) & 0xffff) / 65536 - 0.5;
        spread[i] = values[i] < meta.names.length ? values[i] + 0.7 * noise : NaN;
      }
      this.loaded.set(key, spread);
    }
    return this.loaded.get(key);
  }

  // Low and high end of an axis.
  extent(name) {
    const meta = this.meta(name);
    if (meta.names) return [-0.6, Math.max(0.6, meta.names.length - 0.4)];
    const low = meta.low ?? 0,
      high = meta.high ?? 1;
    return low === high ? [low - 0.5, high + 0.5] : [low, high];
  }

  // All rows sorted by a column, smallest first, those without a value left out: a radix sort, once per column.
  order(name) {
    if (!this.orders.has(name)) this.orders.set(name, sorted(this.get(name), this.meta(name).names?.length));
    return this.orders.get(name);
  }
}

function sorted(values, numNames) {
  const n = values.length;
  const keys = new Uint32Array(n);
  let rows = new Uint32Array(n),
    count = 0;
  if (numNames !== undefined) {
    for (let i = 0; i < n; i++)
      if (values[i] < numNames) {
        keys[i] = values[i];
        rows[count++] = i;
      }
  } else {
    const bits = new Uint32Array(values.buffer, values.byteOffset, n);
    for (let i = 0; i < n; i++) {
      if (Number.isNaN(values[i])) continue;
      const b = bits[i];
      keys[i] = b & 0x80000000 ? ~b : b | 0x80000000; // floats in the order of unsigned integers
      rows[count++] = i;
    }
  }
  let other = new Uint32Array(count);
  rows = rows.subarray(0, count);
  for (let shift = 0; shift < 32; shift += 11) {
    const counts = new Uint32Array(2049);
    for (let i = 0; i < count; i++) counts[((keys[rows[i]] >>> shift) & 2047) + 1]++;
    for (let i = 0; i < 2048; i++) counts[i + 1] += counts[i];
    for (let i = 0; i < count; i++) {
      const row = rows[i];
      other[counts[(keys[row] >>> shift) & 2047]++] = row;
    }
    [rows, other] = [other, rows];
  }
  return rows;
}
