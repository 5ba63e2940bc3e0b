// The data, from Python: over HTTP, or in a notebook through the frame that shows the page (widget.js). embedded.js is the
// twin for reports.

const KINDS = { float32: Float32Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array };

const PATIENCE = 8000; // milliseconds
const LATE = "The kernel does not answer. If it is not busy, it was restarted and no longer knows this page: run the cell again.";

export const typed = (kind, buffer) => new KINDS[kind](buffer);

// Answers as `fetch` gives them; in a notebook, the frame has them from the kernel.
async function asked(address, options) {
  const frame = window.frameElement;
  if (!frame?.ask) return fetch(address, options);
  const late = setTimeout(() => window.hardsight?.say(LATE, true), PATIENCE);
  const { status, type, bytes } = await frame.ask(address, options).finally(() => clearTimeout(late));
  return new Response(bytes, { status, headers: { "content-type": type } });
}

export class Server {
  constructor() {
    this.version = Date.now().toString(36); // so that cached pictures of another run at the same address are not used
    this.live = true;
    this.framed = Boolean(window.frameElement?.ask);
    this.pictures = new Map(); // address -> data address, in a frame
  }

  async about() {
    const about = await this.json("api/run");
    this.token = about.write_token;
    return about;
  }

  async column(meta) {
    return typed(meta.kind, await this.bytes("api/column?name=" + encodeURIComponent(meta.name)));
  }

  thumb(row) {
    return this.picture(`thumb/${row}?v=${this.version}`);
  }

  image(row) {
    return this.picture(`image/${row}?v=${this.version}`);
  }

  // Where an image is: its address, or in a frame, which has none, a promise of its bytes as an address.
  picture(address) {
    if (!this.framed) return address;
    if (!this.pictures.has(address)) this.pictures.set(address, this.get(address).then(dataAddress));
    return this.pictures.get(address);
  }

  rows(rows) {
    return rows.length ? this.json("api/rows?rows=" + rows.join(",")) : [];
  }

  async find(text) {
    return new Uint32Array(await this.bytes("api/find?text=" + encodeURIComponent(text)));
  }

  sample(row) {
    return this.json("api/sample/" + row);
  }

  story(row) {
    return this.json("api/story/" + row);
  }

  neighbors(row) {
    return this.json("api/neighbors/" + row);
  }

  async cosines() {
    return new Float32Array(await this.bytes("api/cosines"));
  }

  async epoch(at, measure) {
    return new Float32Array(await this.bytes(`api/epoch/${at}/${measure}`));
  }

  curves(measure, by, mask) {
    return this.post(`api/curves?measure=${encodeURIComponent(measure)}&by=${encodeURIComponent(by)}`, mask).then((r) =>
      r.json(),
    );
  }

  agreement(score, by, mask) {
    return this.post(`api/agreement?score=${encodeURIComponent(score)}&by=${encodeURIComponent(by)}`, mask).then((r) => r.json());
  }

  map(method) {
    return this.json("api/map/" + method);
  }

  startMap(method) {
    return this.post("api/map/" + method).then((r) => r.json());
  }

  stopMap(method) {
    return this.post(`api/map/${method}/stop`).then((r) => r.json());
  }

  marks(since) {
    return this.json("api/review?since=" + since);
  }

  mark(change) {
    return this.post("api/mark", JSON.stringify(change)).then((r) => r.json());
  }

  markAll(tab, mark, mask) {
    return this.post(`api/mark-all?tab=${tab}&mark=${encodeURIComponent(mark)}`, mask).then((r) => r.json());
  }

  undo(tab) {
    return this.post("api/undo", JSON.stringify({ tab })).then((r) => r.json());
  }

  export(what, format, mask) {
    return this.post(`api/export?what=${what}&format=${format}`, mask).then((r) => r.blob());
  }

  async get(address) {
    return checked(await asked(address));
  }

  async json(address) {
    return (await this.get(address)).json();
  }

  async bytes(address) {
    return (await this.get(address)).arrayBuffer();
  }

  async post(address, body) {
    return checked(await asked(address, { method: "POST", body, headers: { "X-Hardsight": this.token } }));
  }
}

async function dataAddress(response) {
  const reader = new FileReader();
  reader.readAsDataURL(await response.blob());
  await new Promise((done) => (reader.onload = done));
  return reader.result;
}

async function checked(response) {
  if (response.ok) return response;
  const text = await response.text();
  let words = text;
  try {
    words = JSON.parse(text).error ?? text;
  } catch {
    // plain words
  }
  throw new Error(words.trim() || `the server answered ${response.status}`);
}
