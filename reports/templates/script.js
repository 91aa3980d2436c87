"use strict";
for (const code of document.querySelectorAll("pre.cmd > code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy the command");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected";
    }
  });
  code.parentElement.append(button);
}
for (const figure of document.querySelectorAll("figure.chart")) {
  const source = figure.querySelector("script");
  const svg = figure.querySelector("svg");
  const line = svg.querySelector(".cursor");
  const readout = figure.querySelector(".readout");
  if (!source || !line) continue;
  const data = JSON.parse(source.textContent);
  const order = data.x.map((x, index) => index).sort((a, b) => data.x[a] - data.x[b]);
  let at = order.length - 1;
  const show = (position) => {
    at = Math.max(0, Math.min(order.length - 1, position));
    const index = order[at];
    line.setAttribute("x1", data.x[index]);
    line.setAttribute("x2", data.x[index]);
    line.setAttribute("visibility", "visible");
    readout.textContent = data.text[index];
  };
  readout.textContent = "Move over the picture, or focus it and use the arrow keys, to read single values.";
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    show(at + step);
  });
  svg.addEventListener("focus", () => show(at));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    let best = 0;
    for (let i = 0; i < order.length; i++) if (Math.abs(data.x[order[i]] - x) < Math.abs(data.x[order[best]] - x)) best = i;
    show(best);
  });
}
