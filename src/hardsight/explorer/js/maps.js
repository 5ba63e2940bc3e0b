// The map: the features in two dimensions, by PCA at once, by t-SNE or UMAP once the server has made it.
//
// The page stays as it is while a map is made; then it is shown, if it is still the one requested last.

import { columnsOf } from "./selection.js";
import { address } from "./state.js";
import { count, el, harmless } from "./words.js";

const PATIENCE = 500; // milliseconds between questions how far it is

export class Maps {
  constructor(page) {
    this.page = page;
    this.list = page.about.maps; // [{method, title, axes, most}]
    this.asked = null; // the requested method, shown as soon as it is ready
    this.select = document.getElementById("map");
    this.bar = document.getElementById("map-progress");
    this.before = null; // the axes that a map replaced
    this.select.append(
      el("option", { value: "" }, this.list.length ? "off" : "needs features"),
      ...this.list.map(({ method, title }) => el("option", { value: method }, title)),
    );
    this.select.disabled = !this.list.length;
    if (!page.source.live && !this.list.length) this.select.parentElement.hidden = true;
    this.select.addEventListener("change", () => this.choose(this.select.value));
  }

  of(column) {
    return this.list.find(({ axes }) => axes.includes(column));
  }

  isHere({ axes }) {
    return axes.every((axis) => this.page.columns.has(axis));
  }

  // The maps of a view that are not loaded yet, and the view without them.
  missing(view) {
    const named = new Set([view.x, view.y, ...view.filters.flatMap(columnsOf)].map((column) => this.of(column)));
    return this.list.filter((map) => named.has(map) && !this.isHere(map));
  }

  without(view) {
    const here = (column) => !this.of(column) || this.isHere(this.of(column));
    const [x, y] = here(view.x) && here(view.y) ? [view.x, view.y] : [undefined, undefined];
    return { ...view, x, y, zoom: x ? view.zoom : null, filters: view.filters.filter((filter) => columnsOf(filter).every(here)) };
  }

  // Set both axes to a map, or back to those before it.
  async choose(method) {
    const { page } = this,
      map = this.list.find((one) => one.method === method);
    if (page.moved) page.dynamics.leave();
    this.asked = method || null;
    if (!map) {
      this.hide();
      page.change({ ...(this.before ?? { x: page.about.axes.x, y: page.about.axes.y }), zoom: null });
      return;
    }
    if (!(await this.make(map))) return;
    if (this.asked !== method) {
      page.say(`The ${map.title} map is ready`);
      return;
    }
    if (!this.of(page.view.x)) this.before = { x: page.view.x, y: page.view.y };
    await page.change({ x: map.axes[0], y: map.axes[1], zoom: null });
    if (map.most && map.most < page.columns.n)
      page.say(
        `${map.title} places an even ${count(map.most)} of the ${count(page.columns.n)} samples; the others are not drawn.`,
      );
  }

  // One axis only, chosen in its menu.
  async axis(key, column) {
    const map = this.of(column);
    this.asked = map.method;
    if ((await this.make(map)) && this.asked === map.method) await this.page.change({ [key]: column, zoom: null });
  }

  // Load a map; false if there is none in the end.
  async make(map) {
    if (this.isHere(map)) return true;
    try {
      let now = await this.page.source.startMap(map.method);
      while (now.state === "working") {
        this.show(map, now);
        await new Promise((done) => setTimeout(done, PATIENCE));
        now = await this.page.source.map(map.method);
      }
      if (now.note) this.page.say(now.note, now.state !== "ready");
      if (now.state === "ready") this.page.columns.add(now.columns);
    } catch (error) {
      this.page.say(error.message, true);
    }
    this.hide();
    if (this.isHere(map)) return true;
    this.draw();
    return false;
  }

  // The map of an address: at once if it is quick or saved, else after the rest of the view.
  async bring(view, wanted) {
    const hash = address(); // it changes if the user does anything meanwhile
    const all = Promise.all(this.missing(wanted).map((map) => this.make(map))).then((made) => made.every(Boolean));
    const quick = await Promise.race([all, new Promise((done) => setTimeout(done, 2 * PATIENCE, null))]);
    if (quick !== null) return quick ? wanted : view;
    all.then((made) => made && address() === hash && this.page.look(wanted));
    return view;
  }

  show(map, { share, left }) {
    const most = map.most && map.most < this.page.columns.n ? ` of ${count(map.most)} samples` : "";
    const bar = el("progress", { max: 1, "aria-label": "Progress of the map" });
    if (share !== null) bar.value = share;
    const far = share === null ? "" : ` ${Math.round(100 * share)} %${left > 1 ? `, about ${Math.ceil(left)} s left` : ""}`;
    const stop = el("button", { type: "button", onclick: () => this.page.source.stopMap(map.method) }, "Stop");
    this.bar.replaceChildren(
      el("span", {}, `${map.title} map${most}${far}`),
      bar,
      ...(map.most ? [el("span", { class: "quiet" }, "You can keep using the page; the result is saved."), stop] : []),
    );
    this.bar.hidden = false;
  }

  hide() {
    this.bar.hidden = true;
  }

  // The state of the menu, and how many samples are not placed.
  draw() {
    const { view, columns } = this.page;
    const map = this.list.find(({ axes }) => axes[0] === view.x && axes[1] === view.y);
    this.select.value = map?.method ?? "";
    this.select.title = map?.most && map.most < columns.n ? harmless(`${map.title} of an even ${count(map.most)} samples`) : "";
  }
}
