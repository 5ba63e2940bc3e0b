// Agreement: how a score goes with how often people chose the given class, within the selection.

import { css } from "./colours.js";
import { Curves } from "./curves.js";
import { packed } from "./selection.js";
import { count, el, said } from "./words.js";

export class Agreement {
  constructor(page) {
    this.page = page;
    const place = document.getElementById("view-agreement");
    const scores = page.columns.numbers().filter((meta) => meta.name !== page.about.human);
    this.score = el("select", { "aria-label": "Score" }, ...scores.map((meta) => el("option", { value: meta.name }, said(meta.name))));
    this.score.addEventListener("change", () => page.change({ score: this.score.value }));
    this.words = el("p", { class: "headline", role: "status" });
    place.append(el("div", { class: "bar" }, el("label", {}, "human frequency against ", this.score)), this.words);
    this.curves = new Curves(place, "Mean score by human frequency, with a band of one standard deviation");
    place.append(el("p", { class: "quiet" }, "Spearman's rank correlation with its 95 % interval (Bonett and Wright); mean score in each tenth of human frequency, the band is one standard deviation." + (page.source.live ? "" : " In this file of all samples, whatever is selected.")));
  }

  async draw() {
    const { view, source, selection, columns } = this.page;
    this.score.value = columns.has(view.score) && view.score !== this.page.about.human ? view.score : this.page.about.by;
    const turn = (this.turn = {});
    const found = await source.agreement(this.score.value, packed(selection.mask));
    if (turn !== this.turn) return;
    this.words.textContent = found.spearman === null
      ? `${count(found.n)} samples with human data in the selection: too few, or all alike.`
      : `ρ = ${found.spearman.toFixed(3)}   [${found.low.toFixed(3)}, ${found.high.toFixed(3)}]   n = ${count(found.n)}`;
    const lines = [{ name: said(this.score.value), colour: css("--accent"), y: found.steps.map((s) => s.mean), spread: found.steps.map((s) => s.std), dots: true }];
    this.curves.show({ x: found.steps.map((s) => (s.from + s.to) / 2), lines, xTitle: "human frequency of the given class", yTitle: said(this.score.value) });
  }
}
