// Reports the selection to a notebook, shortly after it changed; only if the page is in one.

import { packed } from "./selection.js";

const CALM = 120; // milliseconds; a drag selects many times a second

export class Notebook {
  constructor(source, about) {
    this.source = source;
    this.listens = Boolean(about.notebook);
  }

  tell({ mask, size }) {
    if (!this.listens || mask === this.mask) return;
    this.mask = mask;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.send(mask, size === mask.length), CALM);
  }

  async send(mask, all) {
    try {
      await this.source.post("api/selection", all ? undefined : packed(mask));
    } catch {
      // The kernel has ended: the page says so at the next thing it needs.
    }
  }
}
