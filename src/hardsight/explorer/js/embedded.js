// The report's data, which lie in the page itself: the twin of the server in source.js.

import { typed } from "./source.js";

// The report, or null where the page comes from the server.
export function embedded() {
  const block = document.getElementById("data");
  return block ? new Embedded(JSON.parse(block.textContent)) : null;
}

class Embedded {
  constructor(data) {
    this.data = data;
    this.live = false;
  }

  async about() {
    this.ids = JSON.parse(new TextDecoder().decode(await unpacked(this.data.ids)));
    return this.data.about;
  }

  // Numbers lie here as 16 bits between the lowest and the highest, 65535 for none.
  async column(meta) {
    const { packed, low, step } = this.data.columns[meta.name];
    const bytes = await unpacked(packed);
    if (meta.names) return typed(meta.kind, bytes);
    const steps = new Uint16Array(bytes), values = new Float32Array(steps.length);
    for (let i = 0; i < steps.length; i++) values[i] = steps[i] === 65535 ? NaN : low + step * steps[i];
    return values;
  }

  thumb(row) {
    const found = this.data.thumbs[row];
    return found ? "data:image/webp;base64," + found : null;
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
      values[meta.name] = meta.names ? meta.names[column[row]] ?? null : Number.isNaN(column[row]) ? null : column[row];
    }
    return { row, id: this.ids[row], path: null, values, classes: this.data.classes[row] ?? [], versions: [], trouble: null };
  }

  async cosines() {
    return new Float32Array(await unpacked(this.data.cosines));
  }

  async curves(measure, by) {
    return this.data.curves[measure][by] ?? this.data.curves[measure][""];
  }

  async rounds() {
    return this.data.rounds;
  }

  async agreement(score) {
    return this.data.agreement[score];
  }
}

// base64 of deflated bytes -> their buffer.
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}
