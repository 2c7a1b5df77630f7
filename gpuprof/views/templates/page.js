// What the page can do beyond its text: sort and filter tables, explain and zoom figures, copy, open what is folded.
(() => {
  "use strict";
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const rowOf = (kernel) => document.getElementById(`row-${kernel}`);
  const pointsOf = (row) =>
    row.id.startsWith("row-") ? all(`svg.figure [data-kernel="${CSS.escape(row.id.slice(4))}"]`) : [];
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

  const make = (tag, properties) => Object.assign(document.createElement(tag), properties);
  const button = (text, label, action) =>
    make("button", { type: "button", textContent: text, ariaLabel: label, onclick: action });

  // Tables

  const keyOf = (cell, hasOrder) => {
    if (hasOrder) return "v" in cell.dataset ? Number(cell.dataset.v) : null;
    const text = cell.textContent.trim();
    if (!cell.classList.contains("number")) return text.toLowerCase() || null;
    const value = parseFloat(text.replace(/[\s,]/g, ""));
    return Number.isNaN(value) ? null : value;
  };

  // Cells without a value come last in either order.
  const sortBy = (table, column, heading) => {
    const rows = [...table.tBodies[0].rows];
    const hasOrder = rows.some((row) => "v" in row.cells[column].dataset);
    const keys = new Map(rows.map((row) => [row, keyOf(row.cells[column], hasOrder)]));
    const isText = [...keys.values()].some((key) => typeof key === "string");
    const first = isText || column === 0 ? "ascending" : "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const wanted = heading.getAttribute("aria-sort") === first ? other : first;
    for (const item of heading.parentNode.cells) item.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", wanted);
    const sign = wanted === "ascending" ? 1 : -1;
    rows.sort((left, right) => {
      const [one, two] = [keys.get(left), keys.get(right)];
      if (one === null || two === null) return (one === null) - (two === null);
      return sign * (isText ? one.localeCompare(two, "en") : one - two);
    });
    table.tBodies[0].append(...rows);
  };

  const makeSortable = (table) => [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const sorter = button("", `Sort by ${heading.textContent}`, () => sortBy(table, column, heading));
    sorter.append(...heading.childNodes);
    heading.append(sorter);
  });

  const makeFilterable = (table) => {
    const rows = [...table.tBodies[0].rows];
    const texts = rows.map((row) =>
      [row.textContent, ...all("[title]", row).map((item) => item.title)].join(" ").toLowerCase());
    const box = make("p", { className: "search" });
    box.innerHTML = '<label>Filter <input type="search" autocomplete="off" spellcheck="false"></label> <output></output>';
    const input = box.querySelector("input");
    const filter = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, index) => {
        row.hidden = !words.every((word) => texts[index].includes(word));
        shown += row.hidden ? 0 : 1;
        for (const point of pointsOf(row)) point.classList.toggle("dimmed", row.hidden);
      });
      box.lastChild.textContent = words.length ? `${shown} of ${rows.length} rows` : `${rows.length} rows`;
    };
    input.addEventListener("input", filter);
    table.addEventListener("clear", () => { input.value = ""; filter(); });
    table.closest(".scroll").before(box);
    filter();
    for (const row of rows) {
      const mark = ({ type }) =>
        pointsOf(row).forEach((point) => point.classList.toggle("marked", type === "pointerenter"));
      for (const name of ["pointerenter", "pointerleave"]) row.addEventListener(name, mark);
    }
  };

  // Figures

  const readout = make("div", { className: "readout", hidden: true, ariaHidden: "true" });

  const explain = (svg) => {
    let shown = null;
    const hide = () => {
      rowOf(shown?.dataset.kernel)?.classList.remove("marked");
      readout.hidden = true;
      shown = null;
    };
    const show = (item, x, y) => {
      if (item !== shown) hide();
      if (!item) return;
      shown = item;
      rowOf(item.dataset.kernel)?.classList.add("marked");
      readout.textContent = item.dataset.text;
      readout.hidden = false;
      const { offsetWidth: width, offsetHeight: height } = readout;
      readout.style.left = `${clamp(x + 14, 8, innerWidth - width - 8)}px`;
      readout.style.top = `${y + 16 + height < innerHeight ? y + 16 : y - height - 12}px`;
    };
    for (const title of all("title", svg)) {
      const item = title.parentNode;
      if (item === svg) continue;
      item.dataset.text ??= title.textContent;
      (item.querySelector("a") ?? item).setAttribute("aria-label", title.textContent);
      // The browser's own box would cover ours.
      title.remove();
    }
    svg.addEventListener("pointermove", (event) => show(event.target.closest("[data-text]"), event.clientX, event.clientY));
    svg.addEventListener("focusin", (event) => {
      const place = event.target.getBoundingClientRect();
      show(event.target.closest("[data-text]"), place.right, place.bottom);
    });
    for (const name of ["pointerleave", "focusout"]) svg.addEventListener(name, hide);
  };

  // A wheel that scrolls the page does not zoom the figures that come below it.
  let scrolledAt = -Infinity;
  addEventListener("scroll", () => { scrolledAt = performance.now(); }, { passive: true });

  const makeZoomable = (svg) => {
    const { x, y, width, height } = svg.viewBox.baseVal;
    const isWide = svg.dataset.zoom === "x";
    if (!width) return;
    svg.style.aspectRatio = `${width} / ${height}`;
    if (isWide) svg.setAttribute("preserveAspectRatio", "none");
    // The part that is shown: its left and upper edge and its size, as shares of the whole.
    let view = { left: 0, top: 0, size: 1 };
    const show = (left, top, wanted) => {
      const size = clamp(wanted, 0.02, 1);
      const high = isWide ? 1 : size;
      view = { left: clamp(left, 0, 1 - size), top: clamp(top, 0, 1 - high), size };
      svg.setAttribute("viewBox", [x + view.left * width, y + view.top * height, size * width, high * height].join(" "));
      svg.classList.toggle("zoomed", size < 1);
      svg.style.setProperty("--less", isWide ? `${size} 1` : `${size ** 0.8}`);
    };
    const zoomAt = (factor, across, down) => {
      const size = clamp(view.size / factor, 0.02, 1);
      show(view.left + across * (view.size - size), view.top + down * (view.size - size), size);
    };
    // Return where an event is, as shares of the drawing.
    const placeOf = (event) => {
      const box = svg.getBoundingClientRect();
      return [clamp((event.clientX - box.left) / box.width, 0, 1), clamp((event.clientY - box.top) / box.height, 0, 1)];
    };
    svg.addEventListener("wheel", (event) => {
      const factor = Math.exp(-event.deltaY * (event.deltaMode ? 0.04 : 0.002));
      const isScrolling = !event.ctrlKey && performance.now() - scrolledAt < 400;
      if (isScrolling || (factor <= 1 && view.size === 1)) return;
      event.preventDefault();
      zoomAt(factor, ...placeOf(event));
    }, { passive: false });
    svg.addEventListener("dblclick", () => show(0, 0, 1));
    svg.addEventListener("dragstart", (event) => event.preventDefault());

    // A drag moves a figure that is zoomed, and selects a part of one that is not.
    let start = null;
    let hasMoved = false;
    const selection = make("div", { className: "selection" });
    svg.addEventListener("pointerdown", (event) => {
      hasMoved = false;
      if (event.button === 0 && event.pointerType !== "touch") start = { event, place: placeOf(event), view };
    });
    addEventListener("pointermove", (event) => {
      hasMoved ||= start && Math.hypot(event.clientX - start.event.clientX, event.clientY - start.event.clientY) > 5;
      if (!start || !hasMoved) return;
      const [across, down] = placeOf(event);
      if (start.view.size < 1) {
        const { left, top, size } = start.view;
        show(left - (across - start.place[0]) * size, top - (down - start.place[1]) * size, size);
        return;
      }
      const box = svg.getBoundingClientRect();
      const edges = isWide ? [0, 1] : [down, start.place[1]].sort((one, two) => one - two);
      selection.style.left = `${box.left + Math.min(across, start.place[0]) * box.width}px`;
      selection.style.width = `${Math.abs(across - start.place[0]) * box.width}px`;
      selection.style.top = `${box.top + edges[0] * box.height}px`;
      selection.style.height = `${(edges[1] - edges[0]) * box.height}px`;
      document.body.append(selection);
    });
    addEventListener("pointerup", (event) => {
      if (start && hasMoved && start.view.size === 1) {
        const [across, down] = placeOf(event);
        const size = Math.max(Math.abs(across - start.place[0]), isWide ? 0 : Math.abs(down - start.place[1]));
        show((across + start.place[0] - size) / 2, (down + start.place[1] - size) / 2, size);
      }
      selection.remove();
      start = null;
    });
    svg.addEventListener("click", (event) => { if (hasMoved) event.preventDefault(); });
    const buttons = make("div", { className: "zoom" });
    buttons.append(
      button("+", "Zoom in", () => zoomAt(1.6, 0.5, 0.5)),
      button("−", "Zoom out", () => zoomAt(1 / 1.6, 0.5, 0.5)),
      button("Reset", "Show the whole figure", () => show(0, 0, 1)),
    );
    svg.parentNode.after(buttons);
  };

  // The page

  const addCopyButton = (place, words, label, text) => {
    const made = button(words, label, () => navigator.clipboard.writeText(text()).then(
      () => { made.textContent = "Copied"; }, () => { made.textContent = "Clipboard not available"; }));
    made.className = "copy";
    place.after(made);
  };

  const addCopyButtons = () => {
    for (const item of all(".section[id], .card[id]")) {
      const heading = item.querySelector("h3, h4, h5");
      addCopyButton(heading.closest("summary") ?? heading, "Copy link", `Copy a link to: ${heading.textContent.trim()}`,
        () => `${location.href.split("#")[0]}#${item.id}`);
    }
    for (const code of all(".command > code")) addCopyButton(code, "Copy", "Copy the command", () => code.textContent);
  };

  // A region that does not scroll needs no stop of the Tab key. A tall table that is not too wide needs no box.
  const markWhatFits = (boxes) => {
    for (const { target } of boxes) {
      const fits = target.scrollWidth <= target.clientWidth;
      target.classList.toggle("fits", fits);
      target.tabIndex = fits ? -1 : 0;
    }
  };

  // What a link leads to may lie in a fold, or in a row that a filter hides.
  const reveal = () => {
    const item = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!item) return;
    if (item.hidden) item.closest("table").dispatchEvent(new Event("clear"));
    const inner = item.querySelector(":scope > details");
    for (let fold = inner ?? item.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    item.scrollIntoView();
  };

  document.body.append(readout);
  for (const table of all("table.filter")) {
    makeSortable(table);
    makeFilterable(table);
  }
  for (const svg of all("svg.figure")) {
    explain(svg);
    makeZoomable(svg);
  }
  addCopyButtons();
  const watch = new ResizeObserver(markWhatFits);
  for (const box of all(".scroll")) watch.observe(box);
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    if (event.target.closest("a[href^='#']")?.getAttribute("href") === location.hash) reveal();
  });
  if (location.hash) reveal();
})();
