// Two runs on the same samples: what got easier and what got harder, side by side.
//
// A sample that was right and is now wrong got harder, whatever its scores, and the other way round. For all others the change
// of a score decides: of its values if both runs are on one scale, else of its ranks within each run. A rank is relative to the
// other samples, so the page then says "ranked easier", not "got easier".

import { count, el, harmless, measured, name, percent, spoken } from "./words.js";

const SHOWN = 24;
const TURNED = { 1: 1, 2: -1 }; // codes of `outcome` that decide: right, then wrong; wrong, then right

export class Compare {
  constructor(page) {
    this.page = page;
    this.changes = page.about.comparison.changes; // score -> column
    const panel = document.getElementById("view-compare");
    this.score = el(
      "select",
      { "aria-label": "Score to compare" },
      ...Object.keys(this.changes).map((score) => el("option", { value: score }, spoken(score))),
    );
    this.score.addEventListener("change", () => page.change({ score: this.score.value }));
    this.words = el("div", {});
    this.easier = side("easier");
    this.harder = side("harder");
    const both = el(
      "button",
      {
        type: "button",
        onclick: () => {
          const score = this.score.value;
          page.change({ x: score, y: score + " (2)", color: this.changes[score], zoom: null });
        },
      },
      "Plot one against the other",
    );
    panel.append(
      el(
        "div",
        { class: "bar" },
        el("label", {}, "compare by ", this.score),
        both,
        el("span", { class: "quiet" }, name(page.about.name, 40), " → ", name(page.about.comparison.second, 40)),
      ),
      this.words,
      el("div", { class: "sides" }, this.easier.section, this.harder.section),
    );
  }

  needs() {
    const score = this.chosen();
    return [score, score + " (2)", this.changes[score], "outcome"].filter((name) => this.page.columns.has(name));
  }

  chosen() {
    const { view, about } = this.page;
    return [view.score, about.by].find((candidate) => Object.hasOwn(this.changes, candidate)) ?? this.score.options[0]?.value;
  }

  ranked(score) {
    return this.changes[score].endsWith(" rank change");
  }

  draw() {
    const { columns, selection } = this.page,
      score = this.chosen();
    this.score.value = score;
    const change = columns.get(this.changes[score]),
      sign = columns.meta(this.changes[score]).hard === "high" ? 1 : -1;
    // 1 for harder, -1 for easier, 0 for neither, NaN for a sample without a value
    const verdict = (row) => this.turned(row) ?? sign * Math.sign(change[row]);
    this.fill(this.easier.strip, this.pick(score, verdict, -1, selection.mask), score);
    this.fill(this.harder.strip, this.pick(score, verdict, 1, selection.mask), score);
    this.say(score, verdict, selection.mask);
  }

  // The samples with a verdict: first those that turned right or wrong, then by how much the score changed.
  pick(score, verdict, wanted, mask) {
    const { columns } = this.page,
      order = columns.order(this.changes[score]);
    const down = (columns.meta(this.changes[score]).hard === "high") === wanted > 0;
    const turned = [],
      others = [];
    for (let i = 0; i < order.length && turned.length < SHOWN; i++) {
      const row = order[down ? order.length - 1 - i : i];
      if (!mask[row] || verdict(row) !== wanted) continue;
      if (this.turned(row)) turned.push(row);
      else if (others.length < SHOWN) others.push(row);
    }
    return [...turned, ...others].slice(0, SHOWN);
  }

  // 1 for right, then wrong; -1 for wrong, then right.
  turned(row) {
    return TURNED[this.page.columns.get("outcome")?.[row]];
  }

  say(score, verdict, mask) {
    const { columns, about } = this.page,
      by = spoken(score),
      judged = columns.has("outcome");
    const more = columns.meta(this.changes[score]).hard === "high" ? "higher" : "lower";
    const rule = this.ranked(score)
      ? `Values of ${by} are not compared: ${about.comparison.why_ranks}. A rank says where a sample stands within its own run.`
      : `Harder: ${judged ? "right, then wrong; or the same outcome and " : ""}a ${more} ${by}.`;
    this.words.replaceChildren(
      el("div", { class: "facts" }, ...this.outcomes(mask), ...this.counts(score, verdict, mask)),
      el("p", { class: "quiet rule" }, harmless(rule)),
    );
    this.easier.title(this.ranked(score) ? (judged ? "Right now, or ranked easier" : "Ranked easier") : "Got easier");
    this.harder.title(this.ranked(score) ? (judged ? "Wrong now, or ranked harder" : "Ranked harder") : "Got harder");
  }

  // Right or wrong, in the first and in the second.
  outcomes(mask) {
    const { columns } = this.page,
      outcome = columns.get("outcome");
    if (!outcome) return [];
    const counts = [0, 0, 0, 0];
    for (let i = 0; i < outcome.length; i++) if (mask[i] && outcome[i] < 4) counts[outcome[i]]++;
    const all = counts.reduce((a, b) => a + b, 0);
    return [
      fact("accuracy", `${percent((counts[0] + counts[1]) / all)} → ${percent((counts[0] + counts[2]) / all)}`),
      ...columns
        .meta("outcome")
        .names.map((word, at) =>
          el(
            "button",
            { type: "button", class: "fact", onclick: () => this.page.addFilter(["in", "outcome", [word]]) },
            el("span", { class: "quiet" }, word),
            el("strong", {}, count(counts[at])),
          ),
        ),
    ];
  }

  // How many got harder and easier; by rank, only of those that were right in both or wrong in both.
  counts(score, verdict, mask) {
    const { columns } = this.page,
      ranked = this.ranked(score),
      first = columns.get(score),
      second = columns.get(score + " (2)"),
      { unit } = columns.meta(score);
    const sums = { n: 0, before: 0, after: 0, judged: 0, harder: 0, easier: 0 };
    for (let row = 0; row < mask.length; row++) {
      if (!mask[row]) continue;
      if (!Number.isNaN(first[row] + second[row])) {
        sums.n++;
        sums.before += first[row];
        sums.after += second[row];
      }
      const found = verdict(row);
      if (Number.isNaN(found) || (ranked && this.turned(row))) continue;
      sums.judged++;
      if (found > 0) sums.harder++;
      else if (found < 0) sums.easier++;
    }
    const share = (part) => `${count(part)} (${percent(part / sums.judged)})`;
    if (ranked) {
      const same = columns.has("outcome") ? "same outcome, " : "";
      return [fact(`${same}ranked harder`, share(sums.harder)), fact(`${same}ranked easier`, share(sums.easier))];
    }
    return [
      fact("got harder", share(sums.harder)),
      fact("got easier", share(sums.easier)),
      fact(`mean ${spoken(score)}`, `${measured(sums.before / sums.n, unit)} → ${measured(sums.after / sums.n, unit)}`),
    ];
  }

  fill(parent, rows, score) {
    const { columns, source, about } = this.page,
      changes = columns.get(this.changes[score]);
    parent.replaceChildren(
      ...rows.map((row) => {
        const signed = (text) => (changes[row] > 0 ? "+" : "") + text;
        const words = this.ranked(score)
          ? `rank ${signed((100 * changes[row]).toFixed(0))} %`
          : signed(measured(changes[row], columns.meta(this.changes[score]).unit));
        const turned = { 1: "now wrong", "-1": "now right" }[this.turned(row)];
        const button = el(
          "button",
          { type: "button", class: "tile", onclick: () => this.page.open(row) },
          about.pictures ? this.page.picture(source.thumb(row)) : el("span", { class: "nopicture" }, "sample " + row),
          el(
            "span",
            { class: "caption" },
            name(columns.word("label", row) ?? "no label", 16),
            turned ? el("span", { class: turned === "now wrong" ? "wrong" : "quiet" }, turned) : null,
            el("span", { class: "value" }, words),
          ),
        );
        const given = harmless(columns.word("label", row) ?? "nothing").slice(0, 60);
        button.setAttribute(
          "aria-label",
          [`sample ${row}`, `given ${given}`, turned, `${spoken(score)} ${words}`].filter(Boolean).join(", "),
        );
        return button;
      }),
    );
    if (!rows.length) parent.append(el("p", { class: "quiet" }, "none"));
  }
}

// Samples under a heading that changes.
function side(key) {
  const heading = el("h3", { id: "compare-" + key }),
    strip = el("div", { class: "strip", role: "group", "aria-labelledby": heading.id });
  return { section: el("section", {}, heading, strip), strip, title: (words) => (heading.textContent = words) };
}

const fact = (title, value) => el("div", {}, el("span", { class: "quiet" }, title), el("strong", {}, value));
