// Review: one key per mark, saved by the server at once, visible in other tabs within two seconds.

import { packed } from "./selection.js";
import { Table } from "./tables.js";
import { count, counted, el, harmless, name, short } from "./words.js";

const KEYS = { f: "fine", w: "wrong label", a: "ambiguous", d: "drop" };
const CLASS_KEYS = "1234567890abcdefghijklmnopqrstuvwxyz";
const NO_MARK = 255;
const EVERY = 2000; // milliseconds between updates from other tabs

export class Review {
  constructor(page) {
    this.page = page;
    this.names = page.about.marks;
    this.version = -1;
    this.saved = Promise.resolve(); // of the marks made so far, in their order
    this.suggestions = new Map(); // row -> class
    this.tab = remembered();
    this.values = new Uint8Array(page.about.n).fill(NO_MARK);
    page.columns.put(
      { name: "mark", kind: "uint8", names: this.names, hard: "high", about: "A person's mark on the sample." },
      this.values,
    );
    this.readOnly = page.about.why_not_marked !== null || !page.source.live;
    this.whyNot = this.readOnly ? `Marks cannot be saved: ${page.about.why_not_marked}` : null;
    const accept = page.about.suspects ? [["y", "accept the suggestion"]] : [];
    const keys = [...accept, ...Object.entries(KEYS), ["x", "no mark"], ["u", "undo"]];
    const line = document.getElementById("review-keys");
    if (this.readOnly && page.source.live) line.replaceChildren(this.note());
    else if (!this.readOnly)
      line.replaceChildren(
        ...keys.flatMap(([key, what]) => [el("span", { class: "pair-of-key" }, el("kbd", {}, key), ` ${what}`), " "]),
      );
    this.facts = el("div", { class: "facts" });
    document.getElementById("view-review").append(this.facts);
    this.table = new Table(
      document.getElementById("view-review"),
      "Marks",
      [
        {
          title: "sample",
          value: (row) => row.row,
          show: (row) => name(this.page.samples.known.get(row.row)?.id ?? "row " + row.row, 30),
          words: true,
        },
        { title: "mark", value: (row) => row.mark, show: (row) => row.mark, words: true },
        { title: "given", value: (row) => row.given ?? "", show: (row) => name(row.given ?? "–", 24), words: true },
        { title: "should be", value: (row) => row.suggestion ?? "", show: (row) => name(row.suggestion ?? "–", 24), words: true },
      ],
      { pick: (row) => this.page.open(row.row) },
    );
    if (page.source.live && !page.source.framed) setInterval(() => document.hidden || this.look(), EVERY);
  }

  note() {
    return el("span", { class: "note" }, harmless(this.whyNot));
  }

  async look() {
    try {
      this.take(await this.page.source.marks(this.version));
    } catch {
      // the server may have stopped; the next mark will say so
    }
  }

  // The current marks from the server.
  take(answer) {
    if (!answer.marks || answer.version <= this.version) return; // an answer may be overtaken by a later one
    this.version = answer.version;
    this.values.fill(NO_MARK);
    this.suggestions.clear();
    for (const { row, mark, suggestion } of answer.marks) {
      this.values[row] = this.names.indexOf(mark);
      if (suggestion !== null) this.suggestions.set(row, suggestion);
    }
    this.page.columns.orders.delete("mark");
    this.page.marksChanged();
  }

  // One change at a time: keys may be pressed faster than the server answers.
  save(change, failed) {
    this.saved = this.saved.then(change).catch((error) => this.page.say(`${failed}: ${error.message}`, true));
    return this.page.until(this.saved);
  }

  put(row, mark, suggestion = null) {
    return this.save(async () => {
      this.take(await this.page.source.mark({ tab: this.tab, row, mark, suggestion }));
      this.page.say(
        mark
          ? `Marked ${mark}` + (suggestion === null ? "" : `: ${short(this.page.about.classes[suggestion], 40)}`)
          : "Mark removed",
      );
    }, "Not saved");
  }

  undo() {
    return this.save(async () => {
      const answer = await this.page.source.undo(this.tab);
      this.take(answer);
      const { undone, id, mark } = answer;
      const all = `${counted(undone, "mark")}: ${mark === "wrong label" ? "accepted suggestions" : mark}`; // of one action
      this.page.say(undone ? `Undone: ${undone > 1 ? all : "mark of " + short(id, 60)}` : "Nothing to undo in this tab");
    }, "Not undone");
  }

  // Mark all unmarked samples of the selection: as wrong, each with its suggested class, or as fine.
  putAll(mark) {
    const mask = packed(this.page.selection.mask);
    return this.save(async () => {
      const answer = await this.page.source.markAll(this.tab, mark, mask);
      this.take(answer);
      this.page.say(`Marked ${mark}: ${counted(answer.marked, "sample")}. Press u to undo.`);
    }, "Not saved");
  }

  // Progress of the review, and actions on all samples of the current filters.
  drawProgress() {
    const { columns, about, selection, view } = this.page,
      filtered = view.filters.length > 0,
      verdicts = about.suspects && columns.get("verdict"),
      some = verdicts ? columns.meta("verdict").names.length : 0,
      suggested = about.suspects && columns.get("suggested_label"),
      labels = columns.get("label"),
      c = about.classes.length;
    let total = 0,
      done = 0,
      free = 0,
      offered = 0;
    for (let row = 0; row < this.values.length; row++) {
      if (!selection.mask[row]) continue;
      const marked = this.values[row] !== NO_MARK;
      if (filtered || !verdicts || verdicts[row] < some) {
        total++;
        done += marked;
      }
      free += !marked;
      offered += !marked && suggested && suggested[row] < c && suggested[row] !== labels?.[row];
    }
    const box = document.getElementById("review-progress"),
      button = (words, onclick, strong = "") => el("button", { type: "button", class: strong, onclick }, words);
    box.hidden = !total || (this.readOnly && !done) || !(verdicts || filtered || done);
    box.replaceChildren(el("strong", { role: "status" }, `${count(done)} of ${count(total)} reviewed`));
    if (this.readOnly) return;
    if (filtered && offered)
      box.append(button(`Accept ${counted(offered, "suggestion")}`, () => this.putAll("wrong label"), "strong"));
    if (filtered && free) box.append(button(`Mark ${count(free)} fine`, () => this.putAll("fine")));
    if (about.apply && this.values.some((code) => code !== NO_MARK))
      box.append(button("Apply…", () => this.page.change({ tab: "review" })));
  }

  // The command that turns the marks into labels.
  applying() {
    const { about, say } = this.page;
    const copy = () =>
      navigator.clipboard
        .writeText(about.apply)
        .then(() => say.call(this.page, "Copied"))
        .catch(() => say.call(this.page, "Not copied: select the command and copy it", true));
    return el(
      "div",
      { class: "apply" },
      el("p", {}, "To write the corrected labels, type in a terminal:"),
      el("pre", { tabIndex: 0 }, harmless(about.apply)),
      el("button", { type: "button", onclick: copy }, "Copy"),
      el("p", { class: "quiet" }, "-o labels.parquet writes Parquet, -o corrected the images in a folder for each class."),
    );
  }

  // A key pressed on a sample; true if it is a key of the review. `next` moves on to the next sample.
  key(key, row, next) {
    if (this.readOnly) return this.refuse(key);
    if (key === "u") this.undo();
    else if (key === "x") this.put(row, null);
    else if (key === "w") this.choose(row, next);
    else if (key === "y" && this.page.about.suspects) this.accept(row, next);
    else if (KEYS[key]) {
      this.put(row, KEYS[key]);
      next();
    } else return false;
    return true;
  }

  // True if the key would mark a sample but cannot; the page says why.
  refuse(key) {
    const { source, about } = this.page;
    const ours = source.live && (key in KEYS || key === "x" || key === "u" || (key === "y" && about.suspects !== null));
    if (ours) this.page.say(this.whyNot, true);
    return ours;
  }

  // The class that `hardsight clean` suggests for a sample; null if it is the given one or there is none.
  suggested(row) {
    const { columns, about } = this.page;
    const code = columns.get("suggested_label")?.[row];
    return about.suspects && code < about.classes.length && code !== columns.get("label")?.[row] ? code : null;
  }

  // The name of the class that an arrow points to: what `y` accepts; without a label, or before `hardsight clean`, the prediction.
  instead(row) {
    const { columns, about } = this.page,
      given = columns.word("label", row),
      predicted = columns.word("predicted", row);
    if (about.suspects && given !== null) return about.classes[this.suggested(row)] ?? null;
    return predicted === given ? null : predicted;
  }

  // Accept the suggestion: a wrong label, and the class that it should be.
  accept(row, next) {
    const suggestion = this.suggested(row);
    if (suggestion === null) {
      this.page.say("No other class is suggested for this sample");
      return;
    }
    this.put(row, "wrong label", suggestion);
    next();
  }

  // Choose the right class: one key each for up to 36 classes; of more, the likely ones first and a search for the others; Enter
  // for the suggested or predicted one.
  choose(row, next) {
    const dialog = document.getElementById("chooser"),
      classes = this.page.about.classes;
    const suggested = this.suggested(row),
      predicted = this.page.columns.get("predicted")?.[row],
      guess = suggested ?? predicted,
      given = this.page.columns.get("label")?.[row];
    const few = classes.length <= CLASS_KEYS.length;
    const own = few && classes.every((name) => name.length === 1 && CLASS_KEYS.includes(name)); // digits, letters: their own keys
    const keys = own ? classes.join("") : CLASS_KEYS;
    const done = (suggestion) => {
      dialog.close();
      this.put(row, "wrong label", suggestion);
      next();
    };
    const button = (code) =>
      el(
        "button",
        { type: "button", class: "option" + (code === guess ? " strong" : ""), onclick: () => done(code) },
        few ? el("kbd", {}, keys[code]) : null,
        name(classes[code], 30),
        code === given ? el("span", { class: "quiet" }, " given") : null,
        code === guess ? el("span", { class: "quiet" }, suggested === null ? " ↵ predicted" : " ↵ suggested") : null,
        code !== guess && code !== given && first.has(code) ? el("span", { class: "quiet" }, " likely") : null,
      );
    const list = el("div", { class: "options" });
    let first = new Set(few ? [] : [guess, predicted]); // of many classes, those that are likely
    const fill = (text) => {
      const wanted = text.toLowerCase();
      const order = [...new Set([...first, ...classes.keys()])];
      const matching = order.filter((code) => classes[code]?.toLowerCase().includes(wanted));
      list.replaceChildren(...matching.slice(0, few ? 36 : 40).map(button));
      return matching;
    };
    const search = few ? null : el("input", { type: "search", placeholder: "Type a part of the name", "aria-label": "Class" });
    search?.addEventListener("input", () => fill(search.value));
    fill("");
    dialog.onkeydown = (event) => {
      const code = keys.indexOf(event.key);
      if (event.key === "Enter" && event.target.tagName !== "BUTTON")
        done(search?.value ? (fill(search.value)[0] ?? null) : guess < classes.length ? guess : null);
      else if (few && event.key.length === 1 && code >= 0 && code < classes.length) done(code);
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    const none = el("button", { type: "button", class: "option", onclick: () => done(null) }, "I don't know which");
    const title = el("h2", { id: "chooser-title", tabIndex: -1 }, "Wrong label: which class is it?");
    dialog.replaceChildren(title, ...(search ? [search] : []), list, none);
    dialog.showModal();
    (search ?? title).focus();
    if (few) return;
    const offer = ({ top }) => {
      first = new Set([guess, predicted, ...top]);
      if (list.isConnected) fill(search.value);
    };
    this.page.until(this.page.source.sample(row).then(offer, () => null)); // without an answer the list stays as it is
  }

  draw() {
    const { columns, about } = this.page,
      rows = [];
    const counts = this.names.map(() => 0);
    this.values.forEach((code, row) => {
      if (code === NO_MARK) return;
      counts[code]++;
      rows.push({
        row,
        mark: this.names[code],
        given: columns.word("label", row),
        suggestion: about.classes[this.suggestions.get(row)] ?? null,
      });
    });
    this.facts.replaceChildren(
      ...this.names.map((word, at) =>
        el(
          "button",
          { type: "button", class: "fact", onclick: () => this.page.addFilter(["in", "mark", [word]]) },
          el("span", { class: "quiet" }, word),
          el("strong", {}, String(counts[at])),
        ),
      ),
    );
    const quiet = (words) => el("p", { class: "quiet" }, harmless(words));
    if (!this.page.source.live) this.facts.append(quiet("Marks at the time this report was written."));
    else if (this.readOnly) this.facts.append(el("p", {}, this.note()));
    else if (rows.length) this.facts.append(quiet(`Marks are saved in ${about.review}.`));
    else
      this.facts.append(
        quiet("No marks yet. Press s to go to the samples, then one of the keys listed below them."),
        quiet(`They are saved in ${about.review}.`),
      );
    if (rows.length && about.apply) this.facts.append(this.applying());
    this.table.show(rows);
    this.page.samples.learnOf(rows.slice(0, 100).map((row) => row.row)).then((fresh) => fresh && this.table.fill());
  }
}

// A name for this tab, kept over reloads, so that it undoes only its own marks.
function remembered() {
  const fresh = Array.from(crypto.getRandomValues(new Uint32Array(3)), (part) => part.toString(36)).join("");
  try {
    const tab = sessionStorage.getItem("hardsight-tab") ?? fresh;
    sessionStorage.setItem("hardsight-tab", tab);
    return tab;
  } catch {
    return fresh;
  }
}
