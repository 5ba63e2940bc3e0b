// Thumbnails on the points of the scatter, when it is zoomed in far enough.

const SIDE = 40, // of a picture, in CSS pixels
  MOST_POINTS = 400, // in view; more would be mostly hidden
  MOST_KEPT = 600,
  CALM = 120; // milliseconds without another zoom until pictures are fetched

export class PointPictures {
  constructor(scatter) {
    this.scatter = scatter;
    this.address = null; // row -> where its picture is, or null; none without pictures
    this.images = new Map(); // row -> image
    this.rows = [];
  }

  // The selected rows in view that get a picture: none without a zoom, or where there are too many.
  choose() {
    this.rows = this.address && this.scatter.zoom ? this.apart(this.inView()) : [];
    clearTimeout(this.waiting);
    if (this.rows.some((row) => !this.images.has(row))) this.waiting = setTimeout(() => this.fetch(), CALM);
  }

  inView() {
    const { places, mask } = this.scatter,
      rows = [];
    for (let row = 0; row < places.length; row++) {
      if (places[row] < 0 || !mask[row]) continue;
      if (rows.length === MOST_POINTS) return [];
      rows.push(row);
    }
    return rows;
  }

  // Those that do not overlap, in their order; the others stay dots.
  apart(rows) {
    const [xs, ys] = this.scatter.values(),
      taken = [];
    return rows.filter((row) => {
      const [px, py] = this.scatter.pixel(xs[row], ys[row]);
      if (taken.some(([x, y]) => Math.abs(x - px) < SIDE + 3 && Math.abs(y - py) < SIDE + 3)) return false;
      if (this.address(row) === null) return false;
      taken.push([px, py]);
      return true;
    });
  }

  fetch() {
    for (const row of this.rows) {
      if (this.images.has(row)) continue;
      const image = new Image();
      image.addEventListener("load", () => this.drawSoon());
      Promise.resolve(this.address(row)).then((known) => (image.src = known));
      this.images.set(row, image);
      if (this.images.size > MOST_KEPT) this.images.delete(this.images.keys().next().value);
    }
  }

  // Pictures that arrive together are drawn together.
  drawSoon() {
    this.drawing ??= requestAnimationFrame(() => {
      this.drawing = null;
      this.scatter.drawOver();
    });
  }

  draw(context) {
    const { scatter } = this,
      [xs, ys] = scatter.values();
    let drawn = 0;
    for (const row of this.rows) {
      const image = this.images.get(row);
      if (!image?.complete || !image.naturalWidth) continue;
      const [px, py] = scatter.pixel(xs[row], ys[row]),
        scale = SIDE / Math.max(image.naturalWidth, image.naturalHeight),
        [w, h] = [image.naturalWidth * scale, image.naturalHeight * scale];
      context.imageSmoothingEnabled = scale < 1;
      context.drawImage(image, px - w / 2, py - h / 2, w, h);
      context.strokeStyle = scatter.colorOf(row);
      context.lineWidth = 2;
      context.strokeRect(px - w / 2, py - h / 2, w, h);
      drawn++;
    }
    scatter.over.dataset.pictures = drawn;
  }
}
