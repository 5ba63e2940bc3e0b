// The page in a frame of a notebook. What it asks goes to the kernel as a message, and the answer comes back as one.

export default {
  render({ model, el }) {
    const frame = document.createElement("iframe"),
      own = Math.random().toString(36).slice(2), // the model may be shown in several places
      waiting = new Map(); // id of a request -> who waits for its answer
    let asked = 0;
    frame.ask = (address, { method = "GET", body } = {}) =>
      new Promise((resolve) => {
        const id = `${own}-${asked++}`,
          bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
        waiting.set(id, resolve);
        model.send({ id, method, address }, undefined, bytes ? [bytes] : []);
      });
    // A trait that the browser changes: marimo runs the cells again that use it.
    frame.selected = (size) => {
      model.set("selected", size);
      model.save_changes();
    };
    frame.theme = () => (isDark(el) ? "dark" : "light");
    const answered = ({ id, status, type }, [bytes]) => {
      waiting.get(id)?.({ status, type, bytes });
      waiting.delete(id);
    };
    const resize = () => (frame.style.height = `${model.get("height")}px`);
    model.on("msg:custom", answered);
    model.on("change:height", resize);
    frame.title = "hardsight explore";
    frame.style.cssText = "display:block;box-sizing:border-box;width:100%;border:1px solid rgba(128,128,128,.4)";
    frame.srcdoc = PAGE;
    resize();
    el.append(frame);
    return () => {
      model.off("msg:custom", answered);
      model.off("change:height", resize);
    };
  },
};

// Whether the notebook is dark behind an element; a canvas knows every way to write a color.
function isDark(element) {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  for (let node = element; node; node = node.parentElement ?? node.getRootNode().host) {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = getComputedStyle(node).backgroundColor;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue, opacity] = context.getImageData(0, 0, 1, 1).data;
    if (opacity > 0) return red + green + blue < 3 * 128;
  }
  return false;
}
