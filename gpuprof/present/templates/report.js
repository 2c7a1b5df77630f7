// What the page can do beyond its text: sort and filter the table, copy links, open what is closed.
(() => {
  "use strict";
  const table = document.getElementById("kernel-table");
  const rows = table ? [...table.tBodies[0].rows] : [];

  const order = (row, column) => {
    const cell = row.cells[column];
    return "v" in cell.dataset
      ? (cell.dataset.v === "" ? null : Number(cell.dataset.v))
      : cell.textContent.trim().toLowerCase();
  };

  const compare = (one, other) => {
    if (one === null || other === null) return (one === null) - (other === null);
    return typeof one === "string" ? one.localeCompare(other, "en") : one - other;
  };

  const sortBy = (column, heading) => {
    const isText = !("v" in (rows[0]?.cells[column]?.dataset ?? {}));
    const first = isText || column === 0 ? "ascending" : "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const wanted = heading.getAttribute("aria-sort") === first ? other : first;
    for (const item of heading.parentNode.cells) item.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", wanted);
    const sign = wanted === "ascending" ? 1 : -1;
    const keyed = rows.map((row) => [order(row, column), row]);
    keyed.sort(([one], [two]) => one === null || two === null ? compare(one, two) : sign * compare(one, two));
    table.tBodies[0].append(...keyed.map(([, row]) => row));
  };

  const makeSortable = () => {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sortBy(column, heading));
      heading.append(button);
      if (heading.classList.contains("time")) heading.setAttribute("aria-sort", "descending");
    });
  };

  const makeFilterable = () => {
    const input = document.getElementById("filter");
    const count = document.getElementById("filter-count");
    const texts = rows.map((row) =>
      [row.textContent, ...[...row.querySelectorAll("[title]")].map((item) => item.title)].join(" ").toLowerCase());
    const filter = () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, index) => {
        row.hidden = !words.every((word) => texts[index].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    };
    input.addEventListener("input", filter);
    document.getElementById("filter-box").hidden = false;
  };

  const copied = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  };

  const addCopyButton = (item, words, label, text) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = words;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", async () => {
      const done = await copied(text());
      button.textContent = done ? "Copied" : "Clipboard not available";
      setTimeout(() => { button.textContent = words; }, 2000);
    });
    item.after(button);
  };

  const addCopyButtons = () => {
    for (const heading of document.querySelectorAll("article.kernel > h3, .card > h4")) {
      addCopyButton(heading, "Copy link", `Copy a link to: ${heading.textContent.trim()}`,
        () => `${location.href.split("#")[0]}#${heading.id}`);
    }
    const command = document.getElementById("command");
    if (command) addCopyButton(command, "Copy", "Copy the command", () => command.textContent);
  };

  // A region that does not scroll needs neither a stop of the Tab key nor a place among the landmarks.
  const markWhatScrolls = () => {
    const boxes = [...document.querySelectorAll(".scroll")];
    const labels = new Map(boxes.map((box) => [box, box.getAttribute("aria-label")]));
    const toggle = (box) => {
      const scrolls = box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight;
      for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", labels.get(box)]]) {
        if (scrolls) box.setAttribute(name, value);
        else box.removeAttribute(name);
      }
    };
    const watch = new ResizeObserver((entries) => { for (const { target } of entries) toggle(target); });
    for (const box of boxes) watch.observe(box);
  };

  // What a link leads to may lie in a closed part of the page.
  const openWhatIsLinked = () => {
    const open = () => {
      const item = document.getElementById(decodeURIComponent(location.hash.slice(1)));
      const inner = item?.querySelector(":scope > details");
      if (inner) inner.open = true;
      for (let box = item?.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
      item?.scrollIntoView();
    };
    addEventListener("hashchange", open);
    if (location.hash) open();
  };

  const openForPrint = () => {
    let opened = [];
    let removed = [];
    addEventListener("beforeprint", () => {
      // Hidden parts that links lead to cost a browser minutes: it looks for each of them on every page.
      removed = [...document.querySelectorAll(".only-screen")].map((item) => {
        const place = document.createComment("");
        item.replaceWith(place);
        return [place, item];
      });
      opened = [...document.querySelectorAll("details:not([open])")];
      for (const item of opened) item.open = true;
    });
    addEventListener("afterprint", () => {
      for (const item of opened) item.open = false;
      for (const [place, item] of removed) place.replaceWith(item);
    });
  };

  if (table) {
    makeSortable();
    makeFilterable();
  }
  addCopyButtons();
  markWhatScrolls();
  openWhatIsLinked();
  openForPrint();
})();
