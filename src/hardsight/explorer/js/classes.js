// Classes and confusions of the selection: one loop over the rows, a click filters.

import { aligned, count, el, name, percent } from "./words.js";
import { Table } from "./tables.js";

const MANY = 2000; // classes from which pairs are counted in a map instead of a square

export class Classes {
  constructor(page) {
    this.page = page;
    const { columns } = page;
    this.means = ["avh", "norm"].filter((column) => columns.has(column));
    this.hasBoth = columns.has("label") && columns.has("predicted");
    this.judged = columns.has("label") && columns.has("correct"); // an epoch knows what was right, not what was predicted
    const shown = (title, key, show, words = false) => ({
      title,
      value: (row) => row[key],
      show: (row) => show(row[key]),
      words,
    });
    const columnsShown = [
      { title: "class", value: (row) => row.name, show: (row) => name(row.name, 32), words: true },
      shown("samples", "count", count),
      ...(this.judged ? [shown("accuracy", "accuracy", percent)] : []),
      ...this.means.map((score) => shown("mean " + (score === "avh" ? "AVH" : score), score, aligned)),
    ];
    const hardest = columnsShown.findIndex((column) => column.title === "mean AVH");
    this.table = new Table(document.getElementById("view-classes"), "Classes of the selection", columnsShown, {
      pick: (row) => page.addFilter(["in", this.key, [row.name]]),
      empty: "No sample is selected.",
      sortBy: hardest > 0 ? hardest : 1,
      down: true,
    });
    if (this.hasBoth) {
      this.pairs = new Table(
        document.getElementById("view-confusions"),
        "Confusions of the selection",
        [
          {
            title: "given → predicted",
            value: (row) => row.given,
            show: (row) => el("span", {}, name(row.given, 28), " → ", name(row.predicted, 28)),
            words: true,
          },
          shown("samples", "count", count),
          shown("of the given class", "share", percent),
        ],
        {
          pick: (row) =>
            page.addFilters([
              ["in", "label", [row.given]],
              ["in", "predicted", [row.predicted]],
            ]),
          empty: "No confusions: every prediction in the selection is the given class.",
          sortBy: 1,
          down: true,
        },
      );
    }
    this.key = columns.has("label") ? "label" : "predicted";
    if (this.key === "predicted" && columns.has("predicted"))
      document
        .getElementById("view-classes")
        .prepend(
          el("p", { class: "note" }, "No labels: classes are the predicted ones. Accuracy, AVH and confusions need labels."),
        );
  }

  needs() {
    return [this.key, ...(this.hasBoth ? ["label", "predicted"] : []), ...(this.judged ? ["correct"] : []), ...this.means].filter(
      (column) => this.page.columns.has(column),
    );
  }

  // Counts of the selection: cheap enough for every change; drawn only if visible.
  draw(tab) {
    if (tab === "classes") this.drawClasses();
    else if (tab === "confusions" && this.pairs) this.drawPairs();
  }

  drawClasses() {
    const { columns, selection } = this.page;
    if (!columns.has(this.key)) return;
    const names = columns.meta(this.key).names,
      c = names.length,
      mask = selection.mask;
    const labels = columns.get(this.key),
      judged = this.judged ? columns.get("correct") : null;
    const size = new Uint32Array(c),
      right = new Uint32Array(c);
    for (let i = 0; i < mask.length; i++) {
      const label = labels[i];
      if (mask[i] && label < c) {
        size[label]++;
        if (judged !== null && judged[i] === 0) right[label]++;
      }
    }
    const means = this.means.map((score) => meanOf(columns.get(score), labels, mask, c));
    const rows = [];
    for (let label = 0; label < c; label++) {
      if (!size[label]) continue;
      const row = { name: names[label], count: size[label], accuracy: right[label] / size[label] };
      this.means.forEach((score, k) => (row[score] = means[k][label]));
      rows.push(row);
    }
    this.table.show(rows);
  }

  drawPairs() {
    const { columns, selection } = this.page;
    const names = columns.meta("label").names,
      c = names.length,
      mask = selection.mask;
    const labels = columns.get("label"),
      predicted = columns.get("predicted"),
      sizes = new Uint32Array(c);
    const square = c <= MANY ? new Uint32Array(c * c) : null,
      map = new Map();
    for (let i = 0; i < mask.length; i++) {
      const label = labels[i],
        other = predicted[i];
      if (!mask[i] || label >= c) continue;
      sizes[label]++;
      if (label === other || other >= c) continue;
      const pair = label * c + other;
      if (square) square[pair]++;
      else map.set(pair, (map.get(pair) ?? 0) + 1);
    }
    const rows = [],
      add = (pair, count) => {
        const label = Math.floor(pair / c);
        rows.push({ given: names[label], predicted: names[pair % c], count, share: count / sizes[label] });
      };
    if (square) square.forEach((count, pair) => count && add(pair, count));
    else map.forEach((count, pair) => add(pair, count));
    this.pairs.show(rows);
  }
}

// The mean of each class's selected values, NaN for none: one loop per column is what browsers run fast.
function meanOf(values, labels, mask, c) {
  const sums = new Float64Array(c),
    counts = new Uint32Array(c);
  for (let i = 0; i < mask.length; i++) {
    const label = labels[i],
      value = values[i];
    if (mask[i] && label < c && !Number.isNaN(value)) {
      sums[label] += value;
      counts[label]++;
    }
  }
  return sums.map((sum, label) => sum / counts[label]);
}
