// Two runs on the same samples: what got easier and what got harder, side by side.

import { count, el, harmless, name, number, percent, spoken } from "./words.js";

const SHOWN = 24;

export class Compare {
  constructor(page) {
    this.page = page;
    const panel = document.getElementById("view-compare");
    const scores = page.columns
      .numbers()
      .filter((meta) => meta.name.endsWith(" change"))
      .map((meta) => meta.name.slice(0, -7));
    this.score = el(
      "select",
      { "aria-label": "Score to compare" },
      ...scores.map((score) => el("option", { value: score }, spoken(score))),
    );
    this.score.addEventListener("change", () => page.change({ score: this.score.value }));
    this.words = el("div", { class: "facts" });
    this.easier = el("div", { class: "strip", role: "group", "aria-label": "Got easier" });
    this.harder = el("div", { class: "strip", role: "group", "aria-label": "Got harder" });
    const both = el(
      "button",
      {
        type: "button",
        onclick: () =>
          page.change({ x: this.score.value, y: this.score.value + " (2)", colour: this.score.value + " change", zoom: null }),
      },
      "Plot one against the other",
    );
    panel.append(
      el("div", { class: "bar" }, el("label", {}, "compare by ", this.score), both),
      this.words,
      el(
        "div",
        { class: "sides" },
        el("section", {}, el("h3", {}, "Got easier"), this.easier),
        el("section", {}, el("h3", {}, "Got harder"), this.harder),
      ),
    );
  }

  needs() {
    const score = this.chosen();
    return [score, score + " (2)", score + " change", "outcome"].filter((name) => this.page.columns.has(name));
  }

  chosen() {
    const { view, columns, about } = this.page;
    return (
      [view.score, about.by].find((candidate) => candidate && columns.has(candidate + " change")) ?? this.score.options[0]?.value
    );
  }

  draw() {
    const { columns, selection } = this.page,
      score = this.chosen();
    this.score.value = score;
    const order = columns.order(score + " change"),
      mask = selection.mask,
      change = columns.get(score + " change");
    const high = columns.meta(score).hard === "high";
    const pick = (down) => {
      const rows = [];
      for (let i = 0; i < order.length && rows.length < SHOWN; i++) {
        const row = order[down ? order.length - 1 - i : i];
        if (mask[row] && change[row] !== 0 && change[row] > 0 === down) rows.push(row);
      }
      return rows;
    };
    this.fill(this.easier, pick(!high), score);
    this.fill(this.harder, pick(high), score);
    this.facts(score, order, mask, change, high);
  }

  facts(score, order, mask, change, high) {
    const { columns, about } = this.page;
    const first = columns.get(score),
      second = columns.get(score + " (2)");
    let n = 0,
      before = 0,
      after = 0,
      harder = 0,
      easier = 0;
    for (const row of order) {
      if (!mask[row]) continue;
      n++;
      before += first[row];
      after += second[row];
      if (change[row] > 0 === high && change[row] !== 0) harder++;
      else if (change[row] !== 0) easier++;
    }
    const fact = (title, value) => el("div", {}, el("span", { class: "quiet" }, title), el("strong", {}, value));
    const facts = [
      fact("samples in both", count(n)),
      fact("mean before → after", `${number(before / n)} → ${number(after / n)}`),
      fact("got harder", `${count(harder)} (${percent(harder / n)})`),
      fact("got easier", `${count(easier)} (${percent(easier / n)})`),
    ];
    if (columns.has("outcome")) {
      const counts = [0, 0, 0, 0],
        outcome = columns.get("outcome");
      for (let i = 0; i < outcome.length; i++) if (mask[i] && outcome[i] < 4) counts[outcome[i]]++;
      const all = counts.reduce((a, b) => a + b, 0);
      facts.push(fact("accuracy", `${percent((counts[0] + counts[1]) / all)} → ${percent((counts[0] + counts[2]) / all)}`));
      columns.meta("outcome").names.forEach((word, at) => {
        facts.push(
          el(
            "button",
            { type: "button", class: "fact", onclick: () => this.page.addFilter(["in", "outcome", [word]]) },
            el("span", { class: "quiet" }, word),
            el("strong", {}, count(counts[at])),
          ),
        );
      });
    }
    this.words.replaceChildren(el("p", { class: "quiet" }, name(about.name, 40), " → ", name(about.second, 40)), ...facts);
  }

  fill(parent, rows, score) {
    const { columns, source, about } = this.page;
    parent.replaceChildren(
      ...rows.map((row) => {
        const change = columns.get(score + " change")[row],
          words = (change > 0 ? "+" : "") + number(change);
        const button = el(
          "button",
          { type: "button", class: "tile", onclick: () => this.page.open(row) },
          about.pictures ? this.page.picture(source.thumb(row)) : el("span", { class: "nopicture" }, "sample " + row),
          el(
            "span",
            { class: "caption" },
            name(columns.word("label", row) ?? "no label", 16),
            el("span", { class: "value" }, words),
          ),
        );
        button.setAttribute(
          "aria-label",
          `sample ${row}, given ${harmless(columns.word("label", row) ?? "nothing").slice(0, 60)}, ${spoken(score)} ${words}`,
        );
        return button;
      }),
    );
    if (!rows.length) parent.append(el("p", { class: "quiet" }, "none"));
  }
}
