// Shows the values of all curves of a panel at the step under the pointer.
for (const figure of document.querySelectorAll("figure")) {
  const data = figure.querySelector("script");
  if (!data) continue;
  const { left, right, from, to, curves } = JSON.parse(data.textContent);
  const svg = figure.querySelector("svg");
  const output = figure.querySelector("output");
  const line = document.createElementNS(svg.namespaceURI, "line");
  line.setAttribute("class", "here");
  line.setAttribute("y1", 0);
  line.setAttribute("y2", svg.viewBox.baseVal.height);
  const nearest = (points, step) => {
    let [low, high] = [0, points.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (points[middle][0] < step) low = middle; else high = middle;
    }
    return step - points[low][0] < points[high][0] - step ? points[low] : points[high];
  };
  const leave = () => { line.remove(); output.replaceChildren(); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    if (x < left || x > right) return leave();
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    svg.append(line);
    const step = from + (x - left) / (right - left) * (to - from);
    output.replaceChildren(...curves.map(({ run, split, colour, points }) => {
      const [at, value] = nearest(points, step);
      const dot = document.createElement("i");
      dot.style.background = `var(--curve-${colour})`;
      const text = document.createElement("span");
      text.append(dot, `step ${at}: ${Number(value.toPrecision(5))}`);
      text.title = `${run} ${split}`;
      return text;
    }));
  });
}
