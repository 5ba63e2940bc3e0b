// The data of a report, from the page itself: the twin of source.js.

import { groupsOf } from "./groups.js";
import { agreement } from "./ranks.js";
import { typed } from "./source.js";

const MOST_CURVES = 12,
  MOST_GROUPS = 200; // groups drawn at once, and in a table

// The data of a report, or null if the page comes from the server.
export function embedded() {
  const data = JSON.parse(document.getElementById("data")?.textContent ?? "null");
  return data && new Embedded(data);
}

class Embedded {
  constructor(data) {
    this.data = data;
    this.live = false;
    this.columns = new Map();
    this.moments = new Map(); // measure -> every epoch's values, one after the other
  }

  async about() {
    this.ids = JSON.parse(new TextDecoder().decode(await unpacked(this.data.ids)));
    return this.data.about;
  }

  // Numbers are stored in 16 bits, 65535 for none.
  async column(meta) {
    const packed = this.data.columns[meta.name];
    return meta.names ? typed(meta.kind, await unpacked(packed.packed)) : numbers(packed);
  }

  // A column by name, with its description; unpacked the first time.
  async named(name) {
    const meta = this.data.about.columns.find((column) => column.name === name);
    if (meta && !this.columns.has(name)) this.columns.set(name, await this.column(meta));
    return { meta, values: this.columns.get(name) };
  }

  thumb(row) {
    const thumbnail = this.data.thumbs[row];
    return thumbnail ? "data:image/webp;base64," + thumbnail : null;
  }

  image(row) {
    return this.thumb(row);
  }

  async rows(rows) {
    return rows.map((row) => ({ id: this.ids[row], path: null }));
  }

  async sample(row) {
    const values = {};
    for (const meta of this.data.about.columns) {
      if (meta.hidden) continue;
      const column = await this.column(meta);
      values[meta.name] = meta.names ? (meta.names[column[row]] ?? null) : Number.isNaN(column[row]) ? null : column[row];
    }
    const classes = this.data.classes[row] ?? [],
      explanation = this.data.explanations[row] ?? null,
      duplicate_of = this.data.twins[row] ?? null;
    return { row, id: this.ids[row], path: null, values, classes, explanation, duplicate_of, versions: [], trouble: null };
  }

  // The marks at the time the report was written.
  async marks() {
    return { version: 0, marks: this.data.marks };
  }

  async cosines() {
    return new Float32Array(await unpacked(this.data.cosines));
  }

  // Curves of the selection, if the file has every sample's epochs; else those of all samples.
  async curves(measure, by, bits) {
    const ready = this.data.curves[measure]?.[by],
      { epochs, n } = this.data.about;
    if (!(measure in this.data.epochs)) return ready;
    const mask = opened(bits, n);
    if (ready && mask.every(Boolean)) return ready;
    const { meta, values } = await this.named(by),
      all = await this.moment(measure);
    const groups = groupsOf(meta, values, mask, MOST_CURVES).map(({ name, rows }) => {
      const moments = epochs.map((_, at) => spread(rows.map((row) => all[at * n + row]).filter(Number.isFinite)));
      return {
        name,
        mean: moments.map((epoch) => epoch.mean),
        std: moments.map((epoch) => epoch.std),
        count: Math.max(...moments.map((epoch) => epoch.count)),
      };
    });
    return { epochs, groups: groups.filter((group) => group.count) };
  }

  async moment(measure) {
    if (!this.moments.has(measure)) this.moments.set(measure, await numbers(this.data.epochs[measure]));
    return this.moments.get(measure);
  }

  async epoch(at, measure) {
    const { n } = this.data.about;
    return (await this.moment(measure)).subarray(at * n, (at + 1) * n);
  }

  async story(row) {
    const { n, epochs, moving } = this.data.about,
      story = {};
    for (const measure of moving) {
      const all = await this.moment(measure);
      story[measure] = epochs.map((_, at) => (Number.isFinite(all[at * n + row]) ? all[at * n + row] : null));
    }
    return story;
  }

  async agreement(score, by, bits) {
    const { about } = this.data,
      mask = opened(bits, about.n);
    const [human, values] = [(await this.named(about.human)).values, (await this.named(score)).values];
    const result = mask.every(Boolean)
      ? { ...this.data.agreement[score] }
      : agreement(human, values, groupsOf(null, null, mask)[0].rows);
    if (by) {
      const column = await this.named(by);
      result.groups = groupsOf(column.meta, column.values, mask, MOST_GROUPS).map(({ name, rows }) => ({
        name,
        ...agreement(human, values, rows),
      }));
    }
    return result;
  }
}

// 16 bits between the lowest and the highest -> numbers.
async function numbers({ packed, low, step }) {
  const steps = new Uint16Array(await unpacked(packed)),
    values = new Float32Array(steps.length);
  for (let i = 0; i < steps.length; i++) values[i] = steps[i] === 65535 ? NaN : low + step * steps[i];
  return values;
}

// One bit per row -> one byte per row.
function opened(bits, n) {
  return Uint8Array.from({ length: n }, (_, row) => (bits[row >> 3] >> (row & 7)) & 1);
}

function spread(values) {
  const count = values.length,
    mean = values.reduce((a, b) => a + b, 0) / count;
  return count
    ? { count, mean, std: Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count) }
    : { count, mean: null, std: null };
}

// base64 of deflated bytes -> their buffer.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}
