// Dynamics: curves of the selection or of its groups over the epochs, and the cloud played through them.

import { groupColor, rampColor } from "./colors.js";
import { Curves } from "./curves.js";
import { packed } from "./selection.js";
import { count, el, spoken, titled } from "./words.js";

const STEP = 650; // milliseconds an epoch takes when played
const FEW = 10; // samples below which a group's mean says little

export class Dynamics {
  constructor(page) {
    this.page = page;
    const { about, columns } = page,
      panel = document.getElementById("view-dynamics");
    this.measure = el(
      "select",
      { "aria-label": "Measure" },
      ...about.measures.map((measure) => el("option", { value: measure }, spoken(measure))),
    );
    const groups = columns
      .shown()
      .filter((meta) => (about.groupings ? about.groupings.includes(meta.name) : meta.names || meta.low !== meta.high));
    this.by = el(
      "select",
      { "aria-label": "Groups" },
      el("option", { value: "" }, "the selection as one"),
      ...groups.map((meta) => el("option", { value: meta.name }, spoken(meta.name))),
    );
    this.measure.addEventListener("change", () => page.change({ measure: this.measure.value }));
    this.by.addEventListener("change", () => page.change({ by: this.by.value }));
    panel.append(el("div", { class: "bar" }, el("label", {}, "curves of ", this.measure), el("label", {}, " by ", this.by)));
    this.curves = new Curves(panel, "Mean over the epochs, with a band of one standard deviation");
    panel.append(
      el(
        "p",
        { class: "quiet" },
        `Mean of each group; the band is one standard deviation over its samples. Dashed, without a band: fewer than ${FEW} samples.` +
          (about.moving.length ? "" : " In this file they cover all samples, whatever is selected."),
      ),
    );
    this.frames = new Map();
    if (about.moving.filter((measure) => columns.has(measure)).length > 1) this.listen();
  }

  async draw() {
    const { view, about, source, selection } = this.page;
    this.measure.value = about.measures.includes(view.measure)
      ? view.measure
      : about.measures.includes("avh")
        ? "avh"
        : about.measures[0];
    this.by.value = view.by ?? "";
    const turn = (this.turn = {});
    const curves = await source.curves(this.measure.value, this.by.value, packed(selection.mask));
    if (turn !== this.turn) return; // a later selection is on its way
    const meta = this.page.columns.meta(this.by.value);
    const lines = curves.groups.map((group, at) => ({
      name: group.name,
      color:
        meta && !meta.names
          ? rampColor(at / Math.max(1, curves.groups.length - 1))
          : groupColor(meta?.names ? meta.names.indexOf(group.name) : 0, this.by.value),
      y: group.mean,
      spread: group.std,
      note: count(group.count) + (group.count < FEW ? " (few)" : ""),
      pale: group.count < FEW,
    }));
    this.curves.show({
      x: curves.epochs,
      lines,
      xTitle: "epoch",
      yTitle: titled(this.measure.value, this.page.unitOf(this.measure.value)),
    });
  }

  // The player under the scatter.
  listen() {
    const { about } = this.page;
    this.slider = document.getElementById("epoch");
    this.slider.max = about.epochs.length - 1;
    this.slider.value = about.epochs.length - 1;
    document.getElementById("player").hidden = false;
    this.button = document.getElementById("play");
    this.button.addEventListener("click", () => (this.playing ? this.stop() : this.play()));
    this.slider.addEventListener("input", () => {
      this.stop();
      this.go(Number(this.slider.value));
    });
    this.off = document.getElementById("epoch-off");
    this.off.addEventListener("click", () => {
      this.stop();
      this.leave();
    });
    this.name(about.epochs.length - 1);
  }

  name(at) {
    document.getElementById("epoch-name").textContent = `epoch ${this.page.about.epochs[Math.round(at)]}`;
  }

  // The measures that move: the scatter's own axes where the dynamics have them, else angle and norm.
  async axes() {
    const { view, about, columns } = this.page;
    const there = (measure) => about.moving.includes(measure) && columns.has(measure);
    if (!there(view.x) || !there(view.y)) {
      const pick = ["own_angle", "norm", "avh", "confidence"].filter(there);
      await this.page.change({ x: pick[0] ?? view.x, y: pick[1] ?? view.y, zoom: null });
    }
    return [this.page.view.x, this.page.view.y];
  }

  frame(at, measure) {
    const key = at + " " + measure;
    if (!this.frames.has(key)) {
      const most = Math.max(4, Math.floor(4e7 / this.page.about.n)); // about 160 MB
      if (this.frames.size >= most) this.frames.delete(this.frames.keys().next().value);
      this.frames.set(key, this.page.source.epoch(at, measure));
    }
    return this.frames.get(key);
  }

  // Show the cloud at an epoch, or between two.
  async go(at) {
    const going = (this.going = {});
    const [x, y] = await this.axes();
    const low = Math.floor(at),
      share = at - low;
    const of = async (measure) => {
      const before = await this.frame(low, measure);
      if (!share) return before;
      const after = await this.frame(low + 1, measure),
        mixed = new Float32Array(before.length);
      for (let i = 0; i < mixed.length; i++) mixed[i] = before[i] + (after[i] - before[i]) * share;
      return mixed;
    };
    const moved = [await of(x), await of(y)];
    if (going !== this.going) return; // another epoch was asked for meanwhile, or none any more
    this.page.moved = moved;
    this.at = at;
    this.slider.value = Math.round(at);
    this.name(at);
    this.off.hidden = false;
    this.page.redrawScatter();
  }

  async play() {
    const last = this.page.about.epochs.length - 1;
    this.playing = {};
    const mine = this.playing;
    this.button.textContent = "Pause";
    this.button.setAttribute("aria-pressed", "true");
    let at = this.at !== undefined && this.at < last ? this.at : 0;
    const smooth = this.page.about.n <= 100000 && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    await this.fitAll(mine);
    while (this.playing === mine && at <= last) {
      const start = performance.now();
      await this.go(at);
      await new Promise((done) => setTimeout(done, smooth ? 0 : Math.max(0, STEP - (performance.now() - start))));
      await new Promise(requestAnimationFrame);
      const gone = (performance.now() - start) / STEP;
      const next = smooth ? at + gone : at + 1;
      at = at < last && next > last ? last : next;
    }
    if (this.playing === mine) this.stop();
  }

  // A window that holds nearly every sample at every epoch, so that the cloud moves and not the axes.
  async fitAll(playing) {
    const ends = [];
    const [x, y] = await this.axes();
    const last = this.page.about.epochs.length - 1,
      some = [...new Set([0, 1, 2, 3, 4].map((k) => Math.round((k * last) / 4)))];
    for (const measure of [x, y]) {
      let low = Infinity,
        high = -Infinity;
      for (const at of some) {
        const [from, to] = bulk(await this.frame(at, measure));
        [low, high] = [Math.min(low, from), Math.max(high, to)];
      }
      const room = (high - low) * 0.04 || 0.5;
      ends.push(low - room, high + room);
    }
    if (this.playing === playing && ends.every(Number.isFinite)) await this.page.change({ zoom: ends }); // not if stopped meanwhile
  }

  stop() {
    this.playing = null;
    this.button.textContent = "Play";
    this.button.setAttribute("aria-pressed", "false");
  }

  leave() {
    this.going = null;
    this.page.moved = null;
    this.at = undefined;
    this.off.hidden = true;
    this.slider.value = this.page.about.epochs.length - 1;
    this.name(this.page.about.epochs.length - 1);
    this.page.change({ zoom: null });
  }
}

// The ends between which all but a thousandth of the values lie on either side: a few far ones would squeeze the others.
function bulk(values) {
  const every = Math.max(1, Math.floor(values.length / 20000));
  const some = Float32Array.from({ length: Math.floor(values.length / every) }, (_, at) => values[at * every])
    .filter(Number.isFinite)
    .sort();
  const cut = Math.floor(some.length / 1000);
  return some.length ? [some[cut], some[some.length - 1 - cut]] : [Infinity, -Infinity];
}
