// Suspects: what `hardsight clean` found, by verdict and by given and suggested class; a click filters.

import { Table } from "./tables.js";
import { aligned, count, el, name } from "./words.js";

export class Suspects {
  constructor(page) {
    this.page = page;
    const panel = document.getElementById("view-suspects");
    this.facts = el("div", { class: "facts", role: "group", "aria-label": "Filter by verdict" });
    this.words = el("p", { class: "quiet" });
    panel.append(this.facts, this.words);
    this.table = new Table(
      panel,
      "Given and suggested classes of the suspects in the selection",
      [
        {
          title: "given → suggested",
          value: (row) => row.given,
          show: (row) => el("span", {}, name(row.given, 28), " → ", name(row.suggested, 28)),
          words: true,
        },
        { title: "samples", value: (row) => row.count, show: (row) => count(row.count) },
        { title: "mean error score", value: (row) => row.score, show: (row) => aligned(row.score, 3) },
        ...(page.review.readOnly ? [] : [{ title: "reviewed", value: (row) => row.marked, show: (row) => count(row.marked) }]),
      ],
      {
        pick: (row) =>
          page.addFilters([
            ["in", "label", [row.given]],
            ["in", "suggested_label", [row.suggested]],
          ]),
        empty: "No suspect in the selection has another class suggested.",
        sortBy: 1,
        down: true,
      },
    );
  }

  needs() {
    return ["verdict", "error_score", "suggested_label", "is_duplicate"].filter((column) => this.page.columns.has(column));
  }

  draw() {
    this.drawVerdicts();
    const { about, columns, selection, review } = this.page;
    const verdicts = columns.get("verdict"),
      scores = columns.get("error_score"),
      labels = columns.get("label"),
      some = columns.meta("verdict").names.length,
      c = about.classes.length;
    const pairs = new Map();
    let suspects = 0,
      marked = 0;
    for (let row = 0; row < verdicts.length; row++) {
      if (!selection.mask[row] || verdicts[row] >= some) continue;
      const isMarked = review.values[row] !== 255;
      suspects++;
      marked += isMarked;
      const suggested = review.suggested(row);
      if (suggested === null || !(labels?.[row] < c)) continue;
      const key = labels[row] * c + suggested;
      const pair = pairs.get(key) ?? { key, count: 0, sum: 0, marked: 0 };
      pairs.set(key, pair);
      pair.count++;
      pair.sum += scores[row];
      pair.marked += isMarked;
    }
    const reviewed = review.readOnly ? "" : ` ${count(marked)} reviewed.`;
    const here = suspects
      ? `${count(suspects)} samples with a verdict in the selection.${reviewed} Click a verdict or a pair to see only those.`
      : about.suspects.groups.length
        ? "No selected sample has a verdict; clear the filters to see all suspects."
        : (about.suspects.expected ? "No label looks wrong" : "Labels were not checked") +
          ", and no sample is an outlier or a near duplicate.";
    this.words.textContent = `${about.suspects.expected} ${here}`.trim();
    const named = (pair) => ({
      ...pair,
      given: about.classes[Math.floor(pair.key / c)],
      suggested: about.classes[pair.key % c],
      score: pair.sum / pair.count,
    });
    this.table.show([...pairs.values()].map(named));
  }

  // One button per verdict and one for duplicates, with its samples in all; the chosen one takes its filter away again.
  drawVerdicts() {
    const { about, view } = this.page;
    const buttons = about.suspects.groups.map(([title, samples, column, value]) => {
      const filter = view.filters.find((one) => one[0] === "in" && one[1] === column);
      const chosen = filter?.[2].length === 1 && filter[2][0] === value;
      const button = el(
        "button",
        { type: "button", class: "fact", onclick: () => this.choose(column, value, chosen, filter) },
        el("span", { class: "quiet" }, title),
        el("strong", {}, count(samples)),
      );
      button.setAttribute("aria-pressed", String(chosen));
      return button;
    });
    const focused = [...this.facts.children].indexOf(document.activeElement);
    this.facts.replaceChildren(...buttons);
    if (focused >= 0) buttons[focused].focus();
  }

  choose(column, value, chosen, filter) {
    if (chosen) this.page.change({ filters: this.page.view.filters.filter((one) => one !== filter), page: 0 });
    else this.page.addFilter(["in", column, [value]]);
  }
}
