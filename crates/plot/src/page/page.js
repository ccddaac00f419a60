// Values under the pointer, tables that sort, and filters for mistakes. The page is whole without it.
"use strict";

// Titles become our own box: at once, with colors, and on touch. Screen readers keep the names as labels.
const box = document.createElement("div");
box.className = "tip-box";
box.hidden = true;
box.setAttribute("aria-hidden", "true");
document.body.append(box);
for (const title of document.querySelectorAll("svg > title")) {
  title.parentNode.setAttribute("aria-label", title.textContent);
  title.remove();
}
const textOf = (mark) => {
  const title = mark.querySelector(":scope > title");
  if (title) {
    mark.dataset.tip = title.textContent;
    title.remove();
  }
  return mark.dataset.tip;
};
let shown = null;
const show = (event) => {
  const mark = event.target instanceof Element ? event.target.closest(".tip") : null;
  box.hidden = !mark;
  if (!mark) {
    shown = null;
    return;
  }
  if (mark !== shown) {
    shown = mark;
    const colors = (mark.dataset.colors ?? "").split(" ").filter(Boolean);
    box.replaceChildren(...textOf(mark).split("\n").map((text, index) => {
      const line = document.createElement("div");
      if (index > 0 && colors[index - 1] !== undefined) {
        const dot = document.createElement("i");
        dot.style.background = `var(--curve-${colors[index - 1]})`;
        line.append(dot);
      } else if (index === 0) {
        line.style.fontWeight = "600";
      }
      line.append(text);
      return line;
    }));
  }
  const { width, height } = box.getBoundingClientRect();
  const left = event.clientX + 14 + width > innerWidth ? event.clientX - 14 - width : event.clientX + 14;
  const top = event.clientY + 14 + height > innerHeight ? event.clientY - 14 - height : event.clientY + 14;
  box.style.left = `${Math.max(8, Math.min(left, innerWidth - width - 8))}px`;
  box.style.top = `${Math.max(8, top)}px`;
};
document.addEventListener("pointermove", show, { passive: true });
document.addEventListener("pointerdown", show, { passive: true });
document.addEventListener("scroll", () => { box.hidden = true; shown = null; }, { passive: true, capture: true });

// A click on a header sorts by it: numbers from the highest, then back; what is missing stays last.
for (const table of document.querySelectorAll("figure.table table")) {
  const body = table.tBodies[0];
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const numeric = head.classList.contains("number");
      const down = head.ariaSort ? head.ariaSort === "ascending" : numeric;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[head.cellIndex];
        if (!numeric) return cell.textContent;
        return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
      };
      const order = (a, b) => {
        if (a === null || b === null) return (a === null) - (b === null);
        const way = numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
        return down ? -way : way;
      };
      body.append(...[...body.rows].sort((a, b) => order(key(a), key(b))));
    });
  }
}

// Filters choose which solutions are listed; the buttons open the next or the previous of them alone.
for (const form of document.querySelectorAll(".filters")) {
  const all = [...form.parentNode.querySelectorAll("details")];
  const filters = [...form.querySelectorAll("[data-filter]")];
  const output = form.querySelector("output");
  const listed = () => all.filter((one) => !one.hidden);
  const update = () => {
    for (const one of all) {
      one.hidden = filters.some(({ value, dataset }) => value && one.dataset[dataset.filter] !== value);
    }
    output.textContent = `${listed().length} of ${all.length} listed`;
  };
  const go = (way) => {
    const list = listed();
    if (!list.length) return;
    const at = list.findIndex((one) => one.open);
    const next = list[at < 0 ? 0 : Math.min(Math.max(at + way, 0), list.length - 1)];
    for (const one of all) one.open = one === next;
    next.scrollIntoView({ block: "nearest" });
    output.textContent = `${list.indexOf(next) + 1} of ${list.length}`;
  };
  for (const filter of filters) filter.addEventListener("change", update);
  for (const button of form.querySelectorAll("[data-go]")) {
    button.addEventListener("click", () => go(Number(button.dataset.go)));
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  update();
}

const save = document.querySelector("#save");
if (save) {
  save.hidden = false;
  save.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([document.querySelector("#data").textContent], { type: "application/json" }));
    link.download = `${document.title.replace(/\W+/g, "-").toLowerCase() || "report"}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
