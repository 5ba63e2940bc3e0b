// Details of one sample: image, classes by angle, scores, its curve over the epochs, neighbors, degraded versions, marks.

import { groupColor } from "./colors.js";
import { Curves } from "./curves.js";
import { el, harmless, measured, name, number, percent, short, spoken, titled } from "./words.js";

// What people would say of a sample as one value: how often they would choose the given class, its interval, and whether they did.
function said({ predicted_frequency, predicted_frequency_low, predicted_frequency_high, people_source, ...values }) {
  if (typeof predicted_frequency !== "number") return values;
  const ends = [predicted_frequency_low, predicted_frequency_high].map(percent).join(" to ");
  return { "people would say": `${percent(predicted_frequency)} (${ends}), ${people_source}`, ...values };
}

export class Detail {
  constructor(page) {
    this.page = page;
    this.dialog = document.getElementById("detail");
    this.row = this.asked = null; // the sample that is shown, and the one requested last, which may still be loading
    this.dialog.addEventListener("keydown", (event) => this.key(event));
    this.dialog.addEventListener("close", () => (this.row = this.asked = null));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close()); // outside of it
  }

  open(row) {
    this.asked = row;
    return this.page.until(this.fetchAndShow(row));
  }

  async fetchAndShow(row) {
    let sample;
    try {
      sample = await this.page.source.sample(row);
    } catch (error) {
      if (this.asked === row) this.asked = this.row;
      this.page.say(error.message, true);
      return;
    }
    if (this.asked !== row) return;
    this.row = row;
    this.dialog.replaceChildren(this.head(sample), el("div", { class: "body" }, this.left(sample), this.right(sample)));
    if (!this.dialog.open) this.dialog.showModal();
    this.dialog.querySelector("#detail-title").focus();
    this.dialog.scrollTop = 0;
    await this.later(row);
  }

  head(sample) {
    const step = (by, words, sign) => el("button", { type: "button", "aria-label": words, onclick: () => this.step(by) }, sign);
    return el(
      "header",
      {},
      el("h2", { id: "detail-title", tabIndex: -1 }, name(sample.id, 80)),
      el(
        "span",
        { class: "tools" },
        step(-1, "Previous sample", "‹"),
        step(1, "Next sample", "›"),
        el("button", { type: "button", "aria-label": "Close", onclick: () => this.dialog.close() }, "×"),
      ),
    );
  }

  left(sample) {
    const { about, source } = this.page;
    const given = sample.values.label ?? null,
      guesses = [
        ["predicted", sample.values.predicted],
        [about.comparison ? `in ${short(about.comparison.second, 24)}` : "", sample.values["predicted (2)"]],
      ].filter(([, guess]) => guess !== null && guess !== undefined);
    const picture = about.pictures ? this.page.picture(source.image(sample.row)) : el("p", { class: "nopicture" }, "no image");
    if (about.pictures) picture.alt = "The image of this sample";
    const parts = [el("div", { class: "large" }, picture)];
    if (sample.trouble) parts.push(el("p", { class: "wrong" }, "The image cannot be shown: " + harmless(sample.trouble)));
    parts.push(
      el(
        "dl",
        { class: "labels" },
        el("dt", {}, "given"),
        el("dd", {}, given === null ? "no label" : name(given, 60)),
        ...guesses.flatMap(([title, guess]) => [
          el("dt", {}, title),
          el("dd", { class: given !== null && given !== guess ? "wrong" : "" }, name(guess, 60)),
        ]),
        ...this.suggestion(sample),
        ...this.twin(sample),
      ),
    );
    if (about.suspects && (sample.values.verdict || sample.explanation)) {
      const verdict = sample.values.verdict ? el("strong", {}, sample.values.verdict) : null; // a leak may have none
      const why = sample.explanation ? harmless(sample.explanation) : null;
      parts.push(el("p", { class: "note" }, verdict, verdict && why ? `: ${why}` : why));
    }
    this.marks = el("div", { class: "marks", role: "group", "aria-label": "Mark this sample" });
    parts.push(this.marks);
    this.drawMarks();
    if (sample.path && sample.path !== sample.id) parts.push(el("p", { class: "quiet path" }, name(sample.path, 200)));
    return el("div", {}, ...parts);
  }

  // The sample that it duplicates.
  twin({ duplicate_of: twin }) {
    if (!twin) return [];
    const open = () => this.open(twin.row);
    const of = name(twin.id, 60);
    const who = twin.row === null ? of : el("button", { type: "button", class: "pick", onclick: open }, of);
    return [el("dt", {}, "repeats"), el("dd", {}, who)];
  }

  // Which class `hardsight clean` suggests, with its probability; nothing if it is the given one.
  suggestion(sample) {
    const code = this.page.review.suggested(sample.row);
    if (code === null) return [];
    return [
      el("dt", {}, "suggested"),
      el(
        "dd",
        { class: "wrong" },
        name(this.page.about.classes[code], 60),
        el("span", { class: "quiet" }, ` ${percent(sample.values.suggested_probability ?? NaN)}`),
      ),
    ];
  }

  drawMarks() {
    if (this.row === null || !this.marks) return;
    const { review, columns, about } = this.page,
      mark = columns.word("mark", this.row);
    const suggestion = about.classes[review.suggestions.get(this.row)];
    if (review.readOnly) {
      this.marks.replaceChildren(...(mark ? ["marked ", mark] : []));
      return;
    }
    const keys = { f: "fine", w: "wrong label", a: "ambiguous", d: "drop" };
    this.marks.replaceChildren(
      ...this.acceptButton(),
      ...Object.entries(keys).map(([key, word]) => {
        const button = el(
          "button",
          { type: "button", onclick: () => review.key(key, this.row, () => this.step(1)) },
          el("kbd", {}, key),
          " " + word,
        );
        button.setAttribute("aria-pressed", String(mark === word));
        return button;
      }),
      ...(suggestion ? [el("span", { class: "quiet" }, "should be ", name(suggestion, 40))] : []),
    );
  }

  acceptButton() {
    const { review, about } = this.page,
      code = review.suggested(this.row);
    if (code === null) return [];
    return [
      el(
        "button",
        { type: "button", class: "strong", onclick: () => review.key("y", this.row, () => this.step(1)) },
        el("kbd", {}, "y"),
        " accept ",
        name(about.classes[code], 24),
      ),
    ];
  }

  right(sample) {
    const parts = [];
    if (sample.classes.length) parts.push(el("h3", {}, "Angle to the nearest classes"), this.bars(sample.classes));
    this.story = el("div", {});
    this.around = el("div", {});
    parts.push(this.story);
    if (sample.versions.length)
      parts.push(
        el("h3", {}, "Degraded versions"),
        this.strip(sample.versions, (version) => `${version.degradation ?? "original"} ${number(version.level)}`),
      );
    parts.push(this.around, el("h3", {}, "All columns"), this.table(sample.values));
    return el("div", {}, ...parts);
  }

  bars(classes) {
    const [from, to] = barEnds(classes.map((near) => near.degrees));
    return el(
      "ul",
      { class: "bars" },
      ...classes.map((near) => {
        const bar = el("span", { class: "fill" + (near.given ? " given" : near.predicted ? " guess" : "") });
        bar.style.width = (100 * (near.degrees - from)) / (to - from) + "%";
        const note = [near.given ? "given" : null, near.predicted ? "predicted" : null].filter(Boolean).join(", ");
        return el(
          "li",
          {},
          el("span", { class: "who" }, name(this.page.about.classes[near.class], 22)),
          el("span", { class: "track" }, bar),
          el("span", { class: "value" }, near.degrees.toFixed(1) + "°"),
          el("span", { class: "quiet" }, note),
        );
      }),
      el("li", { class: "ends quiet" }, el("span", {}), el("span", { class: "track" }, `${from}°`, el("span", {}, `${to}°`))),
    );
  }

  strip(entries, words) {
    const { source, about } = this.page;
    return el(
      "div",
      { class: "strip" },
      ...entries.map((sample) => {
        const button = el(
          "button",
          { type: "button", class: "tile" + (sample.here ? " here" : ""), onclick: () => this.open(sample.row) },
          about.pictures ? this.page.picture(source.thumb(sample.row)) : el("span", { class: "nopicture" }, "row " + sample.row),
          el("span", { class: "caption" }, words(sample)),
        );
        button.setAttribute("aria-label", words(sample));
        return button;
      }),
    );
  }

  table(values) {
    const above = ["label", "predicted", ...(this.page.about.suspects ? ["verdict", "suggested_label"] : [])];
    const rows = Object.entries(said(values)).filter(([key]) => !above.includes(key));
    return el(
      "table",
      { class: "values" },
      el(
        "tbody",
        {},
        ...rows.map(([key, value]) =>
          el(
            "tr",
            {},
            el("th", { scope: "row", title: this.page.columns.meta(key)?.about ?? "" }, spoken(key)),
            el("td", {}, typeof value === "string" ? name(value, 40) : measured(value, this.page.columns.meta(key)?.unit)),
          ),
        ),
      ),
    );
  }

  // What takes the server longer: curves and neighbors.
  later(row) {
    const { source, about } = this.page;
    const into = (parent, request, draw) =>
      request
        .then((answer) => this.row === row && draw(answer))
        .catch((error) => this.row === row && parent.replaceChildren(el("p", { class: "quiet" }, error.message)));
    const waiting = [];
    if (about.moving.length) waiting.push(into(this.story, source.story(row), (story) => this.drawStory(story)));
    if (about.closeups) {
      this.around.replaceChildren(el("h3", {}, "Nearest neighbors"), el("p", { class: "quiet" }, "Loading…"));
      waiting.push(into(this.around, source.neighbors(row), (neighbors) => this.drawNeighbors(neighbors)));
    }
    return Promise.all(waiting);
  }

  drawNeighbors(neighbors) {
    const words = (neighbor) =>
      `${harmless(this.page.columns.word("label", neighbor.row) ?? "–").slice(0, 16)} ${neighbor.cosine.toFixed(3)}`;
    this.around.replaceChildren(
      el("h3", {}, "Nearest neighbors"),
      neighbors.length
        ? this.strip(neighbors, words)
        : el("p", { class: "quiet" }, "None: this sample has no features, or it is the only one."),
    );
  }

  drawStory(story) {
    const measures = Object.keys(story);
    const choose = el(
      "select",
      { "aria-label": "Measure" },
      ...measures.map((measure) => el("option", { value: measure }, spoken(measure))),
    );
    this.story.replaceChildren(el("h3", {}, "Over the epochs ", choose));
    const curves = new Curves(this.story, "This sample over the epochs");
    const draw = () =>
      curves.show({
        x: this.page.about.epochs,
        lines: [{ name: spoken(choose.value), color: groupColor(0), y: story[choose.value] }],
        xTitle: "epoch",
        yTitle: titled(choose.value, this.page.unitOf(choose.value)),
      });
    choose.addEventListener("change", draw);
    draw();
  }

  async step(by) {
    const next = await this.page.samples.beside(this.asked, by);
    if (next !== null && this.dialog.open) this.open(next);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return;
    if (event.key === "ArrowRight") this.step(1);
    else if (event.key === "ArrowLeft") this.step(-1);
    else if (this.row === this.asked && this.page.review.key(event.key, this.row, () => this.step(1))) {
      /* marked; keys do not act on a sample that is still loading */
    } else return;
    event.preventDefault();
  }
}

// The ends of the bars, in whole degrees: from zero, angles of 80 and 85 would look the same.
export function barEnds(degrees) {
  const low = Math.min(...degrees),
    high = Math.max(...degrees),
    room = Math.max(1, (high - low) / 4); // so that the shortest bar is visible
  const from = Math.max(0, Math.floor(low - room));
  return [from < high / 4 ? 0 : from, Math.max(1, Math.ceil(high))];
}
